"""How far a class is: which servers and placeholders are for which class, and sentences for teachers and members."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

#: Time before a class from which members of its group read about it.
_MEMBERS_AHEAD: Final = timedelta(days=1)
#: Time without a count that makes a number partial: a server hardly comes and goes meanwhile.
UNCOUNTED: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class SeenServer:
    """A server of a class's choice.

    Attributes
    ----------
    asked
        When it was asked for.
    seconds
        Its wait for a node; until now, if it has none yet.
    has_node
        Whether it got a node.
    runs
        Whether it still exists.
    """

    asked: datetime
    seconds: float
    has_node: bool = True
    runs: bool = True


@dataclass(slots=True)
class ClassProgress:
    """What is so at present of one time of a class.

    Attributes
    ----------
    prepared
        Warm placeholders for its users.
    ready_at
        Since when there are enough of them; None if there are not.
    came, running, waiting
        Servers that got a node, servers of these that still exist, and servers without a node.
    longest_seconds
        The longest wait.
    because
        Why servers wait, as a sentence for users; empty if it is not known.
    for_anyone
        Warm placeholders of its choice, where nothing is prepared for the class itself.
    counted_until
        When servers were counted last; None if they never were.
    is_partial
        Whether no replica counted for some time: more users may have come.
    placed
        When servers got their nodes.
    """

    prepared: int = 0
    ready_at: datetime | None = None
    came: int = 0
    running: int = 0
    waiting: int = 0
    longest_seconds: float = 0.0
    because: str = ""
    for_anyone: int = 0
    counted_until: datetime | None = None
    is_partial: bool = False
    placed: list[datetime] = field(default_factory=list)

    def add(self, server: SeenServer) -> None:
        """Count a server."""
        if server.has_node:
            self.came += 1
            self.placed.append(server.asked + timedelta(seconds=server.seconds))
        self.running += server.has_node and server.runs
        self.waiting += not server.has_node and server.runs
        self.longest_seconds = max(self.longest_seconds, server.seconds)


@dataclass(slots=True)
class _Window:
    occurrence: Occurrence
    opens: datetime
    ends: datetime
    progress: ClassProgress = field(default_factory=ClassProgress)
    taken: int = 0


def outcome_key(occurrence: Occurrence) -> str:
    """The name under which the outcome of one time of a class is stored."""
    begins = occurrence.begins.astimezone(UTC).isoformat()
    own = (occurrence.entry_id,) if occurrence.entry_id else ()
    parts = "\0".join((occurrence.source, occurrence.name, occurrence.profile, begins, *own))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def progress_of_classes(
    classes: Iterable[Occurrence], servers: Iterable[SeenServer], warm: int, margin: timedelta, now: datetime
) -> Mapping[Occurrence, ClassProgress]:
    """Progress of the classes of one choice.

    Of classes at the same time the one that begins first gets placeholders and servers, up to its number of users.

    Parameters
    ----------
    classes
        Those that are near in time.
    servers
        Those that were asked for since the first of them opened.
    warm
        Warm placeholders now.
    margin
        Time before the begin from which users may come.
    """
    windows = [
        _Window(each, each.begins.astimezone(UTC) - margin, each.ends.astimezone(UTC))
        for each in sorted(classes, key=lambda each: (each.begins.astimezone(UTC), each.name))
    ]
    for server in sorted(servers, key=lambda each: each.asked):
        fitting = [each for each in windows if each.opens <= server.asked < each.ends]
        if fitting:
            chosen = next((each for each in fitting if each.taken < each.occurrence.users), fitting[-1])
            chosen.taken += 1
            chosen.progress.add(server)
    for window in windows:
        if now < window.ends:
            wanted = max(window.occurrence.users - window.taken, 0)
            window.progress.prepared = min(wanted, warm)
            warm -= window.progress.prepared
    return {each.occurrence: each.progress for each in windows}


def stored_progress(outcome: ClassOutcome) -> ClassProgress:
    """What was stored of a class last."""
    return ClassProgress(
        outcome.prepared,
        outcome.ready_at,
        outcome.came,
        outcome.came,
        longest_seconds=outcome.longest_seconds,
        counted_until=outcome.counted_until,
        is_partial=outcome.is_partial,
    )


def progress_sentence(occurrence: Occurrence, progress: ClassProgress, now: datetime) -> str:
    """Before, during or after a class, with numbers; empty while there is nothing to say."""
    users = occurrence.users
    if now < occurrence.begins:
        if progress.for_anyone:
            servers = "1 server is" if progress.for_anyone == 1 else f"{progress.for_anyone} servers are"
            return f"{servers} prepared at present, for anyone and not for this class"
        prepared, ready = progress.prepared, progress.ready_at
        since = f", ready since {_clock(ready, occurrence)}" if prepared and ready is not None else ""
        if not (progress.running or progress.waiting):
            return f"{prepared} of {users} prepared{since}" if prepared else ""
        more = f", {prepared} more {'is' if prepared == 1 else 'are'} prepared{since}" if prepared else ""
        return _servers_sentence(users, progress) + more
    if now < occurrence.ends:
        return _servers_sentence(users, progress) if progress.counted_until else "It is not known who has a server"
    longest = _seconds(progress.longest_seconds)
    if not is_counted(occurrence, progress):
        if not progress.came:
            return "It is not known how many came"
        return f"At least {progress.came} came, the longest wait that is known was {longest}"
    return f"{progress.came} came, the longest waited {longest}" if progress.came else f"0 of {users} came"


def is_counted(occurrence: Occurrence, progress: ClassProgress) -> bool:
    """Whether all who came to a class that is over were counted."""
    until = progress.counted_until
    return until is not None and not progress.is_partial and occurrence.ends - until <= UNCOUNTED


def _servers_sentence(users: int, progress: ClassProgress) -> str:
    have = "has" if progress.running == 1 else "have"
    waits = f", {progress.waiting} {'waits' if progress.waiting == 1 else 'wait'}" if progress.waiting else ""
    because = f": {progress.because}" if waits and progress.because else ""
    return f"{progress.running} of {users} {have} a server{waits}{because}"


def time_text(moment: datetime) -> str:
    """A time as the pages write it, such as ``Tue 2026-11-24 14:00 CET``."""
    return f"{moment:%a %Y-%m-%d %H:%M %Z}"


def member_sentence(time: Occurrence, progress: ClassProgress, title: str, now: datetime, *, may_wait: bool) -> str:
    """What members of a class's group read: what to do, no figures and reasons; empty if it is over or far away.

    Parameters
    ----------
    title
        What the spawn form calls its choice.
    may_wait
        Whether the last rehearsal found that not all can start at once. When it has begun, who waits is known.
    """
    if not now < time.ends or time.begins - now > _MEMBERS_AHEAD:
        return ""
    choose = f"Choose “{title}” when you start your server."
    if now >= time.begins:
        return f"It has begun, and some wait for a server. {choose}" if progress.waiting else f"It has begun. {choose}"
    if may_wait:
        return f"Perhaps not all can start at the same time, and some have to wait. {choose}"
    return f"{choose} Everything is prepared." if progress.ready_at is not None else choose


def own_server_sentences(title: str) -> dict[str, str]:
    """The same of a class whose users may come, for a member whose own server is active, by what the server has."""
    return {
        "has": f"Your server has “{title}” already.",
        "begins": f"Your server is starting. The choice of this class is “{title}”.",
        "starts": f"Your server is starting with “{title}”.",
        "other": f"Your server has another choice. Stop it, and start it again with “{title}”.",
    }


def _clock(moment: datetime, occurrence: Occurrence) -> str:
    return f"{moment.astimezone(occurrence.begins.tzinfo):%H:%M}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def nearest(occurrences: Iterable[Occurrence], now: datetime) -> tuple[Occurrence | None, Occurrence | None]:
    """The time that runs or comes next, and the last one that is over; None where there is none.

    Parameters
    ----------
    occurrences
        In the order of their begin; no more of them are made than needed.
    """
    over = None
    for each in occurrences:
        if each.ends > now:
            return each, over
        over = each
    return None, over
