"""What the members of a class's group read about it: no figures, no reasons and no names of others."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dra_spawner.scale_ahead.calendars.class_progress import ClassProgress
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

__all__ = ["member_sentence", "time_text"]

#: Time before a class from which its members read about it.
_AHEAD: Final = timedelta(days=1)


def time_text(moment: datetime) -> str:
    """A time with its zone and day, such as ``14:00 CET on Tuesday 24 November``."""
    return f"{moment:%H:%M %Z} on {moment:%A} {moment.day} {moment:%B}"


def member_sentence(time: Occurrence, progress: ClassProgress, title: str, now: datetime, *, may_wait: bool) -> str:
    """What is known of a class, and what to do; empty if it is over or too far away.

    Parameters
    ----------
    title
        What the spawn form calls its choice.
    may_wait
        Whether the last rehearsal found that not all can start at once.
    """
    if not now < time.ends or time.begins - now > _AHEAD:
        return ""
    choose = f"Choose “{title}” when you start your server."
    if may_wait:
        return f"Perhaps not all can start at the same time, and some have to wait. {choose}"
    if now >= time.begins:
        return f"It has begun. {choose}"
    return f"{choose} Everything is prepared." if progress.ready_at is not None else choose
