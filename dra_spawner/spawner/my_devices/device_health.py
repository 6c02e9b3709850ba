"""Health of a server's device: what its node reports (KEP-4680), and how its driver publishes it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.claims import Toleration
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.model.taints import blocking_taint
from dra_spawner.spawner.my_devices.published import PublishedDevice

_LONGEST_MESSAGE: Final = 200


class HealthState(StrEnum):
    """Health of a device."""

    HEALTHY = "healthy"
    #: Its node reports that it does not work.
    UNHEALTHY = "unhealthy"
    #: It may still work, but no new server gets it.
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """Health of a device.

    Attributes
    ----------
    sentence
        Sentence for the user.
    """

    state: HealthState
    sentence: str


def reported_names(claim_entry: str, request: str) -> tuple[str, str]:
    """Names by which the kubelet reports about the devices of a request: for containers with all of the claim, or not.

    Parameters
    ----------
    claim_entry
        Name of the claim in the pod's ``resourceClaims``.
    request
        The claim's request that got the device.
    """
    return f"claim:{claim_entry}", f"claim:{claim_entry}/{request.partition('/')[0]}"


def device_health(
    pod: JsonObject,
    names: Collection[str],
    device: DeviceId,
    published: PublishedDevice,
    tolerations: Iterable[Toleration],
) -> DeviceHealth:
    """Return the health of a device; a bad report counts more than a good one.

    Parameters
    ----------
    pod
        The pod that has the device.
    names
        Names in the kubelet's reports.
    tolerations
        Those of the allocation: a taint that the request tolerates is no news.
    """
    reports = _reports(pod, names, device)
    for each in reports:
        if each.get("health") == "Unhealthy":
            message = one_line(each.get("message"))
            more = f" It reports: {message.rstrip('.')}." if message else ""
            return DeviceHealth(HealthState.UNHEALTHY, f"The machine reports that this device does not work.{more}")
    if published.is_gone:
        sentence = "The machine does not offer this device any more; it may have failed."
        return DeviceHealth(HealthState.WITHDRAWN, sentence)
    if published.drain is not None:
        return DeviceHealth(HealthState.WITHDRAWN, published.drain.sentence)
    taint = blocking_taint(published.device.taints, tolerations) if published.device is not None else None
    if taint is not None:
        mark = f"{taint.key}: {taint.value}" if taint.value else taint.key
        sentence = f"This device is marked “{one_line(mark)}”: no new server gets it. It may be faulty."
        return DeviceHealth(HealthState.WITHDRAWN, sentence)
    if reports and all(each.get("health") == "Healthy" for each in reports):
        return DeviceHealth(HealthState.HEALTHY, "The machine reports that this device works.")
    return DeviceHealth(HealthState.UNKNOWN, "Nothing reports the health of this device.")


def _reports(pod: JsonObject, names: Collection[str], device: DeviceId) -> list[Mapping[str, Any]]:
    """Reports about a device; about all devices of these names where no report names the device."""
    status = pod.get("status") or {}
    of_request = [
        report
        for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
        for resource in container.get("allocatedResourcesStatus") or ()
        if resource.get("name") in names
        for report in resource.get("resources") or ()
    ]
    # The kubelet writes the CDI name of a device if it has one, and drivers choose these.
    of_device = [each for each in of_request if each.get("resourceID") == str(device)]
    return of_device or of_request


def one_line(text: object, longest: int = _LONGEST_MESSAGE) -> str:
    """Printable text of one line, from a value that others wrote; empty if it is no text."""
    if not isinstance(text, str):
        return ""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:longest]).split())
