"""What the hub remembers of a server for its user, also after a restart: its devices, and why the last start failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dra_spawner.spawner.progress.session_time import SessionTime

#: Key of the record in the state that JupyterHub stores for a server.
_KEY: Final = "dra_spawner"
_LONGEST_TEXT: Final = 2000


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The last start of a server.

    Attributes
    ----------
    place
        Devices and node, such as ``15 GiB of gpu-3 on node-2, already prepared``; empty if the server has none.
    failure
        Why the last start failed, or why the server was ended; empty if neither happened.
    failed_at
        When that was; None if it did not happen.
    was_ended
        Whether the server ran and was ended, by nobody who stopped it.
    idle_timeout
        Seconds without activity after which the server is stopped, where its profile says so; else None.
    session
        How long the server may run; None without a limit.
    instead
        Which choice the server has instead of its user's, as a sentence; empty if it has the own one.
    """

    place: str = ""
    failure: str = ""
    failed_at: datetime | None = None
    was_ended: bool = False
    idle_timeout: int | None = None
    session: SessionTime | None = None
    instead: str = ""

    @classmethod
    def of_failure(cls, sentence: str) -> ServerRecord:
        """Return the record of a start that has failed just now."""
        return cls(failure=sentence[:_LONGEST_TEXT], failed_at=datetime.now(UTC).replace(microsecond=0))

    @classmethod
    def of_end(cls, sentence: str) -> ServerRecord:
        """Return the record of a server of which it was noticed just now that it was ended."""
        return replace(cls.of_failure(sentence), was_ended=True)

    @classmethod
    def of_state(cls, state: object) -> ServerRecord:
        """Read the record from a server's state; an empty record where another version has written another one."""
        found = state.get(_KEY) if isinstance(state, dict) else None
        if not isinstance(found, dict):
            return cls()
        place, failure, failed_at = (found.get(name) for name in ("place", "failure", "failed_at"))
        try:
            moment = datetime.fromisoformat(failed_at) if isinstance(failed_at, str) else None
        except ValueError:
            moment = None
        idle = found.get("idle_timeout")
        idle = idle if isinstance(idle, int) and not isinstance(idle, bool) else None
        session = _session(found["session"]) if "session" in found else None
        was_ended, instead = found.get("was_ended") is True, _text(found.get("instead"))
        return cls(_text(place), _text(failure), moment, was_ended, idle, session, instead)

    def state(self) -> dict[str, Any]:
        """The record's part of a server's state; empty if there is nothing to remember."""
        if self == ServerRecord():
            return {}
        failed_at = self.failed_at.isoformat() if self.failed_at is not None else None
        ended = {"was_ended": True} if self.was_ended else {}
        idle = {"idle_timeout": self.idle_timeout} if self.idle_timeout is not None else {}
        session = {"session": self.session.state()} if self.session is not None else {}
        texts = {"place": self.place, "failure": self.failure, "failed_at": failed_at}
        instead = {"instead": self.instead} if self.instead else {}
        return {_KEY: {**texts, **ended, **idle, **session, **instead}}


def _session(value: object) -> SessionTime | None:
    # Imported here, as few hubs have a limit.
    from dra_spawner.spawner.progress.session_time import SessionTime

    return SessionTime.of_state(value)


def _text(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""
