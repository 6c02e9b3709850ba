"""Step: give a pod Intel GPUs in the form of the device-plugin age, and take them back."""

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
    GpuWish,
    PodChanges,
    changes_for_gas,
    changes_with_cards,
    parse_intel_gas,
    plain_changes,
)
from dra_spawner.profiles.intel_gas.names import HIERARCHY_ENV
from dra_spawner.profiles.intel_gas.pods import pod_key
from dra_spawner.profiles.problems import ProfileError
from dra_spawner.spawner.accounts.intel_gas_ledger import GpuLedger, LedgerUnavailable, NoCards, ledger_of
from dra_spawner.spawner.spawn_refusal import refusal_of_profile, wrong_profile
from dra_spawner.spawner.steps.attempt import Attempt, Step

__all__ = ["IntelGas"]

#: For how long a start looks for cards; after that it goes on without.
_LONGEST_SECONDS = 10.0


class IntelGas(Step):
    """Gives the pod of an attempt limits for Intel GPUs, and cards where the hub chooses them."""

    def __init__(self, attempt: Attempt, wish: GpuWish) -> None:
        super().__init__(attempt)
        self._wish = wish
        self._given: tuple[GpuLedger, tuple[str, str]] | None = None
        self._annotations: Mapping[str, str] = {}

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if the profile sets ``intel_gas``."""
        spawner, profile = attempt.spawner, attempt.spawner.chosen_profile
        try:
            wish = parse_intel_gas(spawner.intel_gas, f"profile {profile}, intel_gas" if profile else "intel_gas")
        except ProfileError as error:
            spawner.log.error("Profile refused: %s", error)
            raise refusal_of_profile(error, spawner.user_options) from error
        if wish is None:
            return None
        attempt.node_is_chosen = True
        return cls(attempt, wish)

    async def change_pod(self, pod: Any) -> None:
        """Put limits, and where the hub chooses them cards, into the pod.

        Parameters
        ----------
        pod
            ``V1Pod``, parts of which may be plain dicts.

        Raises
        ------
        SpawnRefused
            If the pod has no such container. Whatever else goes wrong, the pod has its limits.
        """
        api_client = self.spawner.api.api_client
        names = [container.name for container in pod.spec.containers]
        for container in self._wish.containers:
            if container.name not in names:
                raise wrong_profile(f"It gives GPUs to container {container.name}; the pod has: {', '.join(names)}.")
        _apply(plain_changes(self._wish), pod, api_client)
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                manifest = api_client.sanitize_for_serialization(pod)
                # KubeSpawner has it in the request's path only.
                manifest["metadata"]["namespace"] = self.spawner.namespace
                changes = await self._changes(manifest, names)
        except (LedgerUnavailable, TimeoutError) as error:
            self._warn(f"nodes and pods could not be read: {error}")
            return
        except Exception:  # the server runs without a choice of cards, too
            self.log.exception("Could not choose cards of Intel GPUs; the kubelet takes any")
            return
        self._annotations = changes.annotations
        _apply(changes, pod, api_client)

    async def prepare_request(self, pod: Any) -> bool:
        """Put the annotations back that a ``modify_pod_hook`` may have replaced."""
        if self._annotations:
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **self._annotations}
        return True

    def undo(self) -> None:
        """Take the cards back."""
        if self._given is not None:
            ledger, key = self._given
            ledger.release(key)
            self._given = None

    async def _changes(self, pod: dict[str, Any], names: list[str]) -> PodChanges:
        spawner = self.spawner
        ledger = ledger_of(spawner.kubernetes, spawner.servers_namespace, self.log)
        ledger.begin_cleaning(spawner.kubernetes, timedelta(seconds=spawner.intel_gas_cleanup_interval_seconds))
        # Cards are kept that long for a pod that does not come.
        lifetime = timedelta(seconds=spawner.start_timeout)
        given = await ledger.give(spawner.kubernetes, self._wish, pod, lifetime)
        if isinstance(given, NoCards):
            if given.by_gas:
                return changes_for_gas(self._wish)
            self._warn(given.reason)
            return plain_changes(self._wish)
        self._given = (ledger, pod_key(pod))
        self.log.info("Intel GPUs on node %s: %s", given.chosen.node, [c.cards for c in given.chosen.containers])
        hierarchies = {
            container["name"]: next(
                (entry["value"] for entry in container.get("env") or () if entry["name"] == HIERARCHY_ENV), ""
            )
            for container in pod["spec"]["containers"]
        }
        return changes_with_cards(self._wish, given.chosen, names, hierarchies, given.tiles_per_card, given.time)

    def _warn(self, reason: str) -> None:
        self.log.warning("No cards of Intel GPUs were chosen, the kubelet takes any: %s", reason)


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
