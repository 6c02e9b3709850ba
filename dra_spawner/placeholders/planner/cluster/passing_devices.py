"""Devices that a placeholder would get and lose again, as a taint with the effect NoExecute ends it there.

The scheduler gives such a device away if a claim tolerates the taint in any way, also for some seconds. Kubernetes'
device taint eviction then ends the pod: at once, or when ``tolerationSeconds`` have passed since the taint was added
(KEP-5055). It regards tolerations with just this effect; one that names no effect counts for the scheduler alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey

_EVICTING: Final = "NoExecute"
_NAMESPACE: Final = "default"


def lasting_shape(shape: Shape) -> Shape:
    """The shape with claims that get only devices on which their pod may stay; the same object if these are all."""
    claims = {entry: _lasting_claim(spec) for entry, spec in shape.claims.items()}
    return shape if claims == shape.claims else replace(shape, claims=claims)


def without_lasting_devices(view: View, policy: Policy) -> Iterator[str]:
    """Shapes below their target whose next placeholder would be evicted from each device that it could get."""
    for shape in policy.shapes.values():
        if len(view.placeholders_of_shape.get(shape.id, ())) < policy.replicas_of(shape.id).min:
            lasting, passing = _nodes(view, shape)
            if passing and not lasting:
                yield shape.id


def nodes_to_avoid(view: View, shape: Shape) -> frozenset[str]:
    """Nodes where the next placeholder of a shape would be evicted."""
    return _nodes(view, shape)[1]


def _nodes(view: View, shape: Shape) -> tuple[frozenset[str], frozenset[str]]:
    """Nodes where the next placeholder can stay, and others where it fits; none if this is not known."""
    wanted = lasting_shape(shape)
    nothing: frozenset[str] = frozenset()
    if wanted is shape or not _has_evicting_taint(view):
        return nothing, nothing
    with view.snapshot.trial():
        # What terminating placeholders hold is free when the next one is scheduled.
        for pod in view.terminating_soon:
            if not pod.is_finished:
                view.snapshot.remove_pod(ObjectKey.of(pod))
        with suppress(SearchStopped):
            lasting = _fitting(view, wanted)
            return lasting, _fitting(view, shape) - lasting
    return nothing, nothing


def _fitting(view: View, shape: Shape) -> frozenset[str]:
    with view.snapshot.trial():
        pod, claims = simulated_placeholder(shape, _NAMESPACE)
        for claim in claims:
            view.snapshot.add_claim(claim)
        view.snapshot.add_pod(pod)
        return frozenset(view.snapshot.fits(pod, explain=False).fitting)


def _has_evicting_taint(view: View) -> bool:
    return any(
        taint.effect == _EVICTING
        for slices in view.index.slices_of_pool.values()
        for item in slices
        for device in item.devices
        for taint in device.taints
    )


def _lasting_claim(spec: JsonObject) -> JsonObject:
    devices = spec.get("devices")
    if not isinstance(devices, dict) or not devices.get("requests"):
        return spec
    return {**spec, "devices": {**devices, "requests": [_lasting_request(each) for each in devices["requests"]]}}


def _lasting_request(request: JsonObject) -> JsonObject:
    found = dict(request)
    if request.get("exactly"):
        found["exactly"] = _without_passing_tolerations(request["exactly"])
    if request.get("firstAvailable"):
        found["firstAvailable"] = [_without_passing_tolerations(each) for each in request["firstAvailable"]]
    return found


def _without_passing_tolerations(request: JsonObject) -> JsonObject:
    tolerations = request.get("tolerations")
    if not tolerations:
        return request
    kept = []
    for each in tolerations:
        if not each.get("effect"):
            others = {key: value for key, value in each.items() if key != "tolerationSeconds"}
            kept.append({**others, "effect": "NoSchedule"})
        elif each["effect"] != _EVICTING or each.get("tolerationSeconds") is None:
            kept.append(each)
    return {**request, "tolerations": kept}
