"""Availability of each choice: the placement of a server now, and the numbers of placeholders."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.lifecycle import PlaceholderState
from dra_spawner.placeholders.planner.answers.outlook import UNKNOWN, BusyServers, Outlook, Supply, find_outlook
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.answers.waits import RunningServer, WaitInterval, first_of_both, kth_stop
from dra_spawner.placeholders.planner.cluster.view import View, age
from dra_spawner.placeholders.planner.targets.choice_names import is_combination
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod

_AWAITED: Final = frozenset({AvailabilityState.NEEDS_NODE, AvailabilityState.WHEN_STOPPED})
_PARTS = re.compile("[/=,]")


@dataclass(frozen=True, slots=True)
class PlaceholderCounts:
    """Placeholders and servers of one shape.

    Attributes
    ----------
    placeholders
        How many in each state.
    used
        Users' servers that have a node.
    pending
        Users' pending servers.
    """

    placeholders: Counter[PlaceholderState] = field(default_factory=Counter)
    used: int = 0
    pending: int = 0


def count_placeholders(view: View) -> dict[str, PlaceholderCounts]:
    """Placeholders and servers by shape."""
    states: dict[str, Counter[PlaceholderState]] = {}
    for placeholder in view.placeholders.values():
        states.setdefault(placeholder.shape, Counter())[placeholder.state] += 1
    for pod in view.terminating:
        states.setdefault(pod.labels.get(names.SHAPE, ""), Counter())[PlaceholderState.TERMINATING] += 1
    used, pending = view.count_servers()
    shapes = {*states, *used, *pending}
    return {shape: PlaceholderCounts(states.get(shape, Counter()), used[shape], pending[shape]) for shape in shapes}


@dataclass(frozen=True, slots=True)
class ChoiceAvailability:
    """Availability of one choice.

    Attributes
    ----------
    name
        See `replicas.choice_names`.
    shape
        Id of its shape; empty if it has none.
    placement, outlook
        Placement of a server now, and how soon it would run; None if not known.
    wait
        When it would run; None if nothing is awaited, or too little is known.
    skipped_because
        Why it has no shape.
    """

    name: str
    shape: str = ""
    placement: Placement | None = None
    outlook: Outlook | None = None
    wait: WaitInterval | None = None
    counts: PlaceholderCounts = field(default_factory=PlaceholderCounts)
    replicas: ReplicaRange | None = None
    skipped_because: str = ""


def supply_of(controller: PlaceholderController) -> Supply:
    """What is known about new nodes; caps and drivers to the leader only."""
    more_nodes = controller.node_ceilings.more_nodes()
    if controller.latest is None:
        return Supply(more_nodes)
    state = controller.latest.planner_state
    return Supply(more_nodes, frozenset(state.scale_up_caps.at(controller.now())), state.drivers)


_Answer = tuple[Placement, Outlook]


class Availability:
    """Computes availability, again only after the cluster or the policy has changed; no answer here has an age.

    The event loop gets a turn after each shape: with thousands of nodes a shape takes a while.
    """

    def __init__(self, controller: PlaceholderController) -> None:
        self._controller = controller
        self._working = asyncio.Lock()
        self._index: dict[str, _Answer] = {}
        self._busy: tuple[int, BusyServers] | None = None
        self._ground: _Ground | None = None

    async def choices(self, name: str = "") -> tuple[ChoiceAvailability, ...]:
        """Availability of each published choice, sorted by name and amount; or of one.

        Combinations of several options, of which there may be thousands, are listed only if they have a target, a
        placeholder or a server.
        """
        controller = self._controller
        counts = count_placeholders(controller.view())
        async with self._working:
            policy, published = controller.policy, controller.published
            listed = _listed(published, controller.replicas, counts, name)
            answers = await self._answers(policy, {shape.id for shape in listed.values()})
        found = []
        for choice, shape in listed.items():
            placement, outlook = answers.get(shape.id, (None, None))
            numbers = counts.get(shape.id, PlaceholderCounts())
            replicas = controller.replicas.get(choice)
            wait = _estimate_wait(controller, outlook) if outlook is not None else None
            found.append(ChoiceAvailability(choice, shape.id, placement, outlook, wait, numbers, replicas))
        found += [each for each in _skipped_choices(published) if not name or each.name == name]
        return tuple(sorted(found, key=lambda each: choice_order(each.name)))

    async def wait_of(self, pod: Pod) -> WaitInterval | None:
        """The wait of a pending server, with those before it; None if nothing is awaited, or too little is known."""
        controller, shape = self._controller, pod.labels.get(names.SHAPE, "")
        async with self._working:
            policy = controller.policy
            answers = await self._answers(policy, {shape})
            if shape not in answers or answers[shape][1].state not in _AWAITED:
                return None
            view, supply = controller.view(), supply_of(controller)
            namespace = controller.settings.placeholders.namespace
            placement = answers[shape][0]
            with suppress(SearchStopped):
                return _estimate_wait(
                    controller,
                    find_outlook(
                        view,
                        policy,
                        policy.shapes[shape],
                        namespace,
                        placement,
                        supply,
                        lambda: self._busy_servers(view),
                        for_pod=pod,
                    ),
                )
        return None

    async def _answers(self, policy: Policy, shapes: Collection[str]) -> Mapping[str, _Answer]:
        ground = self._present_ground(policy)
        if not ground.is_same(self._ground):
            self._index, self._ground = {}, ground
        known = self._index
        for shape in policy.shapes.values():
            if shape.id in shapes and shape.id not in known:
                await asyncio.sleep(0)
                # Each answer is for the present cluster; the moments are close together.
                with suppress(SearchStopped):
                    known[shape.id] = self._answer(policy, shape)
        if not ground.is_same(self._present_ground(policy)):
            self._ground = None  # it has changed meanwhile; the next call computes all again
        return known

    def _answer(self, policy: Policy, shape: Shape) -> _Answer:
        controller = self._controller
        view, supply = controller.view(), supply_of(controller)
        namespace = controller.settings.placeholders.namespace
        placement = find_placement(view, policy, shape, namespace, supply.drivers_of_kind, supply.more_nodes)
        try:
            outlook = find_outlook(view, policy, shape, namespace, placement, supply, lambda: self._busy_servers(view))
        except SearchStopped:
            outlook = UNKNOWN
        return placement, outlook

    def _busy_servers(self, view: View) -> BusyServers:
        """Busy servers of the present cluster, made once."""
        version = self._controller.watch.version
        if self._busy is None or self._busy[0] != version:
            self._busy = version, BusyServers(view)
        return self._busy[1]

    def _present_ground(self, policy: Policy) -> _Ground:
        view = self._controller.view()
        reserved = frozenset(key for key, each in view.placeholders.items() if each.reservation is not None)
        return _Ground(self._controller.watch.version, policy, reserved, view.tickets)


@dataclass(frozen=True, slots=True)
class _Ground:
    """Inputs of the answers."""

    version: int
    policy: Policy
    reserved: frozenset[ObjectKey]
    tickets: TicketQueue

    def is_same(self, other: _Ground | None) -> bool:
        return (
            other is not None
            and (self.version, self.reserved, self.tickets) == (other.version, other.reserved, other.tickets)
            and self.policy is other.policy
        )


def _estimate_wait(controller: PlaceholderController, outlook: Outlook) -> WaitInterval | None:
    """The interval of the wait, from now; None if nothing is awaited, or too little is known.

    It follows from lead times of nodes, or from the usual lengths of sessions.
    """
    match outlook.state:
        case AvailabilityState.NEEDS_NODE if outlook.kind is not None:
            return _wait_for_node(controller, outlook, outlook.kind)
        case AvailabilityState.WHEN_STOPPED:
            return kth_stop(_holders(controller, outlook), outlook.before + 1)
    return None


def _wait_for_node(controller: PlaceholderController, outlook: Outlook, kind: str) -> WaitInterval | None:
    """Until the node is ready, or enough servers have stopped."""
    waits, elapsed = controller.node_ceilings.waits_for_new(kind), 0.0
    if outlook.coming:
        state = controller.watch.snapshot.nodes.get(outlook.coming)
        if state is None:
            return None
        waits = controller.node_ceilings.waits_for_created(kind)
        elapsed = age(state.node.created, controller.now()).total_seconds()
    return first_of_both(waits, elapsed, _holders(controller, outlook), outlook.before + 1)


def _holders(controller: PlaceholderController, outlook: Outlook) -> list[RunningServer]:
    """Servers that hold the needed devices; empty if a session length is unknown."""
    now, servers = controller.now(), []
    for pod in outlook.holders:
        server = _running_server(controller, pod, now)
        if server is None:
            return []
        servers.append(server)
    return servers


def _running_server(controller: PlaceholderController, pod: Pod, now: datetime) -> RunningServer | None:
    choice = controller.name_of(pod.labels.get(names.SHAPE, ""))
    lengths = controller.sessions.lengths_of(choice) if choice else None
    if lengths is None:
        return None
    began = controller.sessions.began(pod.uid)
    return RunningServer(((now - began) if began is not None else age(pod.created, now)).total_seconds(), lengths)


def _listed(
    published: PublishedShapes, replicas: Collection[str], counts: Collection[str], name: str
) -> dict[str, Shape]:
    if name:
        choice = published.find(name)
        return {choice: published.shapes[choice]} if choice is not None else {}
    single = {shape.id for choice, shape in published.shapes.items() if not is_combination(choice)}
    return {
        choice: shape
        for choice, shape in published.shapes.items()
        if not is_combination(choice) or choice in replicas or (shape.id in counts and shape.id not in single)
    }


def choice_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key to sort names of choices: by profile, then by options; 5Gi comes before 40Gi."""
    return tuple(_order_of_part(part) for part in _PARTS.split(name))


def _order_of_part(part: str) -> tuple[int, int, str]:
    try:
        return 0, Quantity.parse(part).nano, part
    except QuantityError:
        return 1, 0, part


def _skipped_choices(published: PublishedShapes) -> list[ChoiceAvailability]:
    return [ChoiceAvailability(name, skipped_because=why) for name, why in published.skipped.items()]
