"""The ledger of Intel GPUs for one hub: reads nodes and pods, and chooses cards.

Annotations of pods state their cards, so the ledger itself stores only the cards of servers whose pods are being
created.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.profiles.intel_gas.choosing import ChosenCards, choose
from dra_spawner.profiles.intel_gas.cleanup import next_cleanup, stale_assignments
from dra_spawner.profiles.intel_gas.gas_language import GpuRequest
from dra_spawner.profiles.intel_gas.labels import NodeGpus, node_gpus
from dra_spawner.profiles.intel_gas.ledger import CardAssignment, CardUse, Ledger, PodKey, add_use
from dra_spawner.profiles.intel_gas.names import CardScheduler
from dra_spawner.profiles.intel_gas.pods import (
    RebuiltLedger,
    containers_of,
    counts,
    is_finished,
    node_of,
    pod_key,
    rebuild,
)
from dra_spawner.simulator.scheduler.suitable_nodes import SuitableNodes
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.hub_parts.own_namespaces import own_namespaces

#: Maximum age in seconds of data that several starts share.
_PODS_SECONDS = 1.0
_NODES_SECONDS = 30.0
#: Maximum age in seconds of usable data.
_OLDEST_SECONDS = 300.0
_LIST_SECONDS = 3.0
_PAGE_SIZE = 500


class LedgerUnavailable(Exception):
    """Raised if nodes and pods cannot be read."""


@dataclass(frozen=True, slots=True)
class AssignedCards:
    """Cards of a server.

    Attributes
    ----------
    time
        Nanoseconds since 1970; later than the times of all earlier servers.
    """

    chosen: ChosenCards
    tiles_per_card: int
    time: int


@dataclass(frozen=True, slots=True)
class NoCards:
    """Why a server has no cards: GAS chooses (``by_gas``), or none fit."""

    by_gas: bool = False
    reason: str = ""


@dataclass
class _View:
    """Data and their time (seconds of the event loop's clock).

    Attributes
    ----------
    pods
        Pods whose cards count.
    own
        Namespaces of the hub's servers; None for all.
    """

    nodes: list[JsonObject] = field(default_factory=list)
    nodes_at: float = float("-inf")
    pods: list[JsonObject] = field(default_factory=list)
    pods_at: float = float("-inf")
    own: frozenset[str] | None = None


class GpuLedger:
    """Assigns cards to the servers of one hub.

    Parameters
    ----------
    namespace
        Namespace of the servers; ``None`` if each user has one.
    log
        Logger of errors; no error fails a start.
    hub_namespace
        Namespace of the hub, by whose label the namespaces of its users are known; empty: cards of pods in all
        namespaces count alike.
    now, time_ns, jitter
        Clocks, and a source of random numbers from 0 to 1.
    """

    def __init__(
        self,
        namespace: str | None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        *,
        hub_namespace: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        time_ns: Callable[[], int] = time.time_ns,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._namespace = namespace
        self._hub_namespace = hub_namespace
        self._log = log
        self._now = now
        self._time_ns = time_ns
        self._jitter = jitter
        self._lock = asyncio.Lock()
        self._view = _View()
        self._rebuilt = RebuiltLedger(Ledger(), False, ())
        self._suitable_nodes = SuitableNodes()
        self._gpus: tuple[NodeGpus, ...] = ()
        self._reserved = Ledger()
        self._reserved_until: dict[PodKey, datetime] = {}
        self._reserved_pods: dict[PodKey, tuple[str, JsonObject]] = {}
        self._sees_all_namespaces = True
        self._warned: frozenset[str] = frozenset()
        self._last_time = 0

    async def assign(
        self, api: KubernetesApi, request: GpuRequest, pod: JsonObject, lifetime: timedelta
    ) -> AssignedCards | NoCards:
        """Choose cards for a server and reserve them until its pod exists.

        Parameters
        ----------
        pod
            The final pod with its limits, but without cards.
        lifetime
            Time for which the cards stay reserved without a pod.

        Raises
        ------
        LedgerUnavailable
            If nodes and pods cannot be read.
        """
        if request.scheduler is CardScheduler.GAS:
            return NoCards(by_gas=True)
        async with self._lock:
            await self._read(api)
            if request.scheduler is CardScheduler.AUTO and self._rebuilt.gas_runs:
                return NoCards(by_gas=True)
            key = pod_key(pod)
            self.release(key)  # cards of an earlier start of this server
            nodes = self._nodes_for(pod)
            if not nodes:
                return NoCards(reason="no node with Intel GPUs can run it")
            names = [str(container["name"]) for container in containers_of(pod)]
            chosen = choose(request, nodes, self._uses(), names)
            if chosen is None:
                return NoCards(reason=f"no cards fit on {len(nodes)} nodes")
            self._last_time = max(self._time_ns(), self._last_time + 1)
            self._reserved.assign(key, CardAssignment(chosen.node, self._last_time, chosen.containers))
            self._reserved_until[key] = self._now() + lifetime
            self._reserved_pods[key] = (chosen.node, pod)
            gpus = next(each for each in nodes if each.node == chosen.node)
            return AssignedCards(chosen, gpus.capacity[request.resource].tiles, self._last_time)

    def release(self, pod: PodKey) -> None:
        """Free the cards of a server whose pod will not be created."""
        self._reserved.release(pod)
        self._reserved_until.pop(pod, None)
        self._reserved_pods.pop(pod, None)

    def reserved(self) -> Collection[PodKey]:
        """Servers with reserved cards, whose pods were not seen yet."""
        return tuple(self._reserved)

    # Reading

    async def _read(self, api: KubernetesApi, *, refresh: bool = False) -> None:
        """Read old data again (``refresh``: data of any age); after an error, use data up to the maximum age."""
        clock = asyncio.get_running_loop().time
        try:
            if clock() - self._view.nodes_at > _NODES_SECONDS:
                listed = await api.list(
                    resource_path("v1", "nodes"), page_size=_PAGE_SIZE, timeout_seconds=_LIST_SECONDS
                )
                self._view.nodes, self._view.nodes_at = listed["items"], clock()
            if refresh or clock() - self._view.pods_at > _PODS_SECONDS:
                own = await self._own_namespaces(api)
                pods = [pod for pod in await self._list_pods(api) if counts(pod, own)]
                self._view.own, self._view.pods, self._view.pods_at = own, pods, clock()
                self._rebuild()
        except (KubernetesError, TimeoutError) as error:
            if clock() - min(self._view.nodes_at, self._view.pods_at) > _OLDEST_SECONDS:
                raise LedgerUnavailable(str(error)) from error
            self._log.warning("Cards of Intel GPUs are chosen from older data: %s", error)

    async def _own_namespaces(self, api: KubernetesApi) -> frozenset[str] | None:
        if self._namespace is not None:
            return frozenset((self._namespace,))
        if not self._hub_namespace:
            return None
        return await own_namespaces(api, self._hub_namespace, timeout_seconds=_LIST_SECONDS)

    async def _list_pods(self, api: KubernetesApi) -> list[JsonObject]:
        """Pods of all namespaces if the hub may list them, else of the servers' namespace."""
        if self._sees_all_namespaces and self._namespace is not None:
            try:
                return await self._list_pods_of(api, None)
            except KubernetesError as error:
                if error.status != 403:
                    raise
                self._sees_all_namespaces = False
                self._log.info("Cards of Intel GPUs in namespaces other than %s are unknown", self._namespace)
        return await self._list_pods_of(api, self._namespace)

    async def _list_pods_of(self, api: KubernetesApi, namespace: str | None) -> list[JsonObject]:
        path = resource_path("v1", "pods", namespace)
        listed = await api.list(path, page_size=_PAGE_SIZE, timeout_seconds=_LIST_SECONDS)
        return [pod for pod in listed["items"] if not is_finished(pod)]

    def _rebuild(self) -> None:
        self._rebuilt = rebuild(self._view.pods, self._view.own)
        # Pods that are pinned to a node count there before they are bound.
        self._suitable_nodes.read(self._view.nodes, [(pod, node_of(pod)) for pod in self._view.pods])
        self._gpus = tuple(gpus for node in self._view.nodes if (gpus := node_gpus(node)) is not None)
        found = frozenset(self._rebuilt.warnings)
        for warning in sorted(found - self._warned):
            self._log.warning("Cards of Intel GPUs: %s", warning)
        self._warned = found
        for key in self._reserved:
            seen, mine = self._rebuilt.ledger.get(key), self._reserved.get(key)
            # An older server of the same name may still be terminating.
            if seen and mine and (seen.time == mine.time or self._rebuilt.gas_runs):
                self.release(key)
        self._drop_stale()

    def _drop_stale(self) -> tuple[PodKey, ...]:
        stale = stale_assignments(self._reserved, (), self._reserved_until, self._now())
        for key in stale:
            self.release(key)
        return stale

    # Choosing

    def _nodes_for(self, pod: JsonObject) -> list[NodeGpus]:
        """Nodes with Intel GPUs on which the pod fits, without regard to cards."""
        coming: dict[str, list[JsonObject]] = {}
        for node, reserved in self._reserved_pods.values():
            coming.setdefault(node, []).append(reserved)
        open_nodes = self._suitable_nodes.for_pod(pod, coming)
        return [gpus for gpus in self._gpus if gpus.node in open_nodes]

    def _uses(self) -> dict[str, dict[str, CardUse]]:
        uses = self._rebuilt.ledger.uses()
        for key in self._reserved:
            assignment = self._reserved.get(key)
            if assignment is not None:
                add_use(uses.setdefault(assignment.node, {}), assignment.containers)
        return uses

    # Cleaning

    def begin_cleaning(self, api: KubernetesApi, interval: timedelta) -> None:
        """Begin the periodic clean-up."""
        this_hub().run_once(("cleaning of Intel GPUs", self._namespace), lambda: self.clean_periodically(api, interval))

    async def clean_periodically(
        self,
        api: KubernetesApi,
        interval: timedelta,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Clean up periodically, each time after half the interval plus a random part of one interval."""
        while True:
            await sleep(next_cleanup(interval, self._jitter()).total_seconds())
            try:
                dropped = await self.clean_up(api)
                if dropped:
                    self._log.info("Freed cards of Intel GPUs of servers that are gone: %s", dropped)
            except LedgerUnavailable as error:  # the next pass may work
                self._log.warning("Could not look for stale assignments of Intel GPUs: %s", error)

    async def clean_up(self, api: KubernetesApi) -> tuple[PodKey, ...]:
        """Read the pods again, and free the cards of servers without pods."""
        async with self._lock:
            before = {*self._rebuilt.ledger, *self._reserved}
            await self._read(api, refresh=True)
            return tuple(sorted(before - {*self._rebuilt.ledger, *self._reserved}))


def ledger_of(
    api: KubernetesApi,
    namespace: str | None,
    log: logging.Logger | logging.LoggerAdapter[logging.Logger],
    hub_namespace: str = "",
) -> GpuLedger:
    """The hub's ledger for a cluster; parameters as of `GpuLedger`."""
    return this_hub().shared(
        (GpuLedger, api.server, namespace), lambda: GpuLedger(namespace, log, hub_namespace=hub_namespace)
    )
