"""Extended resources such as ``nvidia.com/gpu: 1`` for which DeviceClasses stand (KEP-5004), in profiles and in pods.

Whether a class stands for a resource, the cluster decides; then kube-scheduler makes one claim for all of them. The
same claim is made up here beforehand, so that what is said about claims can be said about such limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.extended_resources import IMPLICIT_PREFIX, classes_by_resource, extended_requests
from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.names import KUBERNETES_PREFIX

#: KubeSpawner's traits that decide.
EXTENDED_TRAITS: Final = (
    "extra_resource_limits",
    "extra_resource_guarantees",
    "cpu_guarantee",
    "cpu_limit",
    "mem_guarantee",
    "mem_limit",
    "init_containers",
    "extra_containers",
)
#: Those of them that can name an extended resource.
_NAMING_TRAITS: Final = ("extra_resource_limits", "extra_resource_guarantees", "init_containers", "extra_containers")
_SIDECAR: Final = "Always"


@dataclass(frozen=True, slots=True)
class _Container:
    """A container's requests, as `extended_requests` wants them."""

    requests: Mapping[str, Quantity]
    is_init: bool = False
    is_sidecar: bool = False


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """The extended resources of a pod, or of a pod that a profile will make.

    Attributes
    ----------
    containers
        What each container requests, init containers first.
    """

    containers: tuple[_Container, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Resources that classes may stand for, whether any does or not."""
        found = (name for each in self.containers for name, amount in each.requests.items() if amount.nano > 0)
        return tuple(sorted(set(extended_resource_names(found))))

    def claim_spec(self, classes: Iterable[DeviceClass]) -> JsonObject | None:
        """Spec of the claim that kube-scheduler makes, on a node without a device plugin; None if it makes none."""
        by_resource = classes_by_resource(classes)
        requests = extended_requests(self.containers, self.names, by_resource).requests
        if not requests:
            return None
        return {
            "devices": {
                "requests": [
                    {
                        "name": request.name,
                        "exactly": {
                            "deviceClassName": request.exactly.device_class_name,
                            "allocationMode": "ExactCount",
                            "count": request.exactly.count,
                        },
                    }
                    for request in requests
                    if request.exactly is not None
                ]
            }
        }

    def unknown(self, classes: Iterable[DeviceClass]) -> tuple[str, ...]:
        known = classes_by_resource(classes)
        return tuple(name for name in self.names if name not in known)


def extended_resource_names(names: Iterable[str]) -> list[str]:
    """Names that may be extended resources backed by devices, as kube-scheduler tells them apart."""
    return [
        name
        for name in names
        if name.startswith(IMPLICIT_PREFIX)
        or ("/" in name and KUBERNETES_PREFIX not in name and not name.startswith("requests."))
    ]


def of_pod(pod: Mapping[str, Any]) -> ExtendedResources:
    """Extended resources of a pod as the API server has it."""
    spec = pod.get("spec") or {}
    init = tuple(_container(each, is_init=True) for each in spec.get("initContainers") or ())
    return ExtendedResources((*init, *(_container(each) for each in spec.get("containers") or ())))


def of_settings(settings: Mapping[str, Any]) -> ExtendedResources:
    """Extended resources of the pod that KubeSpawner makes of these traits.

    Parameters
    ----------
    settings
        `EXTENDED_TRAITS`; others do not matter. What is malformed is passed over.
    """
    if not any(settings.get(trait) for trait in _NAMING_TRAITS):
        return ExtendedResources()
    limits = _amounts(settings.get("extra_resource_limits"))
    # The API server sets requests that are missing to the limits.
    requests = {**limits, **_amounts(settings.get("extra_resource_guarantees"))}
    for trait, resource in (("cpu", "cpu"), ("mem", "memory")):
        if settings.get(f"{trait}_guarantee") or settings.get(f"{trait}_limit"):
            # How much does not matter here; that it is requested, does: it counts in the names of requests.
            requests.setdefault(resource, Quantity.from_value(1))
    found = ExtendedResources(
        (
            *(_container(each, is_init=True) for each in _listed(settings.get("init_containers"))),
            _Container(requests),
            *(_container(each) for each in _listed(settings.get("extra_containers"))),
        )
    )
    return found if found.names else ExtendedResources()


def _container(container: Mapping[str, Any], *, is_init: bool = False) -> _Container:
    resources = container.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    sidecar = container.get("restartPolicy", container.get("restart_policy")) == _SIDECAR
    requests = {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}
    return _Container(requests, is_init, is_init and sidecar)


def _amounts(value: object) -> dict[str, Quantity]:
    amounts = {}
    for name, amount in value.items() if isinstance(value, Mapping) else ():
        if isinstance(name, str) and isinstance(amount, str | int) and not isinstance(amount, bool):
            try:
                amounts[name] = Quantity.parse(amount)
            except QuantityError:
                continue
    return amounts


def _listed(value: object) -> list[Mapping[str, Any]]:
    """Containers of a list, or of a mapping in the order of its keys, as KubeSpawner takes them."""
    items = [value[key] for key in sorted(value)] if isinstance(value, Mapping) else value
    return [each for each in items if isinstance(each, Mapping)] if isinstance(items, list | tuple) else []
