"""Utilization of the nodes that ``dra-spawner utilization`` is given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from dra_spawner.commands.cluster_files.documents import SourceObject
from dra_spawner.commands.cluster_files.object_checks import check_object
from dra_spawner.commands.cluster_files.questions import READABLE, has_kind, in_v1
from dra_spawner.dra.model.objects import DeviceClass, ObjectError, PoolId, ResourceSlice
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import BrokenObject, ClusterObject, Kind, decode
from dra_spawner.simulator.model.pods import ClaimReference, Pod
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.usage.device_doubts import missing_devices
from dra_spawner.simulator.usage.utilization import ClassWeights, NodeUtilization, Utilization

STRONG_DIFFERENCE: Final = Fraction(1, 4)
"""Difference from which two figures differ strongly: half of cluster-autoscaler's default scale-down threshold."""

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {**READABLE, "Pod": ("v1",)}
_NO_PODS: Final = (
    "No Pod was given: cluster-autoscaler's figure counts every allocated claim, as if a pod on its node used it."
)


@dataclass(slots=True)
class SnapshotObjects:
    """Objects that decide how full nodes are; the last one of a name counts.

    Attributes
    ----------
    refused
        A sentence for each object that the API server would refuse.
    """

    items: dict[tuple[str, ObjectKey], ClusterObject | BrokenObject] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def add(self, source: SourceObject) -> None:
        """Add an object; other kinds are ignored.

        Raises
        ------
        InputError
            If its API version is unknown, or it has no name.
        """
        if not has_kind(source, _KINDS):
            return
        source = in_v1(source)
        # Items of a NodeList have no kind.
        item = decode({**source.value, "kind": source.kind})
        assert item is not None
        metadata = source.value.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        name, namespace = metadata.get("name"), metadata.get("namespace", "")
        if not isinstance(name, str) or not name:
            problem = "must be a string" if name else "is required"
            raise source.document.error((*source.path, "metadata", "name"), problem)
        if isinstance(item, BrokenObject):
            place = f"{source.document.file}, line {source.document.line_of(source.path)}"
            # The message has the kind and name already.
            problem = item.problem.removeprefix(f"{source.kind} {name}: ")
            item = replace(item, problem=f"{problem} ({place})")
            self.refused.append(f"{source.kind} {name}: {item.problem}")
        elif isinstance(item, DeviceClass | ResourceSlice):
            self._note_refusal(source, item)
        self.items[source.kind, ObjectKey(str(namespace), name)] = item

    def _note_refusal(self, source: SourceObject, item: DeviceClass | ResourceSlice) -> None:
        try:
            check_object(item)
        except ObjectError as error:
            self.refused.append(str(source.error(error)))

    def names(self, kind: Kind) -> Iterator[str]:
        return (key.name for of, key in self.items if of == kind)


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """Both figures of a pool; None where there is none."""

    id: PoolId
    autoscaler: Fraction | None
    weighted: Fraction | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Both figures of a node; None where there is none.

    Attributes
    ----------
    autoscaler_problem, weighted_problems
        Why a figure is unknown; empty if it is known, or the node has no counted devices.
    """

    node: str
    autoscaler: Fraction | None
    weighted: Fraction | None
    autoscaler_problem: str = ""
    weighted_problems: tuple[str, ...] = ()
    pools: tuple[PoolUsage, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """Whether one of the figures is unknown."""
        return bool(self.autoscaler_problem or self.weighted_problems)

    @property
    def differs_strongly(self) -> bool:
        """Whether the figures differ by `STRONG_DIFFERENCE` or more; False if one of them is unknown."""
        if self.autoscaler is None or self.weighted is None:
            return False
        return abs(self.autoscaler - self.weighted) >= STRONG_DIFFERENCE

    @classmethod
    def of(cls, found: NodeUtilization) -> NodeUsage:
        """Figures of a node from the simulator's."""
        counted = found.autoscaler.pools if not found.autoscaler.problem else {}
        pools = {pool.id: pool for pool in found.weighted.pools}
        return cls(
            found.node,
            found.autoscaler.highest,
            found.weighted.figure,
            found.autoscaler.problem,
            found.weighted.problems,
            tuple(
                PoolUsage(pool_id, counted.get(pool_id), pool.figure, pool.problem)
                if (pool := pools.get(pool_id)) is not None
                else PoolUsage(pool_id, counted.get(pool_id), None)
                for pool_id in sorted({*pools, *counted})
            ),
        )


@dataclass(frozen=True, slots=True)
class ClusterUsage:
    """All nodes, the busiest first, and nodes with unknown figures last.

    Attributes
    ----------
    notes
        Notes about the figures: malformed objects, missing pods.
    """

    name: str
    nodes: tuple[NodeUsage, ...]
    notes: tuple[str, ...] = ()


def usage(snapshot: Snapshot, name: str, weights: Mapping[str, Fraction]) -> ClusterUsage:
    """Compute how full the nodes of a snapshot are; the snapshot does not change.

    Parameters
    ----------
    name
        Name of the result.
    weights
        Weight of devices by device class, not negative; 1 for every other class.
    """
    notes: list[str] = []
    with snapshot.trial():
        if not snapshot.pods and not any(broken.kind is Kind.POD for broken in snapshot.broken):
            stand_ins = list(_stand_ins(snapshot))
            for pod in stand_ins:
                snapshot.put(pod)
            notes += [_NO_PODS] if stand_ins else []
        else:
            notes += _missing_pods(snapshot)
        utilization = Utilization(snapshot, ClassWeights(weights))
        nodes = [NodeUsage.of(utilization.of(node)) for node in snapshot.nodes]
    nodes = sorted(_with_broken(snapshot, nodes), key=_order)
    shown = {problem for node in nodes for problem in (node.autoscaler_problem, *node.weighted_problems)}
    notes += [str(broken) for broken in snapshot.broken if str(broken) not in shown]
    notes += _missing_elsewhere(snapshot, shown)
    return ClusterUsage(name, tuple(nodes), tuple(notes))


def _order(node: NodeUsage) -> tuple[bool, bool, Fraction, Fraction, str]:
    """Busiest first, then nodes without counted devices, then unknown ones."""
    figures = [figure for figure in (node.weighted, node.autoscaler) if figure is not None]
    is_empty = not figures and not node.is_unknown
    weighted = figures[0] if figures else Fraction(0)
    return node.is_unknown, is_empty, -weighted, -(node.autoscaler or Fraction(0)), node.node


def _with_broken(snapshot: Snapshot, nodes: Iterable[NodeUsage]) -> Iterator[NodeUsage]:
    """The nodes with the problems of malformed pods and slices; malformed nodes, too."""
    pods: dict[str, str] = {}
    pools: dict[str, dict[PoolId, str]] = {}
    for broken in snapshot.broken:
        if broken.kind is Kind.POD and broken.node_name:
            pods.setdefault(broken.node_name, str(broken))
        elif broken.kind is Kind.RESOURCE_SLICE and broken.pool_id is not None:
            pools.setdefault(broken.node_name, {}).setdefault(broken.pool_id, str(broken))
        elif broken.kind is Kind.NODE:
            yield NodeUsage(broken.key.name, None, None, str(broken), (str(broken),))
    for node in nodes:
        if node.node in pods:
            node = replace(node, autoscaler=None, autoscaler_problem=pods[node.node])
        yield _with_broken_pools(node, pools.get(node.node, {}))


def _with_broken_pools(node: NodeUsage, broken: Mapping[PoolId, str]) -> NodeUsage:
    """The node with the problems of its slices instead of the problems of pools that follow from them."""
    if not broken:
        return node
    instead = {f"pool {pool.id}: {pool.problem}": broken[pool.id] for pool in node.pools if pool.id in broken}
    return replace(
        node,
        weighted_problems=tuple(instead.get(problem, problem) for problem in node.weighted_problems),
        pools=tuple(replace(pool, problem=broken.get(pool.id, pool.problem)) for pool in node.pools),
    )


def _stand_ins(snapshot: Snapshot) -> Iterator[Pod]:
    """A pod on the node for every claim with devices of that node."""
    node_of = {item.pool_id: item.node_name for item in snapshot.slices.values() if item.node_name}
    for key, tracked in snapshot.claims.items():
        results = tracked.claim.status.devices or ()
        nodes = {node_of.get(PoolId(result.id.driver, result.id.pool), "") for result in results}
        for node in sorted(nodes & snapshot.nodes.keys()):
            reference = ClaimReference("claim", claim=key.name)
            yield Pod(f"{key.name} on {node}", key.namespace, "", node_name=node, claims=(reference,))


def _missing_elsewhere(snapshot: Snapshot, shown: Collection[str]) -> Iterator[str]:
    """Allocated devices that are not published, and of which it is not known on which node they were."""
    holders = snapshot.state.devices.holders
    held = [(str(key), part) for key, parts in holders.items() for part in parts]
    text = "; ".join(shown)
    elsewhere = [each for each in missing_devices(snapshot.slices.values(), held) if str(each) not in text]
    if elsewhere:
        more = f", and {len(elsewhere) - 3:,} more" if len(elsewhere) > 3 else ""
        yield f"Not counted on any node: {'; '.join(map(str, elsewhere[:3]))}{more}"


def _missing_pods(snapshot: Snapshot) -> Iterator[str]:
    """A note about claims of pods that were not given, as after ``kubectl get pods`` of one namespace."""
    missing = [
        str(key)
        for key, tracked in snapshot.claims.items()
        if any(
            consumer.resource == "pods" and ObjectKey(key.namespace, consumer.name) not in snapshot.pods
            for consumer in tracked.consumers
        )
    ]
    if missing:
        more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
        yield (
            f"Claims in use by pods that were not given, which cluster-autoscaler's figure leaves out:"
            f" {', '.join(missing[:3])}{more}"
        )
