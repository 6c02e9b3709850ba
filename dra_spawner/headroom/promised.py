"""Places that are promised to servers whose pods are yet to come, where the placeholder has gone already.

The placeholder goes before the server's pod is there, so that the scheduler finds room for that at once. A claim with
a promise among its consumers keeps the devices meanwhile. What keeps the room is that whoever decides here takes it for
used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.dra.node_selector import NodeSelector, node_name_selector
from dra_spawner.headroom import labels
from dra_spawner.headroom.known import is_held
from dra_spawner.headroom.policy import Policy
from dra_spawner.headroom.simulated import simulated_user
from dra_spawner.headroom.view import Placeholder, View, reservation_of
from dra_spawner.simulator.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.pods import Pod

__all__ = ["PromisedPlace", "promised_places", "promised_room", "would_take_room"]

#: Of so many pods that wait it is looked whether one would take a room; with more of them one will.
_MOST_WAITING = 20


@dataclass(frozen=True, slots=True)
class PromisedPlace:
    """Room on a node for a pod that is yet to come there.

    Attributes
    ----------
    pod
        To which it is promised.
    shape
        Of the placeholder that has gone.
    until
        When the promise ends if the pod does not come.
    claims
        That keep the devices, one at least.
    waiting
        The pod, if it is there and has no node yet.
    """

    pod: ObjectKey
    node: str
    shape: str
    until: datetime
    claims: tuple[ObjectKey, ...]
    waiting: Pod | None = None


def promised_places(view: View) -> tuple[PromisedPlace, ...]:
    """Where the placeholder is no longer and the pod is not yet; for claims whose devices are on one node."""
    found: dict[ObjectKey, PromisedPlace] = {}
    for claim in view.held_claims():
        reservation = reservation_of(claim)
        node = _only_node(claim.claim.status.node_selector)
        if reservation is None or claim.is_deleted or node not in view.snapshot.nodes:
            continue
        pod = ObjectKey(claim.key.namespace, reservation.pod)
        naming = view.pods_naming(claim.key)
        waiting = next((each for each in naming if ObjectKey.of(each) == pod and not each.node_name), None)
        has_come = bool(naming) or view.came_without(pod.namespace, reservation, (claim.key,))
        if waiting is None and (has_come or reservation.until <= view.now):
            continue
        if not any(ObjectKey.of(each) in view.known.placeholders for each in naming):
            claims = (*found[pod].claims, claim.key) if pod in found else (claim.key,)
            shape = claim.labels.get(labels.SHAPE, "")
            found[pod] = PromisedPlace(pod, node, shape, reservation.until, claims, waiting)
    return tuple(found.values())


@contextmanager
def promised_room(view: View, policy: Policy, *, to_waiting: bool = False) -> Iterator[None]:
    """Within this, what is promised is used: by pods as they are going to come.

    Parameters
    ----------
    to_waiting
        Whether by those, too, that are there and wait for the scheduler.
    """
    places = [each for each in promised_places(view) if each.waiting is None or to_waiting]
    if not places:
        yield
        return
    with view.snapshot.trial():
        for number, place in enumerate(places):
            shape = policy.shapes.get(place.shape)
            if place.waiting is not None:
                _give_place(view, place.waiting, place.node)
            elif shape is not None:
                pod, _ = simulated_user(shape, place.pod.namespace)
                # Its devices are allocated already.
                pod = replace(pod, name=f"promised-{number}", uid=f"promised-{number}", claims=())
                view.snapshot.add_pod(pod)
                _give_place(view, pod, place.node)
        yield


def _give_place(view: View, pod: Pod, node: str) -> None:
    """Place a pod. If the search for its other devices takes too long, it keeps those promised to it all the same."""
    with suppress(SearchStopped):
        view.snapshot.schedule(pod, node)


def would_take_room(view: View, placeholder: Placeholder) -> bool:
    """Whether a pod that waits would go where a placeholder is, once that has gone.

    Pods with a promise of their own have their room.
    """
    waiting = [
        pod
        for pod in view.waiting_users
        if not any(is_held(claim) for claim in _named(view, pod.namespace, [each.claim for each in pod.claims]))
    ]
    if len(waiting) > _MOST_WAITING:
        return True
    snapshot, node = view.snapshot, placeholder.node
    try:
        outside = [pod for pod in waiting if not snapshot.fits_on(pod, node, explain=False).fits]
        if not outside:
            return False
        with snapshot.trial():
            snapshot.remove_pod(placeholder.key)
            return any(snapshot.fits_on(pod, node, explain=False).fits for pod in outside)
    except SearchStopped:
        return True  # perhaps


def _named(view: View, namespace: str, names: list[str | None]) -> list[TrackedClaim]:
    keys = [ObjectKey(namespace, name) for name in names if name]
    return [view.snapshot.claims[key] for key in keys if key in view.snapshot.claims]


def _only_node(selector: NodeSelector | None) -> str:
    """The node that a selector is about, as the scheduler writes it for a node's own devices; empty if it is none."""
    if selector is None or len(selector.terms) != 1:
        return ""
    names = [name for each in islice(selector.terms[0].match_fields, 2) for name in each.values]
    return names[0] if len(names) == 1 and selector == node_name_selector(names[0]) else ""
