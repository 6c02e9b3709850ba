"""Conversion of records to rows of the tables, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dra_spawner.history.decision_log import Decision
from dra_spawner.history.records import Launch, LearnedDemand, NodeLeadTime, RecordedDecision, WaitCause
from dra_spawner.history.schema import EPOCH
from dra_spawner.history.user_names import UserNames

_LONGEST_NAME: Final = 255
#: As `imports.csv_import` takes them.
_MOST_DEVICES: Final = 10_000
_SHOWN: Final = 50


def launch_row(launch: Launch, names: UserNames) -> dict[str, Any]:
    """The row of a launch."""
    hashes = names.is_hashed and not launch.user_is_hashed
    return {
        "uid": _short(launch.uid),
        "asked": launch.asked,
        "profile": _short(launch.profile) or None,
        "choice": _clean(launch.choice) or None,
        "user_name": _short(names.hash(launch.user) if hashes else launch.user) or None,
        "user_is_hashed": launch.user_is_hashed or names.is_hashed,
        "pod": _short(names.hash(launch.pod) if hashes else launch.pod) or None,
        "bound": launch.bound,
        "running": launch.running,
        "ended": launch.ended,
        "end_is_estimate": launch.end_is_estimate,
        "node": _short(launch.node) or None,
        "warm": launch.warm,
        "cause": launch.cause.value if launch.cause is not None else None,
        "reason": _clean(names.stored_text(launch.mentions, launch.reason)) or None,
        "source": launch.source,
        "ended_because": _clean(launch.ended_because) or None,
        "devices": json.dumps(dict(launch.devices)) if launch.devices is not None else None,
    }


def learned_row(learned: LearnedDemand) -> dict[str, Any]:
    """The row of what was learned."""
    return {"profile_group": _clean(learned.group), "at": learned.at, "state": learned.state}


def decision_row(recorded: RecordedDecision, names: UserNames) -> dict[str, Any]:
    """The row of a decision."""
    decision = recorded.decision

    def stored(words: str) -> str:
        return _clean(names.stored_text(recorded.mentions, words))

    details = {name: stored(each) if isinstance(each, str) else each for name, each in decision.details.items()}
    mentions = " ".join(sorted(map(names.stored, recorded.mentions)))
    return {
        "id": recorded.id,
        "at": decision.at,
        "kind": decision.kind,
        "subject": stored(decision.subject),
        "reason": stored(decision.reason),
        "code": stored(decision.code),
        "node": _short(decision.node),
        "profile": _clean(decision.profile),
        "outcome": stored(decision.outcome),
        "details": json.dumps(details, ensure_ascii=False),
        "mentions": f" {mentions} " if mentions else "",
        "names_are_hashed": names.is_hashed,
    }


def _clean(words: str) -> str:
    """Text without NUL, which PostgreSQL refuses, and without halves of surrogate pairs."""
    found = words.replace("\0", "")
    return found if found.isascii() else found.encode(errors="replace").decode()


def _short(words: str) -> str:
    return _clean(words)[:_LONGEST_NAME]


def lead_time_row(lead_time: NodeLeadTime) -> dict[str, Any]:
    """The row of a lead time."""
    return {
        "uid": _short(lead_time.uid),
        "node": _short(lead_time.node),
        "kind": _short(lead_time.kind),
        "created": lead_time.created,
        "asked": lead_time.asked,
        "ready": lead_time.ready,
        "slices": lead_time.slices,
        "images": lead_time.images,
    }


class SenselessRow(ValueError):
    """Raised for a row that this package cannot have written."""


def time_of(number: Any) -> datetime | None:
    """The time of a stored number of `UtcTime`; None without one.

    Raises
    ------
    SenselessRow
        If it is no number of a time.
    """
    try:
        return None if number is None else EPOCH + timedelta(microseconds=int(number))
    except (ValueError, TypeError, OverflowError):
        raise SenselessRow(f"{str(number)[:_SHOWN]!r} is no time") from None


def _time(number: Any) -> datetime:
    found = time_of(number)
    if found is None:
        raise SenselessRow("a time is missing")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str | None):
        raise SenselessRow(f"{str(value)[:_SHOWN]!r} is no text")
    return value or ""


def launch_of(row: Sequence[Any]) -> Launch:
    """The launch of a row of all columns, whose times are numbers.

    Raises
    ------
    SenselessRow
        If another program has written nonsense into it.
    """
    # All at once: forecasts and budgets read hundreds of thousands.
    (uid, asked, profile, choice, user, is_hashed, pod, bound, running, ended, is_estimate, node, warm, cause, reason,
     source, ended_because, devices) = row  # fmt: skip
    for each in (uid, profile, choice, user, pod, node, cause, reason, source, ended_because):
        if each is not None and not isinstance(each, str):
            raise SenselessRow(f"{str(each)[:_SHOWN]!r} is no text")
    return Launch(
        uid,
        _time(asked),
        profile or "",
        choice or "",
        user or "",
        bool(is_hashed),
        pod or "",
        time_of(bound),
        time_of(running),
        time_of(ended),
        ended_because or "",
        bool(is_estimate),
        node or "",
        bool(warm) if warm is not None else None,
        _cause(cause),
        reason or "",
        devices=_devices(devices),
        source=source or "",
    )


def lead_time_of(row: Sequence[Any]) -> NodeLeadTime:
    """The lead time of a row of all columns, whose times are numbers.

    Raises
    ------
    SenselessRow
        If another program has written nonsense into it.
    """
    uid, node, kind, created, *times = row
    return NodeLeadTime(_text(uid), _text(node), _text(kind), _time(created), *map(time_of, times))


def decision_of(row: Sequence[Any]) -> RecordedDecision:
    """The decision of a row of all columns, whose times are numbers.

    Raises
    ------
    SenselessRow
        If another program has written nonsense into it.
    """
    id_, at, kind, subject, reason, code, node, profile, outcome, details, mentions, _ = row
    kind, subject, reason = _text(kind), _text(subject), _text(reason)
    decision = Decision(
        _time(at), kind, subject, reason, _text(code), _text(node), _text(profile), _text(outcome), _details(details)
    )
    return RecordedDecision(_text(id_), decision, tuple(_text(mentions).split()))


def _cause(text: str | None) -> WaitCause | None:
    """The cause of a wait; a newer version may have written one that this version does not know."""
    if not text:
        return None
    return WaitCause(text) if text in set(WaitCause) else WaitCause.OTHER


def _details(text: Any) -> dict[str, Any]:
    """Details of a decision; none of what is no JSON object, as another program may have written the row."""
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _devices(text: Any) -> dict[str, float] | None:
    """Whole devices by driver; None for what is no such number, as another program may have written the row."""
    try:
        found = json.loads(text) if text else None
        numbers = {name: float(number) for name, number in found.items()} if isinstance(found, dict) else None
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    if numbers is None or not all(0 <= each <= _MOST_DEVICES for each in numbers.values()):
        return None
    return numbers
