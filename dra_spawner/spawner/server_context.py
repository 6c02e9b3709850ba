"""A user's server as the parts of DRASpawner see it: its spawner, what follows from its settings, and its cluster."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from kubespawner import KubeSpawner

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.profiles.common_options import with_common_options
from dra_spawner.spawner.devices.reader import DeviceReader, device_reader
from dra_spawner.spawner.settings import SpawnerSettings, applied_later

#: Traits that a profile may change for one start only; the overrides of a profile are merged into dicts in place.
_OF_ONE_START: Final = (
    "device_claims",
    "intel_gas",
    "vlans",
    "devices_idle_timeout",
    "devices_lifetime",
    "devices_lifetime_notice",
    "instead",
    "take_instead",
)


def parts_of(spawner: object) -> Any:
    """The parts of a DRASpawner, as `dra_spawner.spawner.spawner.SpawnerParts`; None for another spawner."""
    return getattr(spawner, "_dra", None)


class ServerContext:
    """A user's server.

    Attributes
    ----------
    spawner
        KubeSpawner with the traits of `DRASpawner`.
    configured
        Values of traits before a profile changed them.
    """

    def __init__(self, spawner: SpawnerSettings) -> None:
        self.spawner = spawner
        self.log = spawner.log
        self.configured = {name: copy.deepcopy(getattr(spawner, name)) for name in _OF_ONE_START}
        self._replaced: tuple[Any, Any] | None = None

    def replace_options(self, options: Any) -> None:
        """Let this start have other options than the user chose; the next form begins with the user's."""
        self._replaced = self.spawner.user_options, options
        self.spawner.user_options = options

    def restore_settings(self) -> None:
        """Forget a profile's changes of traits, and options that the user did not choose."""
        if self._replaced is not None and self.spawner.user_options == self._replaced[1]:
            self.spawner.user_options = self._replaced[0]
        self._replaced = None
        for name, value in self.configured.items():
            if getattr(self.spawner, name) != value:
                setattr(self.spawner, name, copy.deepcopy(value))

    @property
    def settings_of_choices(self) -> dict[str, Any]:
        """Traits that decide what choices are, before a profile changed them."""
        traits = ("device_claims", "devices_lifetime", "instead", "take_instead")
        gates = self.spawner.kubernetes_feature_gates
        return {name: self.configured[name] for name in traits} | {"kubernetes_feature_gates": gates}

    # The cluster

    @property
    def kubernetes(self) -> KubernetesApi:
        """Client of the API server, over KubeSpawner's connection."""
        return KubernetesApi(self.spawner.api.api_client, timeout_seconds=self.spawner.k8s_api_request_timeout)

    @property
    def devices(self) -> DeviceReader:
        """Reader of the cluster's devices, shared by all spawners of a hub."""
        return device_reader(self.kubernetes)

    @property
    def servers_namespace(self) -> str | None:
        """Namespace of all servers of this hub; None if each user has one."""
        return None if self.spawner.enable_user_namespaces else self.spawner.namespace

    @property
    def hub_namespace(self) -> str:
        """Namespace of the hub; outside of a cluster, the label in ``user_namespace_labels``."""
        labels = self.spawner.user_namespace_labels
        return str(labels.get(names.HUB_NAMESPACE) or self.spawner._namespace_default())

    @property
    def pod_key(self) -> str:
        """Namespace and name of the server's pod, by which KubeSpawner's reflectors know it."""
        return f"{self.spawner.namespace}/{self.spawner.pod_name}"

    def pod(self) -> JsonObject | None:
        """The server's pod; None if the hub does not see it."""
        reflector = self.spawner.pod_reflector
        return reflector.pods.get(self.pod_key) if reflector is not None else None

    def ended_pod(self) -> JsonObject | None:
        """The last state of the server's pod if it is gone; None if the hub has not seen it."""
        ended: dict[str, JsonObject] = getattr(self.spawner.pod_reflector, "ended", {})
        return ended.get(self.pod_key)

    def cluster_is_silent(self) -> bool:
        """Whether the cluster does not answer the hub, so that what the hub knows of the server may be old."""
        return bool(getattr(self.spawner.pod_reflector, "is_silent", bool)())

    def pod_events(self) -> Iterator[JsonObject]:
        """Events of the server's pods in any order, of earlier starts, too.

        ``events`` of KubeSpawner sorts the events of all servers.
        """
        reflector, name = self.spawner.event_reflector, self.spawner.pod_name
        for event in list(reflector.resources.values()) if reflector else ():
            if event["involvedObject"]["name"] == name:
                yield event

    # The user, and the user's choice

    @property
    def user_groups(self) -> list[str]:
        """Names of the user's groups in the hub."""
        return [group.name for group in self.spawner.user.groups]

    @property
    def configured_profiles(self) -> Any:
        """The static list of profiles with the common options; a function as it is configured."""
        return with_common_options(self.spawner.profile_list, self.spawner.common_profile_options)

    @property
    def chosen_profile(self) -> str:
        """Slug of the profile that the user chose; empty for none. Without profiles, options have another meaning."""
        options = self.spawner.user_options or {}
        return str(options.get("profile") or "") if self.spawner.profile_list else ""

    @property
    def is_trial(self) -> bool:
        """Whether ``dra-spawner try`` has ordered the server."""
        options = self.spawner.user_options
        return isinstance(options, Mapping) and bool(options.get(names.TRIAL_OPTION))

    @property
    def other_code_reads_options(self) -> bool:
        """Whether code of the hub's own may read options that no profile has: its spawner class, or its hooks."""
        applied = getattr(self.spawner, "apply_user_options", None)  # since JupyterHub 5.3
        return (
            any(not _is_known(kind) for kind in type(self.spawner).__mro__)
            or self.spawner.options_from_form != self.spawner._options_from_form
            or (callable(applied) and applied is not applied_later)
        )

    @property
    def longest_start(self) -> timedelta:
        """Longest duration of a start.

        Its own deadline is before ``start_timeout``; its last requests may run a little longer.
        """
        return timedelta(seconds=int(self.spawner.start_timeout + self.spawner.k8s_api_request_retry_timeout))


def _is_known(kind: type) -> bool:
    """Whether a class in the order of a spawner's classes is of this project, or of KubeSpawner."""
    return kind in KubeSpawner.__mro__ or kind.__module__.startswith(f"{__name__.partition('.')[0]}.")
