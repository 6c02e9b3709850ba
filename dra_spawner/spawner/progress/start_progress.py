"""The progress of a start, for JupyterHub's page: calm sentences, how long it lasts, and the events for the log."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.spawner.progress.durations import so_far
from dra_spawner.spawner.progress.start_messages import StartMessages, event_text, page_html

#: Seconds between looks; makes no request.
_LOOK_SECONDS: Final = 1.0
#: Seconds below which a start is too young to tell its duration, and what else would start.
SHORT_SECONDS: Final = 10.0
#: Instead of what is true of other servers, which is not known then.
CLUSTER_IS_SILENT: Final = (
    "The cluster does not answer at the moment, so this may be out of date. The start goes on when it answers."
)
#: Each event brings the bar a third of the way to this.
_MAX_PROGRESS: Final = 90


@dataclass(eq=False)
class StartProgress:
    """How far a start is: its steps publish it, and the pages read it.

    Attributes
    ----------
    messages
        Events and sentences for the user.
    began
        Begin of the start by the loop's clock; 0 before the first start.
    specs
        Specs of the claims that the start asks for, by the claim's name.
    waiting_for
        Why the pod waits for devices; empty if it does not.
    held_back
        Why a queue or another system holds the pod back; empty if none does.
    pod
        Last seen state of the pod; empty before it is seen.
    """

    messages: StartMessages
    began: float = 0.0
    specs: Mapping[str, JsonObject] = field(default_factory=dict)
    waiting_for: str = ""
    held_back: str = ""
    pod: JsonObject = field(default_factory=dict)

    def begin_attempt(self) -> None:
        """Forget the pod and the claims of an earlier attempt of the start."""
        self.specs, self.waiting_for, self.held_back, self.pod = {}, "", "", {}


async def progress_items(
    events: Callable[[], list[JsonObject]], line: Callable[[], str], has_ended: Callable[[], bool]
) -> AsyncIterator[JsonObject]:
    """Yield what JupyterHub sends to the page, until the start has ended; each item has the number ``progress``.

    Parameters
    ----------
    events
        All events so far; the list only grows.
    line
        The sentence of the moment.
    """
    shown, progress, last_line = 0, 0.0, ""
    while True:
        # Asked before the events, so that none is missed at the end.
        is_last = has_ended()
        found, now = events(), line()
        for event in found[shown:]:
            progress += (_MAX_PROGRESS - progress) / 3
            text = event_text(event)
            html = page_html(now, text)
            yield {"progress": int(progress), "raw_event": event, "message": text, "html_message": html}
            last_line = now
        shown = len(found)
        if now != last_line:
            yield {"progress": int(progress), "message": now, "html_message": page_html(now)}
            last_line = now
        if is_last:
            return
        await asyncio.sleep(_LOOK_SECONDS)


def elapsed(seconds: float, limit_seconds: float) -> str:
    """How long a start lasts, in parentheses; nothing for a short one."""
    return f"({so_far(seconds, limit_seconds)})" if seconds >= SHORT_SECONDS else ""


def waiting_since(servers: Iterable[tuple[frozenset[str], JsonObject]]) -> dict[frozenset[str], list[str]]:
    """When pods that are unschedulable were created, in RFC 3339, sorted, by the device classes that they ask for.

    Parameters
    ----------
    servers
        Device classes and pod of each server.
    """
    found: dict[frozenset[str], list[str]] = {}
    for classes, pod in servers:
        if classes and _is_unschedulable(pod.get("status") or {}):
            found.setdefault(classes, []).append(str(pod["metadata"].get("creationTimestamp") or ""))
    for moments in found.values():
        moments.sort()
    return found


def longer_waiting(waiting: Mapping[frozenset[str], Sequence[str]], classes: frozenset[str], since: str) -> int:
    """Number of servers that were created earlier, and that ask for one of some device classes."""
    return sum(bisect_left(moments, since) for others, moments in waiting.items() if not classes.isdisjoint(others))


def queue_sentence(number: int) -> str:
    """The servers that have waited longer, as a number alone."""
    if not number:
        return ""
    return "One other server has waited longer." if number == 1 else f"{number} other servers have waited longer."


def _is_unschedulable(status: dict[str, Any]) -> bool:
    return any(
        each.get("type") == "PodScheduled" and each.get("status") == "False" and each.get("reason") == "Unschedulable"
        for each in status.get("conditions") or ()
    )
