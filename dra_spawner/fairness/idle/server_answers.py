"""What a server reports about its kernels and terminals.

A user can change what runs in the server, so a report may be anything: what is not understood is refused.
Source: the models of jupyter_server's REST API (``/api/kernels``, ``/api/terminals``).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from dra_spawner.fairness.idle.samples import Kernel, KernelState, ServerActivity

#: A server has few; more are not read.
_MAX_ITEMS: Final = 1_000
_LONGEST_TIME: Final = 40
_STATES: Final[Mapping[str, KernelState]] = {
    "busy": KernelState.BUSY,
    "starting": KernelState.BUSY,
    "restarting": KernelState.BUSY,
    "autorestarting": KernelState.BUSY,
    "idle": KernelState.IDLE,
    "dead": KernelState.DEAD,
}


class InvalidServerAnswer(ValueError):
    """Raised for an answer that is not understood; the message is the end of a sentence."""


def read_activity(report: object) -> ServerActivity:
    """What a server says about itself: ``kernels`` and ``terminals`` as Jupyter lists them, and ``connections``.

    Raises
    ------
    InvalidServerAnswer
    """
    if not isinstance(report, Mapping):
        raise InvalidServerAnswer("its report is no object")
    connections = report.get("connections")
    if not isinstance(connections, int) or isinstance(connections, bool) or connections < 0:
        raise InvalidServerAnswer("its number of connections is no number")
    return ServerActivity(
        kernels=tuple(_kernel(each) for each in _items(report, "kernels")),
        terminals=tuple(_time(each, "terminal") for each in _items(report, "terminals")),
        connections=min(connections, _MAX_ITEMS),
    )


def _items(report: Mapping[str, object], what: str) -> list[Mapping[str, object]]:
    found = report.get(what)
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise InvalidServerAnswer(f"its report has no list of {what}")
    if len(found) > _MAX_ITEMS:
        raise InvalidServerAnswer(f"it names more than {_MAX_ITEMS} {what}")
    return found


def _kernel(found: Mapping[str, object]) -> Kernel:
    state = found.get("execution_state")
    word = _STATES.get(state, KernelState.UNKNOWN) if isinstance(state, str) else KernelState.UNKNOWN
    return Kernel(word, _time(found, "kernel"))


def _time(found: Mapping[str, object], what: str) -> datetime:
    value = found.get("last_activity")
    try:
        if not isinstance(value, str) or len(value) > _LONGEST_TIME:
            raise ValueError
        moment = datetime.fromisoformat(value)
        # A time without a zone is UTC, as Jupyter Server writes it.
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidServerAnswer(f"the last activity of a {what} is no time") from None
