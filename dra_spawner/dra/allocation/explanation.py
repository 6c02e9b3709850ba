"""Why claims cannot be allocated anywhere on a cluster now, as a sentence for the user of the pending pod."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from dra_spawner.dra.allocation.allocator import AllocatedState, AllocationError, Allocator, DoesNotFit
from dra_spawner.dra.allocation.cause_text import MACHINE_IS_ADDED
from dra_spawner.dra.allocation.reasons import NoFitReason, Refusal, RefusalKind, shortest
from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.dra.model.objects import DeviceClass, DeviceTaintRule, Json, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.model.taint_rules import applied, with_rules
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, SchedulerRules

_Object = TypeVar("_Object")
#: What may be too much for nodes in use, and for empty ones, too.
_TOO_MUCH: Final = frozenset(
    {
        RefusalKind.CAPACITY,
        RefusalKind.CAPACITY_POLICY,
        RefusalKind.CONSTRAINT,
        RefusalKind.COUNTERS,
        RefusalKind.LIMIT,
        RefusalKind.TAKEN_HERE,
        RefusalKind.TOO_SMALL,
    }
)


@dataclass(frozen=True, slots=True)
class Assessment:
    """Whether claims can be allocated now.

    Attributes
    ----------
    fits
        Whether some node has all the devices free; ``None`` if that is not known.
    sentence
        Why not, for people, or why that is not known; empty if it fits.
    outlook
        What ends the wait, for people, true only while the server waits; empty if waiting may not help.
    nearest
        What kept the nearest device from it; None if it fits, or if that is not known.
    """

    fits: bool | None = None
    sentence: str = ""
    outlook: str = ""
    nearest: Refusal | None = None


def assess(
    claims: Mapping[str, Json],
    *,
    nodes: Iterable[Json],
    slices: Iterable[Json],
    classes: Iterable[Json],
    existing: Iterable[Json],
    taint_rules: Iterable[Json] = (),
    rules: SchedulerRules = DEFAULT_RULES,
    budget: SearchBudget | None = None,
) -> Assessment:
    """Determine whether some node can satisfy all these claims; if not, the reason from the device that comes nearest.

    Parameters
    ----------
    claims
        ResourceClaimSpec by the claim's name.
    nodes, slices, classes, existing, taint_rules
        API objects of the cluster; ``existing`` are the ResourceClaims of all namespaces, ``taint_rules`` the
        DeviceTaintRules. An object that makes no sense is passed over.
    rules
        Of the cluster's kube-scheduler.
    budget
        What may be spent on all nodes together; no limit if it is left out.
    """
    wanted = [ResourceClaim.from_json({"metadata": {"name": name}, "spec": spec}) for name, spec in claims.items()]
    known = _decoded(ResourceSlice.from_json, slices), _decoded(DeviceClass.from_json, classes)
    places = _decoded(Node.from_json, nodes)
    taken = AllocatedState.from_claims(_decoded(ResourceClaim.from_json, existing), rules)
    by_name = {rule.name: rule for rule in _decoded(DeviceTaintRule.from_json, taint_rules)}
    in_force = applied(by_name, rules.quirks)
    known = [with_rules(each, in_force) for each in known[0]], known[1]
    try:
        found = _nearest(Allocator(*known, taken, rules), places, wanted, budget)
        if found is None:
            return Assessment(True)
        if found.nearest.kind in _TOO_MUCH or found.nearest.kind is RefusalKind.IN_USE:
            with suppress(SearchStopped):
                empty = _nearest(Allocator(*known, AllocatedState(rules), rules), places, wanted, budget)
                if isinstance(empty, NoFitReason) and empty.nearest.kind in _TOO_MUCH:
                    return Assessment(
                        False, f"Even the empty machines could not run it: {empty.for_user.never}.", MACHINE_IS_ADDED
                    )
    except SearchStopped as stopped:
        return Assessment(
            None,
            "It could not be determined in time whether this cluster has devices free for this choice (the search "
            f"was stopped after {stopped.steps:,} steps).",
            "The server starts as soon as some are found.",
        )
    except AllocationError as error:
        return Assessment(
            None, f"The scheduler cannot decide about this choice: {error}. Please tell your administrator."
        )
    except _NoReason:
        return Assessment(False, "No machine has devices now.")
    return Assessment(False, found.for_user.now, found.for_user.ends, found.nearest)


class _NoReason(Exception):
    """Raised where no node has a reason, as none has devices."""


def _nearest(
    allocator: Allocator, nodes: Iterable[Node], wanted: list[ResourceClaim], budget: SearchBudget | None
) -> NoFitReason | None:
    """Why claims fit on no node, by the node where they came nearest; None if they fit on one."""
    reasons: list[NoFitReason] = []
    for node in nodes:
        verdict = allocator.allocate(node, wanted, budget=budget)
        if not isinstance(verdict, DoesNotFit):
            return None
        if verdict.reason is not None:
            reasons.append(verdict.reason)
    reason = shortest(reasons)
    if reason is None:
        raise _NoReason
    return reason


def _decoded(decode: Callable[[Json], _Object], objects: Iterable[Json]) -> list[_Object]:
    decoded = []
    for obj in objects:
        try:
            decoded.append(decode(obj))
        except Exception:  # noqa: S112 (it is the fault of this one object)
            continue
    return decoded
