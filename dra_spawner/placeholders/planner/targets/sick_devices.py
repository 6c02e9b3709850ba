"""Devices that their nodes report as broken, and which of them the service drains by itself. Pure.

Nodes report about the devices of a pod alone (``allocatedResourcesStatus``, KEP-4680): as soon as nobody has a device,
nothing says that it works again. So it is drained until a person ends that, who may have looked at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.placeholders.planner.targets.overrides import MAX_OVERRIDES, Override, OverrideKind, Overrides
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.pod_parts import UnhealthyDevice
from dra_spawner.simulator.model.pods import Pod

BY_SERVICE: Final = "the service"
"""`Override.by` of a device that the service drains by itself."""
_LONGEST_MESSAGE: Final = 120
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SickDevice:
    """A device that the node of a pod reports as broken.

    Attributes
    ----------
    message
        Of the driver, on one line; may be empty.
    since
        Creation time of the newest pod with such a report.
    """

    message: str
    since: datetime = _NEVER


@dataclass(frozen=True, slots=True)
class SelfDrains:
    """What the service drains by itself.

    Attributes
    ----------
    settings
        New settings.
    too_many
        Devices that stay in use, as enough are drained already.
    """

    settings: tuple[Override, ...] = ()
    too_many: tuple[DeviceId, ...] = ()


def sick_devices(pods: Iterable[Pod], claims: Mapping[ObjectKey, TrackedClaim]) -> dict[DeviceId, SickDevice]:
    """The devices that are reported as broken.

    A report counts for a device that the pod's claim has. If the request has several and the report names none of
    them, it counts for none: a sound device would be closed.
    """
    found: dict[DeviceId, SickDevice] = {}
    for pod in pods:
        for report in pod.unhealthy_devices if pod.node_name and not pod.is_finished else ():
            device = _device(pod, report, claims)
            if device is not None:
                sick = SickDevice(_one_line(report.message), _moment(pod.created))
                found[device] = max(sick, found.get(device, sick), key=lambda each: each.since)
    return found


def self_drains(sick: Mapping[DeviceId, SickDevice], present: Overrides, limit: int, now: datetime) -> SelfDrains:
    """The devices to drain.

    A person who ended the draining of a device has decided for the pods of that time: only a later pod's report counts.

    Parameters
    ----------
    limit
        The most devices that the service drains by itself at a time: a broken driver may report all of them.
    """
    left = min(limit - len(drained_by_service(present)), MAX_OVERRIDES - len(present.settings))
    settings: list[Override] = []
    too_many: list[DeviceId] = []
    for device, report in sorted(sick.items()):
        key = (OverrideKind.DEVICES, "/".join(device))
        ended_at = present.deleted_at(key)
        if key in present.settings or (ended_at is not None and report.since <= ended_at):
            continue
        if len(settings) >= left:
            too_many.append(device)
            continue
        more = f": {report.message}" if report.message else ""
        settings.append(Override(*key, BY_SERVICE, now, reason=f"reported as broken{more}"))
    return SelfDrains(tuple(settings), tuple(too_many))


def drained_by_service(present: Overrides) -> tuple[str, ...]:
    """Names of the devices that the service drains by itself."""
    return tuple(name for name, each in present.of_kind(OverrideKind.DEVICES).items() if each.by == BY_SERVICE)


def _device(pod: Pod, report: UnhealthyDevice, claims: Mapping[ObjectKey, TrackedClaim]) -> DeviceId | None:
    """The device of a report about ``claim:<entry>`` or ``claim:<entry>/<request>``; None if it is not known."""
    entry, _, request = report.name.removeprefix("claim:").partition("/")
    name = next((each.claim for each in pod.claims if each.name == entry), None)
    tracked = claims.get(ObjectKey(pod.namespace, name)) if name else None
    if tracked is None or not tracked.is_reserved_for(pod):
        return None
    of_request = {
        each.id
        for each in tracked.claim.status.devices or ()
        if not each.admin_access and request in ("", each.request.partition("/")[0])
    }
    named = [each for each in of_request if str(each) == report.resource_id]
    candidates = named or list(of_request)
    return candidates[0] if len(candidates) == 1 else None


def _one_line(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST_MESSAGE])
    return " ".join(printable.split()).rstrip(".")


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return _NEVER
    return found if found.tzinfo is not None else _NEVER
