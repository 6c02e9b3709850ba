"""Intel GPUs of the device-plugin age in one start of a server: what the pod gets, and what is given back."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kubernetes_asyncio.client import (
    V1Affinity,
    V1EnvVar,
    V1NodeAffinity,
    V1NodeSelector,
    V1NodeSelectorRequirement,
    V1NodeSelectorTerm,
)

from dra_spawner.kube.api import KubernetesApi
from dra_spawner.profiles.intel_gas import GpuWish, PodChanges, changes_for_gas, changes_with_cards, plain_changes
from dra_spawner.profiles.intel_gas.names import HIERARCHY_ENV
from dra_spawner.profiles.intel_gas.pods import pod_key
from dra_spawner.spawner.intel_gas_ledger import GpuLedger, LedgerUnavailable, NoCards, ledger_of
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused

#: For how long a start looks for cards; after that it goes on without.
_LONGEST_SECONDS = 10.0


class IntelGpuStart:
    """Gives one start of a server its Intel GPUs.

    Parameters
    ----------
    namespace
        Of this server.
    hub_namespace
        Where all servers of this hub run; ``None`` if in several namespaces.
    log
        Of the spawner.
    lifetime
        How long cards are kept for a pod that does not come.
    cleaning_interval
        How often, about, assignments are looked over that may be stale.
    """

    def __init__(
        self,
        wish: GpuWish,
        api: KubernetesApi,
        namespace: str,
        hub_namespace: str | None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        *,
        lifetime: timedelta,
        cleaning_interval: timedelta,
    ) -> None:
        self._wish = wish
        self._api = api
        self._namespace = namespace
        self._hub_namespace = hub_namespace
        self._log = log
        self._lifetime = lifetime
        self._cleaning_interval = cleaning_interval
        self._given: tuple[GpuLedger, tuple[str, str]] | None = None
        self._annotations: Mapping[str, str] = {}

    async def give_to(self, pod: Any, api_client: Any) -> None:
        """Put limits, and where the hub chooses them cards, into a pod that is not created yet.

        Parameters
        ----------
        pod
            ``V1Pod``, parts of which may be plain dicts.
        api_client
            Of `kubernetes_asyncio`: makes JSON of it.

        Raises
        ------
        SpawnRefused
            If the pod has no such container. Whatever else goes wrong, the pod has its limits.
        """
        names = [container.name for container in pod.spec.containers]
        for container in self._wish.containers:
            if container.name not in names:
                raise SpawnRefused(
                    "This profile is misconfigured. Please tell your administrator. It gives GPUs to container "
                    f"{container.name}; the pod has: {', '.join(names)}.",
                    RefusalReason.PROFILE,
                )
        _apply(plain_changes(self._wish), pod, api_client)
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                manifest = api_client.sanitize_for_serialization(pod)
                manifest["metadata"]["namespace"] = self._namespace  # KubeSpawner has it in the request's path only
                changes = await self._changes(manifest, names)
        except (LedgerUnavailable, TimeoutError) as error:
            self._warn(f"nodes and pods could not be read: {error}")
            return
        except Exception:
            self._log.exception("Could not choose cards of Intel GPUs; the kubelet takes any")
            return
        self._annotations = changes.annotations
        _apply(changes, pod, api_client)

    def annotate(self, pod: Any) -> None:
        """Put the annotations back that a ``modify_pod_hook`` may have replaced."""
        if self._annotations:
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **self._annotations}

    def give_back(self) -> None:
        """Take the cards back from a start that failed."""
        if self._given is not None:
            ledger, key = self._given
            ledger.release(key)
            self._given = None

    async def _changes(self, pod: dict[str, Any], names: list[str]) -> PodChanges:
        ledger = ledger_of(self._api, self._hub_namespace, self._log)
        ledger.begin_cleaning(self._api, self._cleaning_interval)
        given = await ledger.give(self._api, self._wish, pod, self._lifetime)
        if isinstance(given, NoCards):
            if given.by_gas:
                return changes_for_gas(self._wish)
            self._warn(given.reason)
            return plain_changes(self._wish)
        self._given = (ledger, pod_key(pod))
        self._log.info("Intel GPUs on node %s: %s", given.chosen.node, [c.cards for c in given.chosen.containers])
        hierarchies = {
            container["name"]: next(
                (entry["value"] for entry in container.get("env") or () if entry["name"] == HIERARCHY_ENV), ""
            )
            for container in pod["spec"]["containers"]
        }
        return changes_with_cards(self._wish, given.chosen, names, hierarchies, given.tiles_per_card, given.time)

    def _warn(self, reason: str) -> None:
        self._log.warning("No cards of Intel GPUs were chosen, the kubelet takes any: %s", reason)


def _apply(changes: PodChanges, pod: Any, api_client: Any) -> None:
    """Put changes into a pod; doing so twice is as good as once."""
    # Copies: containers that stand in the spawner's traits as models are in every pod.
    pod.spec.containers = [copy.copy(container) for container in pod.spec.containers]
    for container in pod.spec.containers:
        _add_limits(container, changes.limits.get(container.name, {}))
        _add_environment(container, changes.environment.get(container.name, {}))
    if changes.annotations:
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), **changes.annotations}
    if changes.node:
        _pin(pod, changes.node, api_client)


def _add_limits(container: Any, limits: Mapping[str, str]) -> None:
    """Extended resources have requests equal to their limits. Resources of an extra container may be a dict."""
    if not limits:
        return
    resources = container.resources
    if resources is None or isinstance(resources, dict):
        found = resources or {}
        container.resources = {
            **found,
            **{kind: {**(found.get(kind) or {}), **limits} for kind in ("requests", "limits")},
        }
        return
    resources = container.resources = copy.copy(resources)
    resources.limits = {**(resources.limits or {}), **limits}
    resources.requests = {**(resources.requests or {}), **limits}


def _add_environment(container: Any, variables: Mapping[str, str]) -> None:
    """What the profile itself sets stays."""
    present = {entry["name"] if isinstance(entry, dict) else entry.name for entry in container.env or ()}
    added = [V1EnvVar(name=name, value=value) for name, value in variables.items() if name not in present]
    if added:
        container.env = [*(container.env or ()), *added]


def _pin(pod: Any, node: str, api_client: Any) -> None:
    """Require this node besides whatever the pod requires; the terms of a node selector are alternatives."""
    affinity = pod.spec.affinity
    if isinstance(affinity, dict):
        found: dict[str, Any] = api_client.sanitize_for_serialization(affinity)
        by_node = {**(found.get("nodeAffinity") or {})}
        required = by_node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = [
            {**term, "matchFields": [*(term.get("matchFields") or ()), field]}
            for term in required.get("nodeSelectorTerms") or [{}]
        ]
        by_node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        pod.spec.affinity = {**found, "nodeAffinity": by_node}
        return
    # Copies: models that stand in the spawner's traits are in every pod.
    affinity = pod.spec.affinity = copy.copy(affinity) if affinity else V1Affinity()
    by_node = affinity.node_affinity = copy.copy(affinity.node_affinity) if affinity.node_affinity else V1NodeAffinity()
    required = by_node.required_during_scheduling_ignored_during_execution
    given = required.node_selector_terms if required else None
    own_terms = [copy.copy(term) for term in given or [V1NodeSelectorTerm()]]
    requirement = V1NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
    for term in own_terms:
        term.match_fields = [*(term.match_fields or ()), requirement]
    by_node.required_during_scheduling_ignored_during_execution = V1NodeSelector(node_selector_terms=own_terms)
