"""What a warned user is told, by the notice on the server's pod."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.fairness.idle.notices import Notice
from dra_spawner.spawner.progress.durations import duration_text

#: Age of a decided stop until which the end of a server counts as this stop.
_STOP_AGE: Final = timedelta(minutes=5)


def notice_of_pod(pod: Mapping[str, Any] | None) -> Notice:
    """The notice of a pod of the API; an empty one without any."""
    annotations = ((pod or {}).get("metadata") or {}).get("annotations") or {}
    text = annotations.get(names.IDLE_NOTICE, "")
    return Notice.read(text) if isinstance(text, str) else Notice()


def idle_note(notice: Notice, now: datetime) -> JsonObject | None:
    """The warning: a sentence, when the server is stopped, and whether it may be kept; None without one."""
    if notice.warned_at is None or notice.stops_at is None:
        return None
    idle = duration_text((now - (notice.idle_since or notice.warned_at)).total_seconds())
    stops_in = duration_text(max((notice.stops_at - now).total_seconds(), 60))
    sentence = (
        f"Nothing has computed on this server for {idle}, so it is stopped in about {stops_in}, and others can use its "
        "devices. Files stay; variables of notebooks are lost."
    )
    if not notice.keeps_left:
        sentence += " It cannot be kept again: run a cell if you need it."
    return {"sentence": sentence, "stops_at": notice.stops_at.isoformat(), "may_keep": bool(notice.keeps_left)}


def kept_sentence(notice: Notice, now: datetime) -> str:
    """What a user reads who has said that the server is needed; empty if that is over."""
    if notice.kept_until is None or notice.kept_until <= now:
        return ""
    until = notice.kept_until.astimezone(UTC)
    again = "" if notice.keeps_left else " After that it cannot be kept again."
    return f"It is kept for you until {until:%Y-%m-%d %H:%M} UTC, also if nothing computes on it.{again}"


def stop_sentence(notice: Notice, now: datetime) -> str:
    """Why a server that is being stopped was stopped, for its user; empty if it was not for being idle."""
    if notice.stopped_at is None or now - notice.stopped_at > _STOP_AGE:  # the service's clock may be ahead
        return ""
    since = notice.idle_since or notice.warned_at or notice.stopped_at
    idle = duration_text((notice.stopped_at - since).total_seconds())
    return f"Nothing computed on it for {idle}, so its devices are free for others now."
