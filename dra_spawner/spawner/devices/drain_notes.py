"""What users are told of a device that an administrator takes out of use, from the service's DeviceTaintRules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.devices import DeviceId

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class DrainNote:
    """A device that is taken out of use.

    Attributes
    ----------
    reason
        In the words of the administrator, or what the node reports; may be empty.
    evict_at
        When servers that still have it are ended; None for never.
    until
        When it is back; None if that is not known.
    """

    reason: str = ""
    evict_at: datetime | None = None
    until: datetime | None = None

    @property
    def sentence(self) -> str:
        """What the user reads."""
        why = f" ({self.reason})" if self.reason else ""
        first = f"This device is taken out of use{why}."
        if self.evict_at is None:
            return f"{first} This server may go on; its next start gets another device."
        return (
            f"{first} This server is ended at {self.evict_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: save your work, and "
            "start it again before. It then gets another device."
        )


def drain_notes(rules: Iterable[JsonObject]) -> Mapping[DeviceId, DrainNote]:
    """The devices that services of this project drain, by the DeviceTaintRules of a cluster."""
    found: dict[DeviceId, DrainNote] = {}
    for rule in rules:
        with suppress(KeyError, TypeError, AttributeError):
            metadata, selector = rule["metadata"], rule["spec"]["deviceSelector"]
            if rule["spec"]["taint"]["key"] != names.DRAINED_DEVICE:
                continue
            notes = metadata.get("annotations") or {}
            device = DeviceId(selector["driver"], selector["pool"], selector["device"])
            found[device] = DrainNote(
                _text(notes.get(names.REASON)),
                _moment(notes.get(names.EVICTS_AT)),
                _moment(notes.get(names.DRAINED_UNTIL)),
            )
    return found


def _text(found: object) -> str:
    if not isinstance(found, str):
        return ""
    return " ".join("".join(each if each.isprintable() else " " for each in found[:_LONGEST_REASON]).split())


def _moment(found: object) -> datetime | None:
    with suppress(ValueError, TypeError, OverflowError):
        moment = datetime.fromisoformat(str(found))
        return moment if moment.tzinfo is not None else None
    return None
