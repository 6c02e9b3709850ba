"""The service's answer about availability (``GET api/profiles``), validated: what is not understood is unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.availability.shown import UNKNOWN, ShownAvailability

__all__ = ["InvalidProfiles", "read_profiles"]

_LONGEST_SENTENCE: Final = 200
_LONGEST_WAIT_SECONDS: Final = 30 * 24 * 3600


class InvalidProfiles(ValueError):
    """Raised for an answer that is none; the message names the error."""


def read_profiles(answer: object) -> dict[str, ShownAvailability]:
    """Availability by the name of the choice.

    An item that is wrong, or of a service without states, is `UNKNOWN`. Names are not checked: they are compared with
    those of the form.

    Raises
    ------
    InvalidProfiles
        If there is no list of items.
    """
    items = answer.get("items") if isinstance(answer, Mapping) else None
    if not isinstance(items, list):
        raise InvalidProfiles("its answer has no list of items")
    return {
        item["name"]: _shown(item.get("availability"))
        for item in items
        if isinstance(item, Mapping) and isinstance(item.get("name"), str)
    }


def _shown(availability: object) -> ShownAvailability:
    if not isinstance(availability, Mapping):
        return UNKNOWN
    try:
        state = AvailabilityState(str(availability.get("state")))
        return ShownAvailability(state, _sentence(availability.get("sentence")), _wait(availability.get("wait")))
    except ValueError:
        return UNKNOWN


def _sentence(value: object) -> str:
    """Printable text of one line."""
    if not isinstance(value, str) or len(value) > _LONGEST_SENTENCE:
        raise ValueError(value)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in value).split())


def _wait(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(value)
    low, high = (_seconds(value.get(name)) for name in ("low_seconds", "high_seconds"))
    if low > high:
        raise ValueError(value)
    return low, high


def _seconds(value: object) -> int:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(value)
    if not 0 <= value <= _LONGEST_WAIT_SECONDS:
        raise ValueError(value)
    return round(value)
