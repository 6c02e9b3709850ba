"""Which nodes are ready for users: the images are there, and every driver has published its devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from dra_spawner import names
from dra_spawner.common.counted_text import counted, listed
from dra_spawner.dra.model.objects import ResourceSlice
from dra_spawner.placeholders.planner.actions import LabelNode
from dra_spawner.placeholders.planner.amounts.planner_state import JudgedReadiness, PlannerState, TrackedLabel
from dra_spawner.placeholders.planner.cluster.allowed_nodes import allows
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.hypothetical_pods import kind_of, pods_by_kind
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.nodes import NodeState

_MAX_NAMES = 3


def decide_readiness(round_: Round) -> list[LabelNode]:
    """Set and remove the readiness label that users' servers require.

    On a node with servers the label stays and gets the value ``late``: a kubelet that restarts ends running pods whose
    required node label is gone (`NodeAffinity`; ``canAdmitPod`` in pkg/kubelet, as of 1.36).

    Services of several hubs may share nodes, and need different images there. A service does not remove a label that
    another one has written: else both would write it again and again. So a node is ready if one hub finds it ready.
    """
    view, policy, planner_state = round_.view, round_.policy, round_.state
    judge = _Judge(view, policy, planner_state)
    gone: list[LabelNode] = []
    come: list[LabelNode] = []
    since = dict(planner_state.ready_since)
    labels = dict(planner_state.readiness_labels)
    for name in judge.gone(labels):
        since.pop(name, None)
        labels.pop(name, None)
    lost_readiness = {}
    unsettled = set()
    for name in judge.to_look_at():
        state = view.snapshot.nodes[name]
        begun_to_be_ready = since.pop(name, view.now)
        label = state.node.labels.get(names.IMAGES_READY)
        labels[name] = labels.get(name, TrackedLabel(label, label)).now(label)
        kinds = judge.kinds_of(state)
        if not kinds:
            continue  # no server of a choice can run there
        missing = judge.missing(state, kinds)
        if missing and labels[name].is_others:
            continue
        if missing:
            unsettled.add(name)
            begun = planner_state.lost_readiness.get(name)
            if view.unknown_kinds:
                if begun is not None:
                    lost_readiness[name] = begun
                continue  # the node may have it by now
            if begun is not None or label == names.TRUE:
                lost_readiness[name] = begun or view.now
            # A node that never was ready waits since its creation.
            pending_records = view.now - lost_readiness[name] if name in lost_readiness else view.age_of_node(name)
            has_servers = bool(view.users_of_node.get(name))
            if label == names.TRUE and has_servers:
                reason = f"servers run there, although {missing}"
                come.append(LabelNode(name, names.IMAGES_READY, names.LATE, reason))
            elif label == names.TRUE or (
                label is not None and not has_servers and pending_records < policy.readiness.deadline
            ):
                gone.append(LabelNode(name, names.IMAGES_READY, None, f"not ready for users: {missing}"))
            elif label is None and pending_records >= policy.readiness.deadline:
                minutes = int(policy.readiness.deadline.total_seconds() // 60)
                reason = f"open to users after {minutes} minutes, although {missing}"
                come.append(LabelNode(name, names.IMAGES_READY, names.LATE, reason))
            continue
        since[name] = begun_to_be_ready
        if label == names.TRUE:
            continue
        unsettled.add(name)
        if name in planner_state.lost_readiness and view.now - since[name] < policy.readiness.settle:
            lost_readiness[name] = planner_state.lost_readiness[name]
            continue
        reason = f"ready for users: {judge.present(state, kinds)}"
        come.append(LabelNode(name, names.IMAGES_READY, names.TRUE, reason))
    labels.update((each.node, labels[each.node].written(each.value)) for each in (*gone, *come))
    round_.remember(
        lost_readiness=lost_readiness,
        ready_since=since,
        readiness_labels=labels,
        drivers=judge.drivers_of_kind,
        judged=judge.judged(unsettled),
    )
    return [*gone, *come]


def why_not_ready(view: View, policy: Policy, planner_state: PlannerState, name: str) -> str:
    """Why users' servers do not go to a node at present; empty if they may."""
    state = view.snapshot.nodes.get(name)
    if state is None or names.IMAGES_READY in state.node.labels:
        return ""
    judge = _Judge(view, policy, planner_state)
    kinds = judge.kinds_of(state)
    if not kinds:
        return "no server of a published choice can run there"
    return judge.missing(state, kinds) or "it is about to be opened to users"


class _Judge:
    """Judges nodes: all of them first, later only changed and unsettled ones."""

    def __init__(self, view: View, policy: Policy, planner_state: PlannerState) -> None:
        self._view = view
        self._policy = policy
        self._pods = pods_by_kind(policy.shapes.values())
        self._images = _images_by_kind(policy)
        self._rules = (self._images, policy.readiness)
        judged = planner_state.judged
        touched = view.index.touched_since(judged.moment)
        self._looks_at_all = touched is None or judged.rules != self._rules
        self._touched = touched or set()
        self._unsettled = judged.unsettled
        self.drivers_of_kind = self._seen_with(planner_state)

    def to_look_at(self) -> Iterator[str]:
        """Names of nodes, sorted."""
        nodes = self._view.snapshot.nodes
        names = nodes.keys() if self._looks_at_all else (self._touched | self._unsettled) & nodes.keys()
        return iter(sorted(names))

    def gone(self, known: Iterable[str]) -> Iterable[str]:
        """Names of known nodes that do not exist any more."""
        nodes = self._view.snapshot.nodes
        return [name for name in (known if self._looks_at_all else self._touched) if name not in nodes]

    def judged(self, unsettled: set[str]) -> JudgedReadiness:
        """The inputs, for the next judgement."""
        return JudgedReadiness(self._rules, self._view.index.moment, frozenset(unsettled))

    def kinds_of(self, state: NodeState) -> list[str]:
        """The kinds of shapes that can run on a node."""
        return [kind for kind, pod in self._pods.items() if allows(state, pod)]

    def missing(self, state: NodeState, kinds: Iterable[str]) -> str:
        """What a node lacks, for a message; empty if nothing."""
        wanted = self._wanted_images(kinds)
        images = sorted(wanted - images_on(self._view, state)) if wanted else []
        if images:
            return f"{counted(len(images), 'image')} to be pulled ({listed(images, _MAX_NAMES)})"
        complete, incomplete = self._drivers_of(state.node.name)
        if incomplete:
            return f"devices of {listed(sorted(incomplete), _MAX_NAMES)} are not all published yet"
        drivers = self.drivers_of_kind.get(self._kind(state), frozenset()) - complete
        if drivers:
            seen = "it had before" if self._kind(state) == state.node.name else "other nodes of its kind have"
            return f"no devices of {listed(sorted(drivers), _MAX_NAMES)} yet, which {seen}"
        return ""

    def present(self, state: NodeState, kinds: Iterable[str]) -> str:
        """What a ready node has, for a message."""
        images = self._wanted_images(kinds)
        drivers, _ = self._drivers_of(state.node.name)
        found = [counted(len(images), "image") + (" is there" if len(images) == 1 else " are there")]
        if drivers:
            found.append(f"devices of {listed(sorted(drivers), _MAX_NAMES)} are published")
        return ", ".join(found)

    def _wanted_images(self, kinds: Iterable[str]) -> frozenset[str]:
        always = frozenset(map(image_name, self._policy.readiness.images))
        return always.union(*(self._images[kind] for kind in kinds))

    def _drivers_of(self, name: str) -> tuple[frozenset[str], frozenset[str]]:
        return drivers_of(self._view.index.slices_of_node.get(name, ()))

    def _kind(self, state: NodeState) -> str:
        """The kind of a node, whose nodes have the same drivers; a node without a kind is a kind of its own."""
        return state.node.labels.get(self._policy.readiness.kind_label, "") or state.node.name

    def _seen_with(self, planner_state: PlannerState) -> Mapping[str, frozenset[str]]:
        """By kind: the drivers that were seen on its nodes, which a new node must have too."""
        index, nodes = self._view.index, self._view.snapshot.nodes
        found = dict(planner_state.drivers)
        for name in self._touched:
            if name not in nodes:
                found.pop(name, None)
        for name in index.slices_of_node if self._looks_at_all else self._touched:
            state = nodes.get(name)
            if state is None:
                continue
            kind = self._kind(state)
            drivers = found.get(kind, frozenset())
            complete, _ = self._drivers_of(name)
            if not complete <= drivers:
                found[kind] = drivers | complete
                self._looks_at_all |= kind != name
        return found


def images_on(view: View, state: NodeState) -> set[str]:
    """Full names of images on a node: its status lists at most 50, so images of finished pullers count too."""
    found = {image_name(name) for name in state.node.images}
    for pod in view.pullers.get(state.node.name, ()):
        if pod.phase == "Running" and not pod.is_deleted:
            found.update(map(image_name, pod.images))
    return found


def _images_by_kind(policy: Policy) -> dict[str, frozenset[str]]:
    """Needed images by kind of shape."""
    found: dict[str, frozenset[str]] = {}
    for shape in policy.shapes.values():
        kind = kind_of(shape)
        found[kind] = found.get(kind, frozenset()) | frozenset(map(image_name, shape.images))
    return found


@lru_cache(maxsize=10_000)
def image_name(name: str) -> str:
    """An image's full name, as container runtimes report it."""
    domain, slash, rest = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif "." not in domain and ":" not in domain and domain != "localhost":
        name = f"docker.io/{name}"
    elif domain == "docker.io" and "/" not in rest:
        name = f"docker.io/library/{rest}"
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


def drivers_of(slices: Sequence[ResourceSlice]) -> tuple[frozenset[str], frozenset[str]]:
    """Drivers whose pools are all complete, and drivers with an incomplete pool."""
    if len(slices) == 1 and slices[0].resource_slice_count == 1:  # the usual case
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
