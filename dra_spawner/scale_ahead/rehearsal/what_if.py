"""What if: more users of a profile now, more nodes like a present one or of a kind, and nodes that are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from dra_spawner import names
from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex, Namespaces
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.preemption import find_preemption
from dra_spawner.placeholders.planner.packing.packed_starts import PackedStarts
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.targets.node_conditions import without_label
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.rehearsal.capacity import measure_capacity
from dra_spawner.scale_ahead.rehearsal.nodes.node_looks import looks_of_kind
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.simulator.devices.search_limits import CommonBudget
from dra_spawner.simulator.failed_fits import FailedFits
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.node_templates import NodeTemplate, TemplateError, add_node, template_of
from dra_spawner.simulator.refusal_text import refusal_detail
from dra_spawner.simulator.snapshot import Snapshot, Undecided

#: Cost of an attempt to place a server, in steps of the search's budget, besides the search for devices.
_ATTEMPT_STEPS: Final = 10


class ImpossibleChange(ValueError):
    """Raised for a node that cannot be added or lost; the message is a clause."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A question.

    Attributes
    ----------
    users
        Number of users of the profile who start a server now.
    added
        Number of new nodes by the name of the present node that they equal.
    added_of_kind
        Number of new nodes by their kind.
    lost
        Names of nodes that are lost, with all pods there.
    """

    profile: str
    shape: Shape
    users: int = 0
    added: Mapping[str, int] = field(default_factory=dict)
    added_of_kind: Mapping[str, int] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Stranded:
    """Servers of one shape that were on lost nodes, and fit nowhere else.

    Attributes
    ----------
    because
        What present nodes lack, as a part of a sentence.
    """

    shape: str
    servers: int
    because: str


@dataclass(frozen=True, slots=True)
class Simulation:
    """The answer.

    Attributes
    ----------
    on_placeholders, on_ready_nodes, on_other_nodes
        Users who get a warm placeholder, free capacity on a node with the images, or on another node.
    refusal
        Why a further user cannot start; empty if all can.
    lost_servers
        Servers on lost nodes.
    on_free_capacity, after_preemption
        Those of them that would fit elsewhere if they were started again, before the further users: on free capacity,
        or when placeholders are preempted for them.
    stranded
        Servers on lost nodes that fit nowhere else.
    differing
        Kinds whose nodes differ, each with the node that the added ones are like.
    """

    question: WhatIf
    on_placeholders: int
    on_ready_nodes: int
    on_other_nodes: int
    refusal: str
    lost_servers: int
    on_free_capacity: int
    after_preemption: int
    differing: Mapping[str, str] = field(default_factory=dict)
    stranded: tuple[Stranded, ...] = ()

    @property
    def starting(self) -> int:
        """Users who can start."""
        return self.on_placeholders + self.on_ready_nodes + self.on_other_nodes

    @property
    def moved_servers(self) -> int:
        """Servers on lost nodes that would fit elsewhere."""
        return self.on_free_capacity + self.after_preemption

    @property
    def sentence(self) -> str:
        """The answer for people."""
        users, profile = self.question.users, self.question.profile
        parts = []
        if users:
            rest = f"; {users - self.starting} cannot: {self.refusal}" if self.refusal else ""
            parts.append(f"{self.starting} of {users} more users of {profile} can start{rest}.")
        if self.question.lost and not self.lost_servers:
            parts.append("No server is lost with the node." if len(self.question.lost) == 1 else "No server is lost.")
        elif self.question.lost:
            parts.append(
                f"{self.moved_servers} of {self.lost_servers} servers on lost nodes fit elsewhere{self._preempting}."
            )
        parts += [
            f"Nodes of {kind} differ; the added ones are like {node}." for kind, node in sorted(self.differing.items())
        ]
        return " ".join(parts) or "Nothing was asked."

    @property
    def _preempting(self) -> str:
        return f", {self.after_preemption} of them in the place of placeholders" if self.after_preemption else ""


def simulate(
    snapshot: Snapshot,
    now: datetime,
    namespaces: Namespaces,
    namespace: str,
    shapes: Mapping[str, Shape],
    question: WhatIf,
    budget: SearchBudget,
    supplies: Sequence[NodeSupply] = (),
    *,
    packs_devices: bool = False,
) -> Simulation:
    """Answer a question; quotas and limits of placeholders do not count.

    Parameters
    ----------
    snapshot
        A copy: it is changed.
    namespace
        Of the servers.
    shapes
        By id; servers on lost nodes of other shapes count as lost for good.
    supplies
        Kinds of nodes that may be added.
    packs_devices
        Whether the service packs devices.

    Raises
    ------
    ImpossibleChange
    SearchStopped
        If the budget is exceeded.
    """
    snapshot.limit_searches(CommonBudget(lambda: budget))
    for name, count in sorted(question.added.items()):
        _add_nodes(snapshot, _template_of_node(snapshot, name), count, "what-if")
    differing: dict[str, str] = {}
    for kind, count in sorted(question.added_of_kind.items()):
        template, differs = _template_of_kind(View(snapshot, now, namespaces=namespaces), kind, supplies)
        if differs:
            differing[kind] = template.node.name
        _add_nodes(snapshot, template, count, "what-if-kind")
    before = View(snapshot, now, namespaces=namespaces)
    lost = Counter(before.shape_of(pod) for name in question.lost for pod in before.users_of_node.get(name, ()))
    for name in question.lost:
        _lose_node(snapshot, name)
    known = {each: count for each, count in sorted(lost.items()) if each in shapes}
    index = ClusterIndex()

    def present() -> View:
        return View(snapshot, now, namespaces=namespaces, index=index)

    moved = {
        each: _place(present(), shapes[each], namespace, count, budget, packs_devices=packs_devices)
        for each, count in known.items()
    }

    preempting = {
        each: _place_after_preemption(present, shapes[each], namespace, range(moved[each], count), budget)
        for each, count in known.items()
    }
    view = present()
    stranded = tuple(
        Stranded(each, left, _why_stranded(snapshot, shapes.get(each), namespace))
        for each, count in sorted(lost.items())
        if (left := count - moved.get(each, 0) - preempting.get(each, 0))
    )
    on_placeholders = min(len(view.usable(question.shape.id)), question.users)
    further = question.users - on_placeholders
    capacity = measure_capacity(view, question.shape, namespace, further, (), budget, packs_devices=packs_devices)
    return Simulation(
        question,
        on_placeholders,
        capacity.ready,
        capacity.without_image,
        capacity.refusal,
        lost.total(),
        sum(moved.values()),
        sum(preempting.values()),
        differing,
        stranded,
    )


def _why_stranded(snapshot: Snapshot, shape: Shape | None, namespace: str) -> str:
    """Why one more server of a shape fits on no node that is left."""
    if shape is None:
        return "the hub does not publish their choice any more"
    try:
        with snapshot.trial():
            return refusal_detail(snapshot.fits(_lost_server(snapshot, shape, namespace), explain=True))
    except SearchStopped:
        return "the search for devices takes too long"


def _add_nodes(snapshot: Snapshot, template: NodeTemplate, count: int, suffix: str) -> None:
    for number in range(count):
        add_node(snapshot, template, f"{suffix}-{number}")


def _template_of_node(snapshot: Snapshot, name: str) -> NodeTemplate:
    if name not in snapshot.nodes:
        raise ImpossibleChange(f"there is no node {name}")
    try:
        return template_of(snapshot, name)
    except TemplateError as error:
        raise ImpossibleChange(str(error)) from None


def _template_of_kind(view: View, kind: str, supplies: Sequence[NodeSupply]) -> tuple[NodeTemplate, bool]:
    """The fullest of the most frequent nodes of a kind, and whether other nodes of the kind differ."""
    supply = next((each for each in supplies if each.name == kind), None)
    problem = ""
    for looks in looks_of_kind(view, supply.nodes, supply.past) if supply is not None else ():
        for look in looks:
            if look.template is not None:
                return look.template, len(looks) > 1
            problem = problem or look.problem
    if problem:
        raise ImpossibleChange(problem)
    raise ImpossibleChange(f"no node of the kind {kind} is present or remembered")


def _lose_node(snapshot: Snapshot, name: str) -> None:
    if name not in snapshot.nodes:
        raise ImpossibleChange(f"there is no node {name}")
    for pod in tuple(snapshot.nodes[name].pods):
        snapshot.remove_pod(ObjectKey.of(pod))
    for key, item in tuple(snapshot.slices.items()):
        if item.node_name == name:
            snapshot.remove(Kind.RESOURCE_SLICE, ObjectKey("", key))
    snapshot.remove(Kind.NODE, ObjectKey("", name))


def _place(view: View, shape: Shape, namespace: str, count: int, budget: SearchBudget, *, packs_devices: bool) -> int:
    """Place servers of a shape for good; returns how many fit."""
    snapshot, failed = view.snapshot, FailedFits()
    placed = 0
    pod = _lost_server(snapshot, shape, namespace)
    starts = PackedStarts(view, shape, namespace, pod.name, packs_devices=packs_devices)
    are_packed = packs_devices and starts.are_packed
    for number in range(count):
        budget.spend(_ATTEMPT_STEPS)
        with suppress(Undecided):
            if are_packed:
                placed += bool(starts.place(_numbered(pod, number)))
                continue
            placed += bool(snapshot.place_quickly(_numbered(pod, number), failed))
    return placed


def _place_after_preemption(
    present: Callable[[], View], shape: Shape, namespace: str, numbers: Iterable[int], budget: SearchBudget
) -> int:
    """Place servers of a shape where placeholders are preempted, and remove these; returns how many fit."""
    placed = 0
    for number in numbers:
        view = present()
        free = [each for each in view.placeholders.values() if each.is_free]
        if not free:
            break
        budget.spend(_ATTEMPT_STEPS * len(free))
        pod = _numbered(_lost_server(view.snapshot, shape, namespace), number)
        found = None
        with suppress(Undecided):
            found = find_preemption(view.snapshot, pod, free, NodesBusyness(view))
        if found is None:
            break
        for each in found.placeholders:
            view.snapshot.remove_pod(each.key)
        placed += view.snapshot.schedule(pod, found.node).fits
    return placed


def _lost_server(snapshot: Snapshot, shape: Shape, namespace: str) -> Pod:
    """A server of a shape that is started again on any node; its templates are in the snapshot."""
    pod, templates = simulated_user(shape, namespace)
    for template in templates:
        snapshot.put(template)
    return without_label(pod, names.IMAGES_READY)  # a drained node takes no server


def _numbered(pod: Pod, number: int) -> Pod:
    name = f"lost-{pod.labels.get(names.SHAPE, '')}-{number}"
    return replace(pod, name=name, uid=name)
