"""Extended resources that devices provide (KEP-5004): their device classes, and the requests of kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from dra_spawner.dra.model.claims import DeviceClass, DeviceRequest, RequestAlternative
from dra_spawner.dra.quantity import Quantity

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Followed by the name of a class: the extended resource that every class stands for."""

EXTENDED_RESOURCE_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""``true`` on the claim that the scheduler makes for a pod's extended resources."""


class ResourceUser(Protocol):
    """A container, as far as extended resources are concerned."""

    @property
    def requests(self) -> Mapping[str, Quantity]:
        """``resources.requests``; the API server puts limits of extended resources there, too."""

    @property
    def is_init(self) -> bool:
        """Whether it is an init container."""

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that keeps running beside the others."""


@dataclass(frozen=True, slots=True)
class RequestMapping:
    """Devices of which request a container gets for one of its resources."""

    container: int
    """Position among all containers of the pod, init containers first."""
    resource: str
    request: str


@dataclass(frozen=True, slots=True)
class ExtendedRequests:
    """What a pod's extended resources amount to in devices."""

    requests: tuple[DeviceRequest, ...] = ()
    """Requests of the one claim for all of them."""
    mappings: tuple[RequestMapping, ...] = ()


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


def extended_requests(
    containers: Sequence[ResourceUser], names: Iterable[str], classes: Mapping[str, DeviceClass]
) -> ExtendedRequests:
    """What kube-scheduler 1.36 asks for (``createRequestsAndMappings``).

    Parameters
    ----------
    containers
        All containers of a pod, init containers first.
    names
        The resources that devices have to provide.
    classes
        The class behind each resource, as `classes_by_resource` gives them.
    """
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for name in sorted(names):
        if name in classes:
            found = _Resource(containers, name, classes[name].name)
            requests += found.requests()
            mappings += found.mappings()
    requests.sort(key=lambda request: request.name)
    return ExtendedRequests(tuple(requests), tuple(mappings))


def _is_preferred(one: DeviceClass, other: DeviceClass) -> bool:
    return one.created > other.created if one.created != other.created else one.name < other.name


class _Resource:
    """Requests for one resource.

    Init containers that end before the others start may use their devices; only the largest such request that asks
    for more of them counts.
    """

    def __init__(self, containers: Sequence[ResourceUser], resource: str, class_name: str) -> None:
        self._containers, self._resource, self._class_name = containers, resource, class_name
        self._lasting = [
            None if container.is_init and not container.is_sidecar else self._request(index, ())
            for index, container in enumerate(containers)
        ]
        self._passing = {
            index: self._request(index, self._reusable(index))
            for index, container in enumerate(containers)
            if container.is_init and not container.is_sidecar
        }
        self._largest: DeviceRequest | None = None
        for request in self._passing.values():
            if _count(request) > _count(self._largest):
                self._largest = request

    def requests(self) -> list[DeviceRequest]:
        return [request for request in (self._largest, *self._lasting) if request is not None]

    def mappings(self) -> list[RequestMapping]:
        found = [self._mapping(index, request) for index, request in enumerate(self._lasting) if request is not None]
        for index, own in self._passing.items():
            wanted = self._wanted(index)
            for request in self._reusable(index):
                if wanted > 0:
                    found.append(self._mapping(index, request))
                    wanted -= _count(request)
            if own is not None and self._largest is not None:
                found.append(self._mapping(index, self._largest))
        return found

    def _reusable(self, index: int) -> list[DeviceRequest]:
        """Requests of containers that start later."""
        return [request for request in self._lasting[index:] if request is not None]

    def _wanted(self, index: int) -> int:
        amount = self._containers[index].requests.get(self._resource)
        return amount.value() if amount is not None and amount.is_integer else 0

    def _request(self, index: int, reusable: Sequence[DeviceRequest]) -> DeviceRequest | None:
        """What a container needs besides devices of others; None if nothing."""
        missing = self._wanted(index) - sum(map(_count, reusable))
        if missing <= 0:
            return None
        name = f"container-{index}-request-{sorted(self._containers[index].requests).index(self._resource)}"
        return DeviceRequest(name, RequestAlternative(name, self._class_name, count=missing))

    def _mapping(self, index: int, request: DeviceRequest) -> RequestMapping:
        return RequestMapping(index, self._resource, request.name)


def _count(request: DeviceRequest | None) -> int:
    return request.exactly.count if request is not None and request.exactly is not None else 0
