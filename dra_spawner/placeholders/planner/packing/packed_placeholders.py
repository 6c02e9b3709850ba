"""New placeholders, each with the node and the devices that it should get so that large devices stay free."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from dra_spawner import names
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.packing.packed_nodes import packed_nodes
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape

__all__ = ["pack_placeholders"]

#: Placeholders of a round that are packed: for each one the next is tried with it.
_MAX_PACKED: Final = 20
_NAMESPACE: Final = "default"


def pack_placeholders(round_: Round, actions: Iterable[Action]) -> tuple[Action, ...]:
    """The same actions, with a node and devices for new placeholders that fit on a present node."""
    if not round_.policy.packs_devices:
        return tuple(actions)
    with round_.view.snapshot.trial():
        return tuple(_packed(round_.view, round_.policy, actions))


def _packed(view: View, policy: Policy, actions: Iterable[Action]) -> Iterator[Action]:
    busyness, left = NodesBusyness(view), _MAX_PACKED
    for action in actions:
        if not isinstance(action, CreatePlaceholder) or not left or not policy.shapes[action.shape].claims:
            yield action
            continue
        left -= 1
        try:
            yield _place(view, policy, busyness, action, policy.shapes[action.shape], f"simulated-placeholder-{left}")
        except SearchStopped:
            left = 0
            yield action


def _place(
    view: View, policy: Policy, busyness: NodesBusyness, action: CreatePlaceholder, shape: Shape, name: str
) -> CreatePlaceholder:
    """The action with node and devices; the snapshot has the placeholder then."""
    pod, claims = simulated_placeholder(shape, _NAMESPACE, name)
    packed = packed_nodes(view, policy, shape, pod)
    if packed is None:
        return action
    for claim in claims:
        view.snapshot.put(claim)

    def in_order(node_names: Iterable[str]) -> list[str]:
        return _without((*action.avoid, *action.never), policy, sorted(node_names, key=order, reverse=True))

    def order(node: str) -> tuple[object, ...]:
        is_ready = is_labelled(view.snapshot.nodes[node], names.IMAGES_READY)
        return is_ready, packed.order(node), busyness.of(node).order, node

    node = view.snapshot.first_fitting(pod, in_order)
    if not node:
        return action
    preferences = packed.preferences(node)
    if preferences.of_claims:
        pod, claims = simulated_placeholder(shape, _NAMESPACE, name, preferences.of_claims)
        for claim in claims:
            view.snapshot.put(claim)
    view.snapshot.schedule(pod, node)
    reason = f"{action.reason}; on node {node} {preferences.reason}" if preferences.reason else action.reason
    return replace(action, node=node, preferences=preferences.of_claims, reason=reason)


def _without(avoid: Collection[str], policy: Policy, node_names: Iterable[str]) -> list[str]:
    return [name for name in node_names if name not in avoid and name not in policy.drained]
