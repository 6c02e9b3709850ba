"""Step: give a pod Intel GPUs of a device plugin, and free them again."""

from __future__ import annotations

import asyncio
import copy
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

from dra_spawner.profiles.intel_gas import (
    GpuRequest,
    PodChanges,
    changes_for_gas,
    changes_with_cards,
    parse_intel_gas,
    plain_changes,
)
from dra_spawner.profiles.intel_gas.names import HIERARCHY_ENV
from dra_spawner.profiles.intel_gas.pods import pod_key
from dra_spawner.profiles.syntax.problems import ProfileError
from dra_spawner.spawner.accounts.intel_gas_ledger import GpuLedger, LedgerUnavailable, NoCards, ledger_of
from dra_spawner.spawner.spawn_refusal import refusal_of_profile, wrong_profile
from dra_spawner.spawner.steps.attempt import Attempt, Step

#: Maximum seconds for the choice of cards; after that the start continues without a choice.
_LONGEST_SECONDS = 10.0


class IntelGas(Step):
    """Gives the pod of an attempt limits for Intel GPUs, and cards if the hub chooses them."""

    def __init__(self, attempt: Attempt, request: GpuRequest) -> None:
        super().__init__(attempt)
        self._request = request
        self._given: tuple[GpuLedger, tuple[str, str]] | None = None
        self._annotations: Mapping[str, str] = {}

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if the profile sets ``intel_gas``."""
        spawner, profile = attempt.spawner, attempt.server.chosen_profile
        try:
            request = parse_intel_gas(spawner.intel_gas, f"profile {profile}, intel_gas" if profile else "intel_gas")
        except ProfileError as error:
            spawner.log.error("Profile refused: %s", error)
            raise refusal_of_profile(error, spawner.user_options) from error
        if request is None:
            return None
        attempt.node_is_chosen = True
        return cls(attempt, request)

    async def change_pod(self, pod: Any) -> None:
        """Add limits to the pod, and cards if the hub chooses them.

        Parameters
        ----------
        pod
            ``V1Pod``, parts of which may be plain dicts.

        Raises
        ------
        SpawnRefused
            If the pod lacks a container of the profile. After any other error the pod still has its limits.
        """
        api_client = self.spawner.api.api_client
        names = [container.name for container in pod.spec.containers]
        for container in self._request.containers:
            if container.name not in names:
                raise wrong_profile(f"It gives GPUs to container {container.name}; the pod has: {', '.join(names)}.")
        _apply(plain_changes(self._request), pod, api_client)
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                manifest = api_client.sanitize_for_serialization(pod)
                # KubeSpawner sets the namespace only in the path of its request.
                manifest["metadata"]["namespace"] = self.spawner.namespace
                affinity = self.attempt.refusing_drained_nodes(manifest["spec"].get("affinity") or {})
                manifest["spec"]["affinity"] = affinity
                changes = await self._changes(manifest, names)
        except (LedgerUnavailable, TimeoutError) as error:
            self._warn(f"nodes and pods could not be read: {error}")
            return
        except Exception:  # the server also runs without a choice of cards
            self.log.exception("Could not choose cards of Intel GPUs; the device plugin chooses any")
            return
        self._annotations = changes.annotations
        _apply(changes, pod, api_client)

    async def prepare_request(self, pod: Any) -> bool:
        """Add the annotations again, as a ``modify_pod_hook`` may have replaced them."""
        if self._annotations:
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **self._annotations}
        return True

    def undo(self) -> None:
        """Free the cards."""
        if self._given is not None:
            ledger, key = self._given
            ledger.release(key)
            self._given = None

    async def _changes(self, pod: dict[str, Any], names: list[str]) -> PodChanges:
        spawner, server = self.spawner, self.server
        ledger = ledger_of(server.kubernetes, server.servers_namespace, self.log, server.hub_namespace)
        ledger.begin_cleaning(server.kubernetes, timedelta(seconds=spawner.intel_gas_cleanup_interval_seconds))
        # Cards stay reserved for this time even if no pod is created.
        lifetime = timedelta(seconds=spawner.start_timeout)
        given = await ledger.assign(server.kubernetes, self._request, pod, lifetime)
        if isinstance(given, NoCards):
            if given.by_gas:
                return changes_for_gas(self._request)
            self._warn(given.reason)
            return plain_changes(self._request)
        self._given = (ledger, pod_key(pod))
        self.log.info("Intel GPUs on node %s: %s", given.chosen.node, [c.cards for c in given.chosen.containers])
        hierarchies = {
            container["name"]: next(
                (entry["value"] for entry in container.get("env") or () if entry["name"] == HIERARCHY_ENV), ""
            )
            for container in pod["spec"]["containers"]
        }
        return changes_with_cards(self._request, given.chosen, names, hierarchies, given.tiles_per_card, given.time)

    def _warn(self, reason: str) -> None:
        self.log.warning("No cards of Intel GPUs were chosen, the device plugin chooses any: %s", reason)


def _apply(changes: PodChanges, pod: Any, api_client: Any) -> None:
    """Apply changes to a pod. Idempotent."""
    # Copies, as models of containers in the spawner's traits are shared by all pods.
    pod.spec.containers = [copy.copy(container) for container in pod.spec.containers]
    for container in pod.spec.containers:
        _add_limits(container, changes.limits.get(container.name, {}))
        _add_environment(container, changes.environment.get(container.name, {}))
    if changes.annotations:
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), **changes.annotations}
    if changes.node:
        _pin(pod, changes.node, api_client)


def _add_limits(container: Any, limits: Mapping[str, str]) -> None:
    """Add limits and equal requests, as extended resources need; an extra container's resources may be a dict."""
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
    """Add variables that the profile itself does not set."""
    present = {entry["name"] if isinstance(entry, dict) else entry.name for entry in container.env or ()}
    added = [V1EnvVar(name=name, value=value) for name, value in variables.items() if name not in present]
    if added:
        container.env = [*(container.env or ()), *added]


def _pin(pod: Any, node: str, api_client: Any) -> None:
    """Require this node in each term of the pod's node selector, as the terms are alternatives."""
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
    # Copies, as models in the spawner's traits are shared by all pods.
    affinity = pod.spec.affinity = copy.copy(affinity) if affinity else V1Affinity()
    by_node = affinity.node_affinity = copy.copy(affinity.node_affinity) if affinity.node_affinity else V1NodeAffinity()
    required = by_node.required_during_scheduling_ignored_during_execution
    given = required.node_selector_terms if required else None
    own_terms = [copy.copy(term) for term in given or [V1NodeSelectorTerm()]]
    requirement = V1NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
    for term in own_terms:
        term.match_fields = [*(term.match_fields or ()), requirement]
    by_node.required_during_scheduling_ignored_during_execution = V1NodeSelector(node_selector_terms=own_terms)
