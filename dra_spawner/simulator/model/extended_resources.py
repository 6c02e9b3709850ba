"""The claim that kube-scheduler creates for a pod's extended resources (KEP-5004)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dra_spawner.dra.model.extended_resources import IMPLICIT_PREFIX, classes_by_resource, extended_requests
from dra_spawner.dra.model.objects import DeviceClass, ResourceClaim
from dra_spawner.simulator.model.pods import Pod

__all__ = ["EXTENDED_RESOURCE_CLAIM", "IMPLICIT_PREFIX", "classes_by_resource", "extended_resource_claim"]

EXTENDED_RESOURCE_CLAIM: Final = "<extended-resources>"
"""Name of the claim before it exists; no object can have this name."""


def extended_resource_claim(pod: Pod, names: Iterable[str], classes: Mapping[str, DeviceClass]) -> ResourceClaim:
    """The claim for the extended resources of a pod that devices provide on a node.

    Parameters
    ----------
    classes
        The device class that provides each extended resource, by its name.
    """
    requests = extended_requests(pod.containers, names, classes).requests
    return ResourceClaim(EXTENDED_RESOURCE_CLAIM, pod.namespace, requests=requests)
