"""Which nodes are ready for users: images there, and every driver's devices published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dra_spawner.dra.objects import ResourceSlice
from dra_spawner.headroom import labels
from dra_spawner.headroom.actions import LabelNode
from dra_spawner.headroom.memory import Memory
from dra_spawner.headroom.policy import Policy
from dra_spawner.headroom.simulated import shape_pods
from dra_spawner.headroom.view import View, allows
from dra_spawner.simulator.nodes import NodeState

_MOST_NAMES = 3


def decide_readiness(view: View, policy: Policy, memory: Memory) -> tuple[tuple[LabelNode, ...], Memory]:
    """Which nodes get, and which lose, the label that users' servers require. Labels go first and come last.

    Parameters
    ----------
    memory
        Of the last decision; the new one comes back.
    """
    judge = _Judge(view, policy, memory)
    gone: list[LabelNode] = []
    come: list[LabelNode] = []
    since = {}
    lost_readiness = {}
    for name, state in view.snapshot.nodes.items():
        kinds = judge.shapes_of(state)
        if not kinds:
            continue  # no user's server can run there
        label = state.node.labels.get(labels.IMAGES_READY)
        missing = judge.missing(state, kinds)
        if missing:
            begun = memory.lost_readiness.get(name)
            if begun is not None or label == labels.TRUE:
                lost_readiness[name] = begun or view.now
            # A node that never was ready waits from its making on.
            waited = view.now - lost_readiness[name] if name in lost_readiness else view.age_of_node(name)
            if label == labels.TRUE:
                gone.append(LabelNode(name, labels.IMAGES_READY, None, f"not ready for users: {missing}"))
            elif label is None and waited >= policy.readiness.deadline:
                minutes = int(policy.readiness.deadline.total_seconds() // 60)
                reason = f"open to users after {minutes} minutes, although {missing}"
                come.append(LabelNode(name, labels.IMAGES_READY, labels.LATE, reason))
            continue
        since[name] = memory.ready_since.get(name, view.now)
        if label == labels.TRUE:
            continue
        if name in memory.lost_readiness and view.now - since[name] < policy.readiness.settle:
            lost_readiness[name] = memory.lost_readiness[name]
            continue
        come.append(
            LabelNode(name, labels.IMAGES_READY, labels.TRUE, f"ready for users: {judge.present(state, kinds)}")
        )
    remembered = replace(memory, lost_readiness=lost_readiness, ready_since=since, drivers=judge.drivers_of_kind)
    return (*gone, *come), remembered


class _Judge:
    """Looks at one node after the other."""

    def __init__(self, view: View, policy: Policy, memory: Memory) -> None:
        self._view = view
        self._policy = policy
        self._pods = shape_pods(policy)
        self._images = {shape.id: frozenset(map(image_name, shape.images)) for shape in policy.shapes.values()}
        self._complete: dict[str, frozenset[str]] = {}
        self._incomplete: dict[str, frozenset[str]] = {}
        for name, slices in _slices_of_nodes(view).items():
            self._complete[name], self._incomplete[name] = _drivers(slices)
        self.drivers_of_kind = _drivers_of_kind(view, policy, memory, self._complete)

    def shapes_of(self, state: NodeState) -> list[str]:
        """The shapes that can run on a node of this kind."""
        return [shape for shape, pod in self._pods.items() if allows(state, pod)]

    def missing(self, state: NodeState, shapes: Iterable[str]) -> str:
        """What a node lacks, for people; empty if nothing."""
        name = state.node.name
        wanted = self._wanted_images(shapes)
        images = sorted(wanted - self._images_of(state)) if wanted else []
        if images:
            return f"{_count(images, 'image')} to be pulled ({_names(images)})"
        if self._incomplete.get(name):
            return f"devices of {_names(sorted(self._incomplete[name]))} are not all published yet"
        drivers = self.drivers_of_kind.get(self._kind(state), frozenset()) - self._complete.get(name, frozenset())
        if drivers:
            return f"no devices of {_names(sorted(drivers))} yet, which other nodes of its kind have"
        return ""

    def present(self, state: NodeState, shapes: Iterable[str]) -> str:
        images = self._wanted_images(shapes)
        drivers = self._complete.get(state.node.name, frozenset())
        found = [_count(sorted(images), "image") + (" is there" if len(images) == 1 else " are there")]
        if drivers:
            found.append(f"devices of {_names(sorted(drivers))} are published")
        return ", ".join(found)

    def _wanted_images(self, shapes: Iterable[str]) -> frozenset[str]:
        always = frozenset(map(image_name, self._policy.readiness.images))
        return always.union(*(self._images[shape] for shape in shapes))

    def _images_of(self, state: NodeState) -> set[str]:
        """Images on a node: its status lists 50 at most, so what its puller has pulled counts, too."""
        found = {image_name(name) for name in state.node.images}
        for pod in self._view.pullers.get(state.node.name, ()):
            if pod.phase == "Running" and not pod.is_deleted:
                found.update(map(image_name, pod.images))
        return found

    def _kind(self, state: NodeState) -> str:
        return state.node.labels.get(self._policy.readiness.kind_label, "")


def image_name(name: str) -> str:
    """An image's name in full, as container runtimes report it."""
    domain, slash, rest = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif "." not in domain and ":" not in domain and domain != "localhost":
        name = f"docker.io/{name}"
    elif domain == "docker.io" and "/" not in rest:
        name = f"docker.io/library/{rest}"
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


def _slices_of_nodes(view: View) -> dict[str, list[ResourceSlice]]:
    found: dict[str, list[ResourceSlice]] = {}
    for item in view.snapshot.slices.values():
        if item.node_name:
            found.setdefault(item.node_name, []).append(item)
    return found


def _drivers(slices: list[ResourceSlice]) -> tuple[frozenset[str], frozenset[str]]:
    """Drivers all of whose pools are complete, and those with one that is not."""
    if len(slices) == 1 and slices[0].resource_slice_count == 1:  # as most nodes are
        return frozenset((slices[0].pool_id.driver,)), frozenset()
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for item in slices:
        pools.setdefault((item.pool_id.driver, item.pool_id.pool), []).append(item)
    every, incomplete = set(), set()
    for (driver, _), items in pools.items():
        newest = max(item.generation for item in items)
        current = [item for item in items if item.generation == newest]
        every.add(driver)
        if len(current) < current[0].resource_slice_count:
            incomplete.add(driver)
    return frozenset(every - incomplete), frozenset(incomplete)


def _drivers_of_kind(
    view: View, policy: Policy, memory: Memory, complete: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Drivers that a kind of node has been seen with, which a new node is to have, too."""
    found = dict(memory.drivers)
    for name, drivers in complete.items():
        state = view.snapshot.nodes.get(name)
        kind = state.node.labels.get(policy.readiness.kind_label, "") if state is not None else ""
        if kind:
            known = found.get(kind, frozenset())
            if not drivers <= known:
                found[kind] = known | drivers
    return found


def _count(names: list[str], what: str) -> str:
    return f"{len(names)} {what}" if len(names) == 1 else f"{len(names)} {what}s"


def _names(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
