"""Traits of `DRASpawner`, and their changes by a profile for one start."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any, Final

from kubespawner import KubeSpawner
from traitlets import Any as AnyValue
from traitlets import Bool, Dict, Float, Integer, List, Unicode, default

from dra_spawner import names
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.profiles import profile_list_problems
from dra_spawner.profiles.intel_gas.findings import intel_gas_problems
from dra_spawner.profiles.problems import Problem, ProfileError
from dra_spawner.profiles.vlan_policy import parse_vlan_policy
from dra_spawner.spawner.devices.reader import DeviceReader, device_reader

__all__ = ["SpawnerSettings"]

#: Dicts that a profile's overrides merge into, in place.
_MERGED: Final = ("device_claims", "intel_gas", "vlans")


class SpawnerSettings(KubeSpawner):
    """KubeSpawner with the traits of `DRASpawner`."""

    device_claims = Dict(
        config=True,
        help="""
        The devices a server gets: a name for each claim, and what it asks for.

        Usually set by a profile's ``kubespawner_override`` or by a choice of its ``profile_options``; dicts merge
        there, so an option may change a single value. In short form a claim is one request::

            c.DRASpawner.device_claims = {
                "gpu": {
                    "device_class": "gpu.example.com",  # a DeviceClass of the cluster
                    "product": "A100*",                 # optional: the product's name
                    "capacity": {"memory": "10Gi"},     # optional: a share of a shareable device
                    "where": "...",                     # optional: CEL, or a list; all must hold
                    "count": 1,                         # optional: from 1 to 32, or "all"
                }
            }

        In long form it has several, and says which container gets which (by default the notebook's gets all)::

            {"accelerator": {"requests": {"gpu": {...}, "nic": {...}}, "containers": {"notebook": ["gpu"]}}}

        For each claim a ResourceClaimTemplate is made for each start; it goes with the server's pod. ``{"template":
        "name"}`` and ``{"claim": "name"}`` use what others made instead. docs/profiles.md has all there is.
        """,
    )

    other_user_options = List(
        Unicode(),
        config=True,
        help="""
        Names of options that something else in this hub reads from ``user_options``, a ``pre_spawn_hook`` for example.

        An option that is neither one of these nor one of the chosen profile is refused, since nothing would come of it.
        Keys of an ``apply_user_options`` that is a dict need not be named here.
        """,
    )

    vlans = Dict(
        config=True,
        help="""
        Which VLAN a user or a group has: the value of ``{vlan}`` in claims. For example::

            c.DRASpawner.vlans = {
                "by": "group",                   # or "user", the default
                "groups": ["physics", "maths"],  # the first of these that the user is in counts
                "mapping": {"physics": 42},      # set aside; or {"physics": {"id": 42, "address": "10.42.0.7/24"}}
                "range": "100-199",              # for the others: none is given to two at once
                "exclude": [150],
            }

        Those of the range are kept account of in a ConfigMap, and are free again when the last server that uses them
        has stopped. docs/vlans.md has all there is.
        """,
    )

    intel_gas = Dict(
        config=True,
        help="""
        Intel GPUs, or parts of them, for clusters with Intel's GPU plugin up to release 0.33 (newer ones give whole
        GPUs only; parts of GPUs by DRA are ``device_claims``).

        Usually set by a profile's ``kubespawner_override``; empty for none. Amounts are those of each card::

            c.DRASpawner.intel_gas = {
                "resource": "i915",   # or xe: the kernel driver
                "count": 1,           # different cards
                "millicores": 500,    # thousandths of a card
                "memory": "4Gi",
                "tiles": 1,
            }

        The pod gets the limits ``gpu.intel.com/…``. Where GPU Aware Scheduling runs, it chooses the cards; elsewhere
        the hub does, and pins the pod to their node. docs/intel-gas.md has all there is.
        """,
    )

    intel_gas_cleanup_interval_seconds = Integer(
        1200,
        min=10,
        config=True,
        help="""
        How often, about, in seconds, the hub looks for cards that were given to servers which are gone: after half of
        this time and up to the whole of it more, by chance. Only once ``intel_gas`` was used.
        """,
    )

    form_shows_amounts = Bool(
        True,
        config=True,
        help="""
        Whether the spawn form says what is really reserved, where devices give shares in steps and more is reserved
        than a choice asks for, such as "15 GiB will be reserved".
        """,
    )

    form_shows_enforcement = Bool(
        True,
        config=True,
        help="""
        Whether the spawn form says how firmly a share of a device is kept to: by the hardware, by a library, by a
        daemon, or not at all. Nothing is said of drivers that this project does not know.
        """,
    )

    nodes_may_be_added = Bool(
        True,
        config=True,
        help="""
        Whether nodes with other devices than the present ones may join, by an autoscaler for example.

        If not, a choice that no present node could ever satisfy is refused at once, with the reason. If so, it is only
        logged when the hub starts, and its server waits for such a node. What no node could change (a device class
        that is missing, a field that the API server drops, CEL that fails) is refused either way.
        """,
    )

    ignored_profile_rules = List(
        Unicode(),
        config=True,
        help="""
        Names of rules whose findings neither are logged nor keep users from a choice, such as ``driver-parameters`` if
        your driver is newer than what is known of it here. docs/check.md has all rules.
        """,
    )

    placement_service = Unicode(
        names.HUB_SERVICE,
        config=True,
        help="""
        Name of the JupyterHub service that is asked where a server gets its place: ``dra-spawner service``. Empty to
        ask none. Where the hub has no service of this name, none is asked, either.

        Servers of profiles with placeholders (``c.DRASpawnerService.placeholders``) take over a warm claim. The service
        is asked once for each start; a start never fails because of it.
        """,
    )

    placement_wait_seconds = Float(
        1.0,
        min=0.1,
        config=True,
        help="""
        Seconds that a start waits for the service's answer. Without one it goes on as if there were no service. With
        more, servers are handed placeholders although the service's machine is busy with other things; where the
        service hangs, users wait that much longer.
        """,
    )

    shapes_config_map = Unicode(
        names.SHAPES_CONFIG_MAP,
        config=True,
        help="""
        Name of the ConfigMap in the hub's namespace in which the hub publishes what servers of each choice need, for
        the service: ``c.DRASpawnerService.shapes_config_map``. Two hubs in one namespace need two names, on both sides,
        and in the roles that name it.
        """,
    )

    optional_devices_wait_seconds = Integer(
        10,
        min=1,
        config=True,
        help="""
        For how long, in seconds, a server waits for devices that it can do without (``optional``, ``none``) if they
        are taken just after they were seen to be free. Then its pod is made again without them.
        """,
    )

    heal_after_seconds = Integer(
        60,
        min=0,
        config=True,
        help="""
        For how long, in seconds, a node may fail to make a server's devices ready; then the server's pod is made again
        with another device, once in a start. At most a third of ``start_timeout``, so that time is left for it.

        It is made again at once where waiting cannot help: the node refuses the pod or has lost its claim, or the
        device is unhealthy or withdrawn. 0: pods are never made again. ``events_enabled`` has to be on for the first.
        """,
    )

    leftovers_sweep_interval_seconds = Integer(
        300,
        min=10,
        config=True,
        help="""
        How often, in seconds, the hub looks for claim templates that were left behind because a hub was stopped in
        the middle of a start. One list request each time; only templates older than ``start_timeout`` are touched.
        """,
    )

    #: Unchecked JSON of a user. JupyterHub 5 also stores a list, with which JupyterHub's own trait, a dict, would stop
    #: the user's spawner and the hub from starting.
    user_options = AnyValue(help="The user's choices, by name.")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configured = {name: copy.deepcopy(getattr(self, name)) for name in _MERGED}

    def clear_state(self) -> None:
        """Forget the last start, and its profile's changes of traits."""
        super().clear_state()
        for name, value in self.configured.items():
            setattr(self, name, copy.deepcopy(value))

    @default("user_options")
    def _user_options_default(self) -> dict[str, Any]:
        return {}

    @default("apply_user_options")
    def _apply_user_options_default(self) -> Any:
        # Options are applied later. Without a hook JupyterHub logs the names of all options that a user sent.
        return _applied_later

    def configuration_problems(self) -> list[Problem]:
        """Return the problems of the static configuration of devices, VLANs and profiles."""
        problems = profile_list_problems(self.profile_list, self.device_claims, known_traits=self.trait_names())
        return problems or [*intel_gas_problems(self.profile_list, self.intel_gas), *self._vlan_problems()]

    def _vlan_problems(self) -> list[Problem]:
        try:
            parse_vlan_policy(self.vlans)
        except ProfileError as error:
            return list(error.problems)
        return []

    # For the steps of a start

    @property
    def kubernetes(self) -> KubernetesApi:
        """The API server, over KubeSpawner's connection."""
        return KubernetesApi(self.api.api_client, timeout_seconds=self.k8s_api_request_timeout)

    @property
    def devices(self) -> DeviceReader:
        """Reader of the cluster's devices, shared by all spawners of a hub."""
        return device_reader(self.kubernetes)

    @property
    def servers_namespace(self) -> str | None:
        """Namespace of all servers of this hub; None if each user has one."""
        return None if self.enable_user_namespaces else self.namespace

    @property
    def user_groups(self) -> list[str]:
        """Names of the groups that the user is in, in the hub."""
        return [group.name for group in self.user.groups]

    @property
    def chosen_profile(self) -> str:
        """Slug of the profile that the user chose; empty for none."""
        return str((self.user_options or {}).get("profile") or "")

    @property
    def longest_start(self) -> timedelta:
        """Longest duration of a start.

        Its own deadline is below ``start_timeout``; its requests may be under way a little longer.
        """
        return timedelta(seconds=int(self.start_timeout + self.k8s_api_request_retry_timeout))


def _applied_later(spawner: KubeSpawner, user_options: object) -> None:
    """Do nothing; ``load_user_options`` applies options."""
