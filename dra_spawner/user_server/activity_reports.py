"""Tells the hub what this server's kernels and terminals do, and hears whether its user is to be warned.

The kernels are looked at each second, inside the server: one that begins to compute is told at once, so that nothing
is stopped by an old report. All else is told seldom.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from dra_spawner.common.thread_turns import ThreadTurns
from dra_spawner.user_server.hub_question import NotKnown, hub_json
from dra_spawner.user_server.shown_devices import text

log = logging.getLogger(__name__)

_ADDRESS: Final = "dra-spawner/activity"
#: After a failure, and where the hub has no such address.
_RETRY_SECONDS: Final = 30.0
_NEVER_SECONDS: Final = 3600.0
#: Limits of what the hub may answer, and the least pause after a change.
_LEAST_SECONDS, _MOST_SECONDS = 5.0, 3600.0
_MAX_ITEMS: Final = 500
_IDLE: Final = ("idle", "dead")


class ActivityReports:
    """Reports of one server.

    Parameters
    ----------
    environment
        Variables that JupyterHub sets in each server.
    activity
        Returns what the server does now.
    clock
        Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        activity: Callable[[], dict[str, Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._activity = activity
        self._clock = clock
        self._turns = ThreadTurns()
        self.next_at = self._not_before = self._fails_until = clock()
        """When the next report is due."""
        self._was_busy: bool | None = None
        self._is_wanted = True
        self.warning: dict[str, Any] | None = None
        """The warning that the user is to see; None without one."""

    async def look(self) -> None:
        """Report if a report is due, or a kernel has begun to compute. Never raises."""
        if self._clock() < self._fails_until:
            return
        told_busy = self._was_busy
        try:
            found = self._activity()
            is_busy = any(each["execution_state"] not in _IDLE for each in found["kernels"])
            begins = self._is_wanted and is_busy and not self._was_busy
            now = self._clock()
            if now < (self._not_before if begins else self.next_at):
                return
            async with self._turns.turn() as turn:
                self._was_busy = is_busy
                self.next_at = now + _RETRY_SECONDS
                answer = await turn.run(lambda environment: hub_json(environment, _ADDRESS, found), self._environment)
            self.take(answer, now)
        except NotKnown as unknown:
            # The warning stays as it was: the hub may be away for a moment.
            if unknown.status in (403, 404):
                self.next_at, self._is_wanted, self.warning = self._clock() + _NEVER_SECONDS, False, None
            # What was not told is told soon: the hub would stop a server that computes by its report from before.
            self._was_busy, self._not_before = told_busy, self._clock() + _LEAST_SECONDS
            log.debug("The hub was not told what the kernels do: %s", unknown)
        except Exception:  # whatever a server's own managers raise: the server goes on
            log.warning("The hub is not told what the kernels do", exc_info=True)
            self._fails_until = self._clock() + _RETRY_SECONDS

    def take(self, answer: object, now: float) -> None:
        """Take the hub's answer, which may be anything."""
        found = answer if isinstance(answer, Mapping) else {}
        again = found.get("again_seconds")
        asked = float(again) if isinstance(again, int | float) and not isinstance(again, bool) else _MOST_SECONDS
        # NaN is at neither side of a limit.
        seconds = min(max(asked, _LEAST_SECONDS), _MOST_SECONDS) if asked == asked else _MOST_SECONDS
        self.next_at, self._not_before = now + seconds, now + 1.0
        self._is_wanted = seconds < _NEVER_SECONDS / 10
        self.warning = read_warning(found.get("idle"))


def read_warning(found: object) -> dict[str, Any] | None:
    """The hub's warning with printable texts; None without one."""
    if not isinstance(found, Mapping) or not (sentence := text(found.get("sentence"))):
        return None
    may_keep = found.get("may_keep") is True
    return {"sentence": sentence, "stops_at": text(found.get("stops_at")), "may_keep": may_keep}


def activity_of_server(server: Any) -> dict[str, Any]:
    """What a `jupyter_server.serverapp.ServerApp` does: as its REST API lists kernels and terminals."""
    kernels = server.kernel_manager
    models = [kernels.kernel_model(each) for each in list(kernels.list_kernel_ids())[:_MAX_ITEMS]]
    terminals = server.web_app.settings.get("terminal_manager")
    opened = terminals.list() if terminals is not None else []
    return {
        "kernels": [
            {"execution_state": each.get("execution_state"), "last_activity": _time(each.get("last_activity"))}
            for each in models
        ],
        "terminals": [{"last_activity": _time(each.get("last_activity"))} for each in opened[:_MAX_ITEMS]],
        "connections": sum(int(each.get("connections") or 0) for each in models),
    }


def _time(value: object) -> str:
    """A time of a model, which is a text or an object."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return str(value)
