"""The devices of a node that a pod's claims should get, and what each node loses by them.

Pure: from devices, what is in use, and claims. The choice is expressed as preferences
(`dra_spawner.dra.preferences`), which a claim can follow without the risk that it fits nowhere. So it is only made
where trying further devices first cannot change whether the claims fit:

* no claim of the pod has constraints or wants all devices: kube-scheduler would find other combinations, or give up;
* no selector of a class fails on any device of the cluster: with a preference more devices are looked at;
* the scheduler has lists of alternatives, and looks at no incomplete pool.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from dra_spawner.dra.allocation.requests import PreparedAlternative, PreparedClaim, prepare_claims
from dra_spawner.dra.allocation.selectors import SelectorCache, SelectorFailure
from dra_spawner.dra.errors import AllocationError
from dra_spawner.dra.model.claims import DeviceClass, ResourceClaim
from dra_spawner.dra.model.devices import AttributeKind, Device, DeviceId
from dra_spawner.dra.preferences import MAX_DEVICES, DeviceMark, Group
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.devices.caching import Cache
from dra_spawner.simulator.devices.device_state import DeviceState
from dra_spawner.simulator.packing.device_costs import PARTS, Cost, NodeDevices, Option

#: Requests of a pod: with alternatives, the scheduler's search grows with the number of combinations.
_MAX_REQUESTS: Final = 4
_MAX_COSTS: Final = 20_000
#: Asked of all devices where a class has no selector: an attribute that no CEL can read makes each selector fail.
_HARMLESS: Final = 'device.driver == ""'


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """The devices that one request should get on a node.

    Attributes
    ----------
    claim
        Position of the claim among the pod's claims.
    groups
        For the claim's preferences; empty if the scheduler gives these devices anyway, or nothing tells them apart.
    is_first
        Whether kube-scheduler gives them without a preference.
    is_whole
        Whether nothing is left of them for others.
    """

    claim: int
    request: str
    devices: tuple[DeviceId, ...]
    cost: Cost
    groups: tuple[Group, ...] = ()
    is_first: bool = False
    is_whole: bool = False

    @property
    def reason(self) -> str:
        """Why these devices, as a clause."""
        names, are = " and ".join(each.device for each in self.devices), "are" if len(self.devices) > 1 else "is"
        if self.is_whole:
            return f"{names} {are} taken whole"
        if self.cost.opened:
            return f"{names} {are} begun, as nothing in use has capacity"
        if self.cost.lost:
            return f"{names} {are} on hardware in use, where it leaves the most for larger partitions"
        return f"{names} {are} in use already, with the least capacity left over"


@dataclass(frozen=True, slots=True)
class NodeCost:
    """What a node loses by all claims of a pod.

    Attributes
    ----------
    opened, lost, left
        Sums of `Cost`.
    spare
        Untouched units of a node that whole ones are taken from: the last ones go first, so that other nodes keep all.
    taken, free
        The parts of units that the claims take if they open a unit without filling it, and those that were free, in
        millionths.
    """

    opened: int = 0
    lost: int = 0
    left: int = 0
    spare: int = 0
    taken: int = 0
    free: int = 0

    def plus(self, other: NodeCost) -> NodeCost:
        return NodeCost(
            self.opened + other.opened,
            self.lost + other.lost,
            self.left + other.left,
            self.spare + other.spare,
            self.taken + other.taken,
            self.free + other.free,
        )

    def order(self, resources: Iterable[tuple[int, int]]) -> tuple[int, bool, int, int, int]:
        """Sorts nodes, the best first.

        Parameters
        ----------
        resources
            For CPU and memory: what the pod requests, and what the node has left before.
        """
        # A unit that is opened where nothing else is left is open for this pod alone.
        strands = bool(self.taken) and any(
            (left - requested) * self.taken < requested * (self.free - self.taken) for requested, left in resources
        )
        return self.opened, strands, self.spare, self.lost, self.left


@dataclass(frozen=True, slots=True)
class PackedNode:
    """What a pod should get on one node, and what the node loses."""

    cost: NodeCost
    choices: tuple[DeviceChoice, ...]


class ClassSelectors:
    """Which classes have selectors that fail on some device. Holds until slices or classes change.

    Parameters
    ----------
    selectors
        Verdicts of selectors; they hold longer.
    """

    def __init__(self, devices: DeviceState, selectors: SelectorCache) -> None:
        self._devices = devices
        self._may_fail: dict[str, bool] = {}
        self.selectors = selectors

    def may_fail(self, item: DeviceClass) -> bool:
        known = self._may_fail.get(item.name)
        if known is None:
            asked = self.selectors.filter(tuple(each or "" for each in item.selectors) or (_HARMLESS,))
            known = self._may_fail[item.name] = any(
                isinstance(asked.verdict(device.description), SelectorFailure)
                for part in self._devices.slices.values()
                for device in part.devices
            )
        return known


class Packing:
    """Chooses devices for the claims of one pod.

    Parameters
    ----------
    devices
        Must not change in classes and rules; what is in use may change.
    claims
        Claims without allocation, in the pod's order.
    class_selectors
        Of the same devices; None for new ones.
    """

    def __init__(
        self, devices: DeviceState, claims: Sequence[ResourceClaim], class_selectors: ClassSelectors | None = None
    ) -> None:
        self._devices = devices
        self._class_selectors = class_selectors or ClassSelectors(
            devices, SelectorCache(list_attributes=devices.rules.selectors_see_lists)
        )
        self._rules = devices.rules
        self._claims = tuple(claims)
        self._costs: Cache[Hashable, NodeCost | None] = Cache(_MAX_COSTS)
        self._prepared: tuple[PreparedClaim, ...] = ()
        self.problem = self._prepare()
        """Why no devices are chosen, as a clause; empty if they are."""

    def _prepare(self) -> str:
        if problem := packing_problem(self._claims, self._rules):
            return problem
        known = self._class_selectors
        try:
            self._prepared = prepare_claims(self._claims, self._devices.classes, self._rules, known.selectors)
        except AllocationError as error:
            return str(error)
        classes = {each.device_class.name: each.device_class for each in self._alternatives()}
        for name, item in classes.items():
            if known.may_fail(item):
                return f"a selector of class {name} fails on some devices"
        return ""

    def _alternatives(self) -> Iterator[PreparedAlternative]:
        return (each for claim in self._prepared for request in claim.requests for each in request)

    def costs(self) -> Callable[[str], NodeCost | None]:
        """By node: what it loses; None if the claims do not fit, or nothing is chosen there.

        What is in use must not change meanwhile.
        """
        if self.problem:
            return lambda name: None
        token_of = self._devices.tokens(self._claims)

        def cost(name: str) -> NodeCost | None:
            token = token_of(name)
            if token not in self._costs:
                found = self.on_node(name)
                return self._costs.keep(token, found.cost if found is not None else None)
            return self._costs[token]

        return cost

    def on_node(self, name: str) -> PackedNode | None:
        """The devices that the claims should get on a node; None if they do not fit, or nothing is chosen there."""
        if self.problem:
            return None
        node = NodeDevices(self._devices.view(name), self._prepared, self._devices.allocated, self._rules)
        if not node.are_few:
            return None
        total = NodeCost()
        choices = []
        try:
            for index, claim in enumerate(self._prepared):
                for alternatives in claim.requests:
                    found = _choose(node, index, alternatives)
                    if found is None:
                        return None
                    total = total.plus(found[0])
                    choices.append(found[1])
        except AllocationError:
            return None
        return PackedNode(total, tuple(choices))


def packing_problem(claims: Iterable[ResourceClaim], rules: SchedulerRules) -> str:
    """Why no devices are chosen for claims, whatever the devices are, as a clause; empty if they may be."""
    if not rules.features.prioritized_list:
        return "the scheduler knows no lists of alternatives"
    if rules.quirks.incomplete_pools_used:
        return "this release of the scheduler looks at incomplete pools"
    requests = [request for claim in claims for request in claim.requests]
    if len(requests) > _MAX_REQUESTS:
        return f"there are more than {_MAX_REQUESTS} requests"
    if any(claim.constraints for claim in claims):
        return "a claim has constraints"
    if any(each.allocation_mode != "ExactCount" for request in requests for each in request.alternatives):
        return "a request wants all devices"
    return ""


def _choose(
    node: NodeDevices, claim: int, alternatives: Sequence[PreparedAlternative]
) -> tuple[NodeCost, DeviceChoice] | None:
    """The devices of one request, which are taken then; None if there are not enough."""
    for alternative in alternatives:
        has_choice = not alternative.alternative_name and not alternative.is_admin
        total = NodeCost()
        chosen: list[Option] = []
        at_first: tuple[Option, ...] = ()
        for number in range(alternative.wanted.count):
            found = node.options(alternative)
            options = [each for each in found.devices if each.place not in {one.place for one in chosen}]
            if not number:
                at_first = found.devices
            if not options:
                break
            best = min(options, key=lambda each: (each.cost, each.place)) if has_choice else options[0]
            node.take(alternative, best.candidate)
            chosen.append(best)
            is_part = bool(best.cost.opened) and best.taken < PARTS
            total = total.plus(
                NodeCost(
                    *best.cost,
                    spare=found.untouched if best.cost.opened and not is_part else 0,
                    taken=best.taken if is_part else 0,
                    free=found.free if is_part else 0,
                )
            )
        if len(chosen) == alternative.wanted.count:
            return total, _choice(claim, alternative, chosen, at_first)
        if chosen:
            return None
    return None


def _choice(
    claim: int, alternative: PreparedAlternative, chosen: Sequence[Option], options: Sequence[Option]
) -> DeviceChoice:
    cost = Cost(*(sum(parts) for parts in zip(*(each.cost for each in chosen), strict=True)))
    devices = tuple(each.candidate.device.id for each in chosen)
    is_first = {each.place for each in chosen} == {each.place for each in options[: len(chosen)]}
    has_choice = not alternative.alternative_name and not alternative.is_admin
    groups = _groups(chosen, options) if has_choice and not is_first else ()
    is_whole = all(each.cost.opened and each.taken >= PARTS for each in chosen)
    return DeviceChoice(claim, alternative.request_name, devices, cost, groups, is_first, is_whole)


def _groups(chosen: Sequence[Option], options: Sequence[Option]) -> tuple[Group, ...]:
    """Marks of the chosen devices, and of others that are in use already; empty if some chosen one has no mark."""
    if len(chosen) > MAX_DEVICES:
        return ()
    marks = [mark_of(each, options, alone=len(chosen) > 1) for each in chosen]
    best = tuple(each for each in marks if each is not None)
    if len(best) < len(chosen):
        return ()
    if len(chosen) > 1 or chosen[0].cost.opened:
        return (best,)
    # Others that start at the same moment get the same answer: not all of them find the best device free.
    others = [each for each in options if not each.cost.opened and each.place != chosen[0].place]
    others.sort(key=lambda each: each.cost)
    further = [mark for each in others[:MAX_DEVICES] if (mark := mark_of(each, options, alone=True)) is not None]
    return (best, tuple(further)) if further else (best,)


#: Attributes of a device that are tried, those first that fewest devices share.
_MAX_TRIED: Final = 8
#: Identifiers that are unique in the cluster, so that the selector selects nothing on another node.
_UNIQUE: Final = ("uuid", "serial", "pciaddr", "pcibusid", "pcibusaddress")


def mark_of(option: Option, others: Sequence[Option], *, alone: bool = False) -> DeviceMark | None:
    """The shortest mark of a device; None if its driver publishes nothing that tells it from a worse choice.

    A mark is attributes for a selector that tell it from the others of its node: kube-scheduler's CEL sees no names.

    Parameters
    ----------
    others
        All options of the request on the node, in kube-scheduler's order; the device is one of them.
    alone
        Whether no other device of the node may have the mark. Otherwise the first of them must be as good.
    """
    device = option.candidate.device
    for attributes in _tried(device, others):
        found = [each for each in others if _has(each.candidate.device, device.id.driver, attributes)]
        is_right = len(found) == 1 if alone else bool(found) and found[0].cost == option.cost
        mark = DeviceMark(device.id.driver, attributes)
        if is_right and mark.is_usable:
            return mark
    return None


_Attributes = tuple[tuple[str, str, str | int], ...]


def _tried(device: Device, others: Sequence[Option]) -> Iterable[_Attributes]:
    """Single attributes and pairs, the best first."""
    known = attributes_of(device)

    def shared_by(item: tuple[tuple[str, str], str | int]) -> int:
        (domain, name), value = item
        return sum(_has(each.candidate.device, device.id.driver, ((domain, name, value),)) for each in others)

    def order(item: tuple[tuple[str, str], str | int]) -> tuple[int, bool, tuple[str, str]]:
        return shared_by(item), not item[0][1].lower().endswith(_UNIQUE), item[0]

    single = [(domain, name, value) for (domain, name), value in sorted(known.items(), key=order)[:_MAX_TRIED]]
    yield from ((each,) for each in single)
    yield from combinations(single, 2)


def attributes_of(device: Device) -> dict[tuple[str, str], str | int]:
    """Texts and numbers by domain and name, without those that a driver publishes as ``x`` and as ``driver/x``."""
    driver = device.id.driver
    found: dict[tuple[str, str], str | int] = {}
    twice = set()
    for key, (kind, value) in device.description.attributes.items():
        domain, slash, name = key.rpartition("/")
        full = (domain if slash else driver, name)
        if full in found:
            twice.add(full)
        if kind in (AttributeKind.STRING, AttributeKind.INT) and isinstance(value, str | int):
            found[full] = value
    return {full: value for full, value in found.items() if full not in twice}


def _has(device: Device, driver: str, attributes: _Attributes) -> bool:
    if device.id.driver != driver:
        return False
    known = device.description.attributes
    for domain, name, value in attributes:
        found = known.get(f"{domain}/{name}") or (known.get(name) if domain == driver else None)
        if found is None or found.value != value:
            return False
    return True
