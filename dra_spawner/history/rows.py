"""Conversion of records to rows of the tables, and back."""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import RowMapping

from dra_spawner.history.decision_log import Decision
from dra_spawner.history.records import Launch, LearnedDemand, NodeLeadTime, RecordedDecision, WaitCause
from dra_spawner.history.user_names import UserNames

_LONGEST_NAME: Final = 255
#: As `imports.csv_import` takes them.
_MOST_DEVICES: Final = 10_000


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


def launch_of(row: RowMapping) -> Launch:
    """The launch of a row."""
    return Launch(
        uid=row["uid"],
        asked=row["asked"],
        profile=row["profile"] or "",
        choice=row["choice"] or "",
        user=row["user_name"] or "",
        user_is_hashed=row["user_is_hashed"],
        pod=row["pod"] or "",
        bound=row["bound"],
        running=row["running"],
        ended=row["ended"],
        end_is_estimate=row["end_is_estimate"],
        node=row["node"] or "",
        warm=row["warm"],
        cause=_cause(row["cause"]),
        reason=row["reason"] or "",
        source=row["source"],
        ended_because=row["ended_because"] or "",
        devices=_devices(row["devices"]),
    )


def decision_of(row: RowMapping) -> RecordedDecision:
    """The decision of a row."""
    fields = ("at", "kind", "subject", "reason", "code", "node", "profile", "outcome")
    decision = Decision(**{name: row[name] for name in fields}, details=_details(row["details"]))
    return RecordedDecision(row["id"], decision, tuple(row["mentions"].split()))


def _cause(text: str | None) -> WaitCause | None:
    """The cause of a wait; a newer version may have written one that this version does not know."""
    if not text:
        return None
    return WaitCause(text) if text in set(WaitCause) else WaitCause.OTHER


def _details(text: str) -> dict[str, Any]:
    """Details of a decision; none of what is no JSON object, as another program may have written the row."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _devices(text: str | None) -> dict[str, float] | None:
    """Whole devices by driver; None for what is no such number, as another program may have written the row."""
    try:
        found = json.loads(text) if text else None
        numbers = {name: float(number) for name, number in found.items()} if isinstance(found, dict) else None
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    if numbers is None or not all(0 <= each <= _MOST_DEVICES for each in numbers.values()):
        return None
    return numbers
