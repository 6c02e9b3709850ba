"""Nodes in short, as the page shows them: marks, utilization, and a bar for each device."""

from __future__ import annotations

import asyncio
import bisect
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from dra_spawner import names
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.planner.cluster.view import reservation_of
from dra_spawner.service.figures.device_bars import Bar, HolderKind, Part
from dra_spawner.service.figures.node_figures import PUBLISHES_NONE, NodeFigures, TimeSlice
from dra_spawner.service.figures.stale_nodes import StaleNodes
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.usage.weighted_utilization import WeightedUtilization

_DIGITS: Final = 4
#: Limit of the named pods of one claim.
_PODS_SHOWN: Final = 5


def marks_of(state: NodeState) -> list[str]:
    """Marks of a node, from its labels and conditions."""
    node = state.node
    ready, draining = node.labels.get(names.IMAGES_READY), node.labels.get(names.DRAINING)
    marks = {
        "not-ready": not node.is_ready,
        "cordoned": node.is_unschedulable,
        "draining": draining == names.ORDERED,
        # Services before this version wrote the other value.
        "emptying": draining in (names.EMPTYING, names.TRUE),
        "late": ready == names.LATE,
        "ready": ready is not None and ready != names.LATE,
        "newest": node.labels.get(names.ATTRACT) == names.TRUE,
    }
    return [name for name, is_set in marks.items() if is_set]


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A node in short, and the same as JSON, which a big cluster cannot encode for each answer."""

    content: Mapping[str, Any]
    text: str


class NodeSummaries:
    """Summaries of the watched nodes; a summary is computed again when its node has changed.

    Parameters
    ----------
    figures
        Of the same watch.
    """

    def __init__(self, watch: ClusterWatch, figures: NodeFigures) -> None:
        self._watch = watch
        self._figures = figures
        self._stale = StaleNodes(watch.snapshot)
        self._of_node: dict[str, NodeSummary] = {}
        self._working = asyncio.Lock()
        watch.on_change(self._note)

    async def nodes(self, *, after: str = "", limit: int = 100) -> tuple[Sequence[NodeSummary], str]:
        """Summaries in the order of the nodes' names.

        Parameters
        ----------
        after
            Begin after this name.

        Returns
        -------
        list, str
            The summaries, and the value of `after` for the next page; empty at the end.
        """
        await self._refresh()
        known = sorted(self._of_node)
        begin = bisect.bisect_right(known, after) if after else 0
        chosen = known[begin : begin + limit]
        found = [self._of_node[name] for name in chosen]
        return found, chosen[-1] if chosen and begin + limit < len(known) else ""

    async def _refresh(self) -> None:
        nodes = self._watch.snapshot.nodes
        async with self._working:
            slice_ = TimeSlice()
            stale = self._stale.take(nodes)
            try:
                while stale:
                    if stale[-1] in nodes:
                        summary = self._summary(stale[-1])
                        text = json.dumps(summary, allow_nan=False, separators=(",", ":"))
                        self._of_node[stale[-1]] = NodeSummary(summary, text)
                    stale.pop()
                    await slice_.yield_when_over()
            finally:
                self._stale.put_back(stale)
            for name in self._of_node.keys() - nodes.keys():
                del self._of_node[name]

    def _summary(self, name: str) -> dict[str, Any]:
        state = self._watch.snapshot.nodes[name]
        utilization = self._figures.utilization_of(name)
        bars = self._figures.bars_of(name)
        return {
            "name": name,
            "node_pool": self._figures.node_pool(state.node.labels),
            "kind": _kind_of(bars),
            "marks": marks_of(state),
            "is_drain_ordered": state.node.labels.get(names.DRAINING) == names.ORDERED,
            "pods": len(state.pods),
            "utilization": _number(utilization.figure),
            "devices": [self._bar(each) for each in bars],
            "unknown": self._unknown_pools(name, utilization),
            "unknown_because": "; ".join(utilization.problems),
        }

    def _unknown_pools(self, node: str, utilization: WeightedUtilization) -> list[dict[str, str]]:
        """Pools whose devices are not known, also because their driver publishes nothing any more."""
        found = [
            {"driver": pool.id.driver, "pool": pool.id.pool, "because": pool.problem}
            for pool in utilization.pools
            if pool.problem
        ]
        drivers = {each["driver"] for each in found}
        return found + [
            {"driver": driver, "pool": node, "because": f"the driver {PUBLISHES_NONE}"}
            for driver in self._figures.lost_of(node)
            if driver not in drivers
        ]

    def _bar(self, bar: Bar) -> dict[str, Any]:
        optional = {
            # Partitions of a counter set are no device.
            "pool": bar.pool if bar.free_partitions is None else "",
            "blocked": _number(bar.blocked),
            "free_partitions": bar.free_partitions,
            "is_boundless": bar.is_boundless,
            "closed": bar.closed,
        }
        return {
            "name": bar.name,
            "driver": bar.driver,
            "product": bar.product,
            "parts": [self._part(each) for each in bar.parts],
            **_set(optional),
        }

    def _part(self, part: Part) -> dict[str, Any]:
        snapshot, observed = self._watch.snapshot, self._watch.observed
        claim = snapshot.claims.get(part.claim)
        pods = sorted(each.name for each in claim.consumers if each.resource == "pods") if claim is not None else []
        users, servers, profile = [], [], ""
        for name in pods[:_PODS_SHOWN]:
            key = ObjectKey(part.claim.namespace, name)
            pod, metadata = snapshot.pods.get(key), observed(Kind.POD, key)
            profile = profile or (pod.labels.get(names.PROFILE, "") if pod is not None else "")
            annotations = metadata.annotations if metadata is not None else {}
            user = annotations.get(names.USERNAME, "")
            if user and part.kind is HolderKind.USER:
                servers.append({"user": user, "name": annotations.get(names.SERVERNAME, "")})
            # The label is a slug of the name: enough to show, not to stop the server.
            user = user or (pod.labels.get(names.USERNAME, "") if pod is not None else "")
            if user and part.kind is HolderKind.USER:
                users.append(user)
        reservation = reservation_of(claim)
        optional = {
            "users": users,
            "servers": servers,
            "more_pods": max(len(pods) - _PODS_SHOWN, 0),
            "profile": profile,
            "amounts": dict(part.amounts),
            "partition": part.partition,
            "admin_access": part.admin_access,
            "reserved_for": reservation.pod if reservation is not None and reservation.pod not in pods else "",
        }
        return {
            "kind": part.kind,
            "share": _number(part.share),
            "claim": f"{part.claim.namespace}/{part.claim.name}",
            "pods": pods[:_PODS_SHOWN],
            **_set(optional),
        }

    def _note(self, change: Change) -> None:
        if change.decides:
            self._stale.note(change.kind, change.key)


def _kind_of(bars: Sequence[Bar]) -> str:
    """The devices of a node in words, by which nodes are grouped: ``8 x A100``."""
    counts = Counter(each.product for each in bars)
    return ", ".join(f"{count} x {product}" for product, count in sorted(counts.items()))


def _set(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members that say something: there are thousands of devices."""
    return {name: value for name, value in members.items() if value}


def _number(value: Fraction | None) -> float | None:
    return round(float(value), _DIGITS) if value is not None else None
