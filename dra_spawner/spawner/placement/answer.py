"""The service's answer about a placement, validated strictly.

An unexpected part makes the whole answer invalid, and the start continues without the service.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from dra_spawner.placeholders.availability_state import AvailabilityState

if TYPE_CHECKING:
    from dra_spawner.dra.preferences import Preferences

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_LONGEST_REASON: Final = 300
#: Longest reservation that is accepted.
_LONGEST_RESERVATION: Final = timedelta(minutes=30)
#: Margin before a reservation's end, for the pod's creation and for differences of clocks.
_MARGIN: Final = timedelta(seconds=2)


class InvalidAnswer(ValueError):
    """Raised for an invalid answer; the message names the error."""


@dataclass(frozen=True, slots=True)
class PlacementAnswer:
    """The placement of a server.

    Attributes
    ----------
    node
        Preferred node; empty for none.
    reason
        A few words for the log, without a full stop.
    sentence
        One sentence or two for the user.
    is_behind, note
        Whether others come first, as the user is over a budget, and why; for the user.
    claims
        Warm claims by the entry of the pod's ``resourceClaims`` that will name them.
    until
        End of the reservation; None without claims.
    after
        Name of the placeholder that must be gone before the pod is bound; empty for none.
    preferences
        Devices that new claims should prefer, by entry.
    before
        Number of users who get such a device first, so that the server must not start now.
    is_published
        Whether the server's shape is published; if not, the pod needs the shape's definition.
    """

    state: AvailabilityState
    node: str = ""
    reason: str = ""
    claims: Mapping[str, str] = field(default_factory=dict)
    until: datetime | None = None
    after: str = ""
    is_published: bool = True
    sentence: str = ""
    preferences: Mapping[str, Preferences] = field(default_factory=dict)
    before: int = 0
    is_behind: bool = False
    note: str = ""

    def holds(self, now: datetime) -> bool:
        """Whether the reservation still lasts long enough for a pod that is created now."""
        return self.until is None or now < self.until - _MARGIN


def read_answer(answer: object, entries: Collection[str], now: datetime) -> PlacementAnswer:
    """Read an answer, decoded from JSON.

    Parameters
    ----------
    entries
        Names of the pod's ``resourceClaims`` entries with claims from templates: warm claims replace all of them, or
        none.

    Raises
    ------
    InvalidAnswer
        If a part is unexpected.
    """
    if not isinstance(answer, Mapping):
        raise InvalidAnswer("it is not a JSON object")
    if "state" not in answer and "kind" in answer:
        raise InvalidAnswer("it has a kind, which a service of this release calls state")
    try:
        state = AvailabilityState(str(answer.get("state")))
    except ValueError:
        raise InvalidAnswer(f"its state is {_shown(answer.get('state'))}") from None
    node = answer.get("node") or ""
    if node and not _is_name(node):
        raise InvalidAnswer(f"its node is {_shown(node)}")
    claims = _claims(answer.get("claims") or {}, entries)
    if claims and state not in (AvailabilityState.READY, AvailabilityState.AFTER_PLACEHOLDER):
        raise InvalidAnswer(f"it has claims, but its state is {state}")
    after = answer.get("after") or ""
    if bool(after) != (state is AvailabilityState.AFTER_PLACEHOLDER and bool(claims)) or (
        after and not _is_label(after)
    ):
        raise InvalidAnswer(f"its state is {state}, and the server starts after {_shown(after)}")
    if gates := answer.get("gates"):
        # An older service answers with gates: its placeholder still exists, and the pod should wait for its end.
        raise InvalidAnswer(f"it has gates, {_shown(gates)}")
    until = _moment(answer.get("until"), now) if claims else None
    return PlacementAnswer(
        state,
        node,
        plain_text(answer.get("reason")).rstrip("."),
        claims,
        until,
        str(after),
        sentence=plain_text(answer.get("sentence")),
        preferences=_preferences(answer.get("preferences") or {}, entries),
        before=_before(answer.get("before", 0), state),
        is_behind=answer.get("behind") is True,
        note=plain_text(answer.get("note")),
    )


def _preferences(preferences: object, entries: Collection[str]) -> Mapping[str, Preferences]:
    if not preferences:
        return {}
    from dra_spawner.dra.preferences import read_preferences  # few hubs pack devices

    if not isinstance(preferences, Mapping) or not set(preferences) <= set(entries):
        raise InvalidAnswer(f"its preferences are {_shown(preferences)}")
    try:
        return {entry: read_preferences(of_claim) for entry, of_claim in preferences.items()}
    except ValueError as error:
        raise InvalidAnswer(f"its preferences cannot be used: {error}") from None


def _before(value: object, state: AvailabilityState) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not is_number or (value and state is not AvailabilityState.WAITS):
        raise InvalidAnswer(f"its state is {state}, and before it are {_shown(value)}")
    return int(str(value))


def _claims(claims: object, entries: Collection[str]) -> dict[str, str]:
    if not isinstance(claims, Mapping) or not all(_is_name(name) for name in claims.values()):
        raise InvalidAnswer(f"its claims are {_shown(claims)}")
    if claims and set(claims) != set(entries):
        raise InvalidAnswer(f"its claims are for {_shown(sorted(map(str, claims)))}, not for {sorted(entries)}")
    if len(set(claims.values())) < len(claims):
        raise InvalidAnswer("it has one claim for several entries")
    return dict(claims)


def _moment(until: object, now: datetime) -> datetime:
    """The time of a text in RFC 3339 with a zone, or of a number of seconds since 1970."""
    try:
        if isinstance(until, str):
            moment = datetime.fromisoformat(until)
        elif isinstance(until, int | float) and not isinstance(until, bool):
            moment = datetime.fromtimestamp(until, UTC)
        else:
            raise ValueError(until)
        if moment.tzinfo is None or moment > now + _LONGEST_RESERVATION:
            raise ValueError(until)
    except (ValueError, OverflowError, OSError):
        raise InvalidAnswer(f"its claims are reserved until {_shown(until)}") from None
    return moment


def _is_name(value: object) -> bool:
    """Whether a value is a name of an object (a DNS subdomain, RFC 1123)."""
    return isinstance(value, str) and len(value) <= _LONGEST_NAME and _SUBDOMAIN.fullmatch(value) is not None


def _is_label(value: object) -> bool:
    """Whether a value is a name that a label can have as its value."""
    return _is_name(value) and len(str(value)) <= _LONGEST_LABEL


def plain_text(value: Any) -> str:
    """The text shortened to one printable line; empty for another type."""
    if not isinstance(value, str):
        return ""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in value).split())
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 1]}…"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
