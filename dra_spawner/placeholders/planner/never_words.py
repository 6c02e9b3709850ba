"""Why no server of a choice can ever run, in words of the hub's users: no Kubernetes words, no names of objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from dra_spawner.dra.reasons import RefusalKind
from dra_spawner.simulator.fitting import NodeAnswer
from dra_spawner.simulator.node_fit import Filter

__all__ = ["never_sentence"]

_TOO_LARGE: Final = "it asks for more than any device has"
_NO_SUCH_DEVICE: Final = "no machine has a device of the kind that it asks for"
_SWITCHED_OFF: Final = "its devices need a function that is switched off"
_NO_SUCH_MACHINE: Final = "no machine is of the kind that it asks for"
_RULES: Final = "no machine meets all of its conditions"

#: The further down, the nearer the server came to a start.
_OF_FILTER: Final[Mapping[Filter, str]] = MappingProxyType(
    {
        Filter.NODE_UNSCHEDULABLE: _NO_SUCH_MACHINE,
        Filter.NODE_NAME: _NO_SUCH_MACHINE,
        Filter.TAINT_TOLERATION: _NO_SUCH_MACHINE,
        Filter.NODE_AFFINITY: _NO_SUCH_MACHINE,
        Filter.NODE_PORTS: _RULES,
        Filter.NOT_MODELLED: _RULES,
        Filter.VOLUME_BINDING: _RULES,
        Filter.POD_TOPOLOGY_SPREAD: _RULES,
        Filter.INTER_POD_AFFINITY: _RULES,
        Filter.NODE_RESOURCES_FIT: "it asks for more memory or processors than any machine has",
        Filter.DYNAMIC_RESOURCES: "no machine has the devices that it asks for",
    }
)
_OF_DEVICES: Final[Mapping[RefusalKind, str]] = MappingProxyType(
    {
        RefusalKind.NO_DEVICES: _NO_SUCH_DEVICE,
        RefusalKind.BINDING_CONDITIONS: _SWITCHED_OFF,
        RefusalKind.SELECTOR: _NO_SUCH_DEVICE,
        RefusalKind.OTHER_NODE: _NO_SUCH_DEVICE,
        RefusalKind.POOL_INCOMPLETE: _NO_SUCH_DEVICE,
        RefusalKind.POOL_INVALID: _NO_SUCH_DEVICE,
        RefusalKind.UNKNOWN_CAPACITY: "no device can be shared in the way that it asks for",
        RefusalKind.CAPACITY_POLICY: "no device gives a share of this size",
        RefusalKind.TOO_SMALL: _TOO_LARGE,
        RefusalKind.COUNTERS_DISABLED: _SWITCHED_OFF,
        RefusalKind.TAKEN_HERE: "it asks for more devices than any machine has",
        RefusalKind.IN_USE: "it asks for more devices than any machine has",
        RefusalKind.CAPACITY: "it asks for more than the devices of any machine have together",
        RefusalKind.COUNTERS: "it asks for more than the devices of any machine have together",
        RefusalKind.TAINT: "the devices that it asks for are closed to servers",
        RefusalKind.CONSTRAINT: "no machine has devices that belong together in the way that it asks for",
        RefusalKind.LIMIT: "it asks for too many devices at once",
    }
)
_FILTERS: Final = {each: number for number, each in enumerate(_OF_FILTER)}
_KINDS: Final = {each: number for number, each in enumerate(_OF_DEVICES)}


def never_sentence(refusals: Iterable[NodeAnswer]) -> str:
    """The reason of the kind of node on which the server came nearest to a start.

    Parameters
    ----------
    refusals
        Answers of empty nodes, one of each kind that the server's own conditions allow.
    """
    nearest = max(refusals, key=_nearness, default=None)
    return f"It can never start: {_reason(nearest)}."


def _nearness(refusal: NodeAnswer) -> tuple[int, int]:
    judge = refusal.verdict.filter
    kind = refusal.reason.nearest.kind if refusal.reason is not None else None
    return (_FILTERS[judge] if judge is not None else -1, _KINDS[kind] if kind is not None else -1)


def _reason(refusal: NodeAnswer | None) -> str:
    if refusal is None:
        return _NO_SUCH_MACHINE
    if refusal.verdict.filter is None:
        return _RULES
    if refusal.reason is not None:
        return _OF_DEVICES[refusal.reason.nearest.kind]
    return _OF_FILTER[refusal.verdict.filter]
