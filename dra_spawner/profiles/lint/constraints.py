"""match_attribute: whether devices that go together exist on any node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dra_spawner import names
from dra_spawner.dra.model.devices import Attribute
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim

#: How many devices have which value, by node.
Values = Mapping[str, Mapping[Attribute, int]]

_NUMA = (names.NUMA_NODE, "dra.net/numaNode")


def constraint_findings(claim: WantedClaim, inventory: Inventory, certain: Level) -> Iterator[Finding]:
    """Findings about the ``match_attribute`` constraints of one claim."""
    for position, constraint in claim.constraints():
        attribute = constraint.match_attribute
        if attribute is None:
            continue
        path = claim.constraint_path(position)
        requests = claim.covered(constraint.requests)
        lacking = [name for name, wants in requests.items() if _lacks(wants, attribute, inventory)]
        if lacking:
            message = f"no device that {' or '.join(lacking)} can get publishes {attribute}"
            yield rules.NO_COMMON_VALUE.finding(path, f"{message}{_offer(requests, attribute, inventory)}", certain)
            continue
        match _most_alike(requests, attribute, inventory):
            case None | (_, True):
                pass
            case (0, _):
                message = f"no node has devices for {' and '.join(requests)} with the same {attribute}"
                yield rules.NO_COMMON_VALUE.finding(path, f"{message}{_offer(requests, attribute, inventory)}", certain)
            case (most, _):
                asked = sum(max(_count(want) for want in wants) for wants in requests.values())
                message = f"{asked} devices are to have the same {attribute}; on no node more than {most} have"
                yield rules.TOO_FEW_ALIKE.finding(path, message, certain)


def _count(want: Want) -> int:
    return want.devices.count if want.devices.allocation_mode == "ExactCount" else 1


def _values(want: Want, attribute: str, inventory: Inventory) -> Values:
    expressions = inventory.expressions(want.devices.device_class_name, want.selectors)
    return inventory.values(expressions, attribute)


def _lacks(wants: Sequence[Want], attribute: str, inventory: Inventory) -> bool:
    """Whether there are devices for a request, and none has the attribute."""
    by_node = [values for want in wants for values in _values(want, attribute, inventory).values()]
    return bool(by_node) and not any(by_node)


def _most_alike(
    requests: Mapping[str, Sequence[Want]], attribute: str, inventory: Inventory
) -> tuple[int, bool] | None:
    """The most devices of one node with the same value, and whether they suffice for all requests.

    Alternatives count for the one that fits best. None where no node has devices for all requests: then other rules
    have something to say.
    """
    found = {name: [(want, _values(want, attribute, inventory)) for want in wants] for name, wants in requests.items()}
    per_request = [set().union(*(values for _, values in wants)) for wants in found.values()]
    nodes: set[str] = set.intersection(*per_request) if per_request else set()
    if not nodes:
        return None
    most = 0
    for node in nodes:
        common = set.intersection(*(_some_values(wants, node) for wants in found.values()))
        for value in common:
            suffices, alike = _suffices(found, node, value)
            if suffices:
                return alike, True
            most = max(most, alike)
    return most, False


def _some_values(wants: Sequence[tuple[Want, Values]], node: str) -> set[Attribute]:
    return set().union(*(values.get(node, {}) for _, values in wants))


def _suffices(found: Mapping[str, Sequence[tuple[Want, Values]]], node: str, value: Attribute) -> tuple[bool, int]:
    """Whether all requests find enough devices with this value; requests for the same devices share them."""
    needed: dict[tuple[str, tuple[str, ...]], int] = {}
    there: dict[tuple[str, tuple[str, ...]], int] = {}
    enough = True
    for wants in found.values():
        if len(wants) > 1:
            enough &= any(values.get(node, {}).get(value, 0) >= _count(want) for want, values in wants)
            continue
        (want, values), *_ = wants
        kind = (want.devices.device_class_name, want.selectors)
        needed[kind] = needed.get(kind, 0) + _count(want)
        there[kind] = values.get(node, {}).get(value, 0)
    enough &= all(there[kind] >= count for kind, count in needed.items())
    return enough, sum(there.values()) or 1


def _offer(requests: Mapping[str, Sequence[Want]], attribute: str, inventory: Inventory) -> str:
    """What would work instead, if something would."""
    for other in _NUMA:
        found = _most_alike(requests, other, inventory) if other != attribute else None
        if found is not None and found[1]:
            return f"; {other} would do"
    return "; numa_node in each request may do instead" if attribute not in _NUMA else ""
