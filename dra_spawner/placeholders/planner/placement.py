"""Where a server that is about to start gets its place, and how soon: asked before its pod is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.busyness import NodesBusyness
from dra_spawner.placeholders.planner.hypothetical_pods import simulated_user
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.preemption import Preemption, find_preemption
from dra_spawner.placeholders.planner.scale_up_estimate import ScaleUpEstimate, estimate_scale_up
from dra_spawner.placeholders.planner.search_ledger import SearchPostponed
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.placeholders.planner.view import Placeholder, View, is_labelled
from dra_spawner.simulator.claims import ClaimTemplate
from dra_spawner.simulator.fitting import PodFit
from dra_spawner.simulator.snapshot import Snapshot, Undecided

_MOST_REASONS = 3


class PlacementKind(StrEnum):
    """How a server gets its place."""

    #: A placeholder keeps it: the server takes over its claims, or its room.
    WARM = "warm"
    #: It is free.
    FRESH = "fresh"
    #: Placeholders of other shapes make way.
    PREEMPTED = "preempt"
    #: A node must come first.
    SCALE_UP = "scale-up"
    #: No kind of node that is known can ever have it.
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a server gets its place.

    Attributes
    ----------
    node
        Where; empty if a node must come.
    placeholder
        That is taken over.
    preemption
        Who makes way.
    reason
        For the user and for administrators, one plain sentence.
    """

    kind: PlacementKind
    reason: str
    node: str = ""
    placeholder: Placeholder | None = None
    preemption: Preemption | None = None


def find_placement(
    view: View,
    policy: Policy,
    shape: Shape,
    namespace: str,
    drivers_of_kind: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Placement:
    """Where a server of a shape gets its place now. Users fill the truly busiest node, so that others become empty.

    Parameters
    ----------
    drivers_of_kind
        Drivers that kinds of nodes have been seen with (`PlannerState.drivers`).

    Raises
    ------
    SearchStopped
        When finding out takes too long.
    """
    busyness = NodesBusyness(view)
    if shape.wants_devices and (warm := _warm(view, shape, namespace, busyness)) is not None:
        return warm
    pod, templates = simulated_user(shape, namespace)
    with view.snapshot.trial():
        _add(view.snapshot, templates)
        node = view.snapshot.first_fitting(pod, lambda names: _in_order(view, busyness, names))
        if node:
            return Placement(PlacementKind.FRESH, f"free on node {node}", node)
        # Where no device is to be had, a free place is as good, and may be on a busier node.
        if not shape.wants_devices and (warm := _warm(view, shape, namespace, busyness)) is not None:
            return warm
        free = [each for each in view.placeholders.values() if each.is_free]
        preemption = None
        with suppress(Undecided):  # the reasons below tell
            preemption = find_preemption(view.snapshot, pod, free, busyness)
        if preemption is not None:
            return Placement(
                PlacementKind.PREEMPTED,
                f"placeholders make way on node {preemption.node}",
                preemption.node,
                preemption=preemption,
            )
        scale_up = estimate_scale_up(view, policy, shape, pod, drivers_of_kind)
        return _with_more_nodes(scale_up, policy, view.snapshot.fits(pod, explain=True))


def group_alike_nodes(view: View, shape: Shape) -> bool:
    """What the first search on a big cluster takes most of its time for, and the next ones find done.

    Returns
    -------
    bool
        Whether all of it is done; otherwise the next call goes on.
    """
    pod, templates = simulated_user(shape, "default")
    try:
        with view.snapshot.trial():
            _add(view.snapshot, templates)
            view.snapshot.first_fitting(pod, iter)
    except SearchPostponed:
        return False
    except SearchStopped:
        return True  # nobody will find that out
    return True


def _in_order(view: View, busyness: NodesBusyness, node_names: Iterable[str]) -> list[str]:
    """Nodes as users should fill them: those that lack nothing, the busiest first; last those to become empty."""
    nodes = view.snapshot.nodes
    keys = [
        (
            not is_labelled(nodes[name], names.DRAINING),
            _lacks_nothing(view, name),
            busyness.of(name).order,
            name,
        )
        for name in node_names
    ]
    return [name for *_, name in sorted(keys, reverse=True)]


def _warm(view: View, shape: Shape, namespace: str, busyness: NodesBusyness) -> Placement | None:
    """The place of the placeholder on the busiest node; None if there is none."""
    chosen = max(
        (each for each in view.warm(shape.id) if _is_usable(view, each, namespace)),
        key=lambda each: (_lacks_nothing(view, each.node), busyness.of(each.node).rank, each.key),
        default=None,
    )
    if chosen is None:
        return None
    reason = f"kept ready on node {chosen.node}"
    return Placement(PlacementKind.WARM, reason, chosen.node, chosen)


def _lacks_nothing(view: View, node: str) -> bool:
    return is_labelled(view.snapshot.nodes[node], names.IMAGES_READY)


def _is_usable(view: View, placeholder: Placeholder, namespace: str) -> bool:
    """Whether what a placeholder keeps can be taken over at once; claims only within their namespace."""
    if placeholder.claims and placeholder.pod.namespace != namespace:
        return False
    claims = [view.snapshot.claims.get(key) for key in placeholder.claims]
    state = view.snapshot.nodes[placeholder.node]
    return (
        all(claim is not None and claim.claim.is_allocated and not claim.is_deleted for claim in claims)
        and not state.node.is_unschedulable
        and not is_labelled(state, names.DRAINING)
    )


def _with_more_nodes(scale_up: ScaleUpEstimate, policy: Policy, fit: PodFit) -> Placement:
    if scale_up.like:
        return Placement(PlacementKind.SCALE_UP, f"one more node like {scale_up.like} would have room")
    if policy.node_kinds_are_all and scale_up.is_certain:
        return Placement(PlacementKind.NEVER, f"no node of this cluster can have it: {_summary(fit)}")
    return Placement(PlacementKind.SCALE_UP, f"no node that is known has room: {_summary(fit)}")


def _summary(fit: PodFit) -> str:
    """The commonest reasons, with on how many nodes."""
    if fit.general is not None:
        return "; ".join(fit.general.reasons)
    refused = [answer for answer in fit.nodes.values() if not answer.fits]
    reasons = Counter(str(each.reason) if each.reason else "; ".join(each.verdict.reasons) for each in refused)
    found = [
        f"{reason} ({count} nodes)" if count > 1 else reason for reason, count in reasons.most_common(_MOST_REASONS)
    ]
    return "; ".join(found) or "there is no node"


def _add(snapshot: Snapshot, templates: Sequence[ClaimTemplate]) -> None:
    for template in templates:
        snapshot.put(template)
