"""Extended resources that devices stand for (KEP-5004): which classes, and what claim kube-scheduler makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dra_spawner.dra.objects import DeviceClass, DeviceRequest, RequestAlternative, ResourceClaim
from dra_spawner.simulator.pods import Container, Pod

__all__ = ["EXTENDED_RESOURCE_CLAIM", "IMPLICIT_PREFIX", "classes_by_resource", "extended_resource_claim"]

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Followed by the name of a class: the extended resource that every class stands for."""

EXTENDED_RESOURCE_CLAIM: Final = "<extended-resources>"
"""Name of the claim while it is not yet made; no object can have it."""


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """The class behind each extended resource; of several that name the same one the newest, then the first by name."""
    found: dict[str, DeviceClass] = {}
    for item in classes:
        found[f"{IMPLICIT_PREFIX}{item.name}"] = item
        if item.extended_resource_name:
            known = found.get(item.extended_resource_name)
            if known is None or _is_preferred(item, known):
                found[item.extended_resource_name] = item
    return found


def extended_resource_claim(pod: Pod, names: Iterable[str], classes: Mapping[str, DeviceClass]) -> ResourceClaim:
    """The claim for those of a pod's extended resources that devices have to stand for on a node.

    Parameters
    ----------
    names
        These resources.
    classes
        The class behind each.
    """
    requests: list[DeviceRequest] = []
    for name in sorted(names):
        if name in classes:
            requests += _requests(pod.containers, name, classes[name].name)
    requests.sort(key=lambda request: request.name)
    return ResourceClaim(EXTENDED_RESOURCE_CLAIM, pod.namespace, requests=tuple(requests))


def _is_preferred(one: DeviceClass, other: DeviceClass) -> bool:
    return one.created > other.created if one.created != other.created else one.name < other.name


def _requests(containers: Sequence[Container], resource: str, class_name: str) -> list[DeviceRequest]:
    """Requests for one resource.

    Init containers that end before the others start may use their devices; only the largest such request that asks
    for more of them counts.
    """
    lasting: list[DeviceRequest | None] = [
        _request(index, container, resource, class_name) if container.is_sidecar or not container.is_init else None
        for index, container in enumerate(containers)
    ]
    largest: DeviceRequest | None = None
    for index, container in enumerate(containers):
        if container.is_init and not container.is_sidecar:
            request = _request(index, container, resource, class_name, sum(map(_count, lasting[index:])))
            if request is not None and _count(request) > _count(largest):
                largest = request
    return [request for request in (largest, *lasting) if request is not None]


def _request(
    index: int, container: Container, resource: str, class_name: str, reusable: int = 0
) -> DeviceRequest | None:
    """What a container needs besides `reusable` devices of others; None if nothing."""
    amount = container.requests.get(resource)
    if amount is None or not amount.is_integer or amount.value() <= reusable:
        return None
    name = f"container-{index}-request-{sorted(container.requests).index(resource)}"
    return DeviceRequest(name, RequestAlternative(name, class_name, count=amount.value() - reusable))


def _count(request: DeviceRequest | None) -> int:
    return request.exactly.count if request is not None and request.exactly is not None else 0
