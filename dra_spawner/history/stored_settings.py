"""Settings that the database keeps itself: how names of users are stored, and when the cluster was last observed."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, delete, select, update

from dra_spawner.history.schema import decisions, launches, settings
from dra_spawner.history.user_names import KEY_BYTES, UserNameMode, UserNames

LAST_SEEN: Final = "last_seen"
WRITER: Final = "writer"
ORIGIN: Final = "writer_origin"
_KEY: Final = "key"
_USER_NAMES: Final = "user_names"


class Writer(NamedTuple):
    """The service that writes into a database.

    Attributes
    ----------
    name
        The namespace of its hub; empty for none.
    origin
        What tells services of one name apart: hub and cluster. Empty if that is not known, as of older releases.
    """

    name: str = ""
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.origin})" if self.origin else self.name

    def is_other(self, than: Writer) -> bool:
        """Whether it is surely another service."""
        return self.name != than.name or (self.origin != than.origin and bool(self.origin and than.origin))


NO_WRITER: Final = Writer()


class KeyFileError(Exception):
    """Raised if the key file cannot be used; the message has the cause."""


def last_seen_of(connection: Connection) -> datetime | None:
    """Time at which the service last observed the cluster; None if it never did, or if the time is not readable."""
    try:
        seen = datetime.fromisoformat(_setting(connection, LAST_SEEN))
    except ValueError:
        return None
    return seen if seen.tzinfo is not None else None


def writer_of(connection: Connection) -> Writer:
    """The service that has written last."""
    return Writer(_setting(connection, WRITER), _setting(connection, ORIGIN))


def _setting(connection: Connection, name: str) -> str:
    return connection.scalar(select(settings.c.value).where(settings.c.name == name)) or ""


def _set(connection: Connection, name: str, value: str) -> None:
    connection.execute(delete(settings).where(settings.c.name == name))
    connection.execute(settings.insert().values(name=name, value=value))


def stored_names(connection: Connection, wanted: UserNameMode | None, key: bytes) -> UserNames:
    """The stored mode and key of users' names; without a key a random one is created and stored."""
    before = _setting(connection, _USER_NAMES)
    mode = wanted or UserNameMode(before or UserNameMode.HASHED)
    if mode.value != before:
        _set(connection, _USER_NAMES, mode.value)
    if not key:
        kept = _setting(connection, _KEY)
        key = bytes.fromhex(kept) if kept else secrets.token_bytes(KEY_BYTES)
        if not kept:
            _set(connection, _KEY, key.hex())
    return UserNames(key, mode)


def key_of_file(path: str) -> bytes:
    """The key for hashes of names.

    Raises
    ------
    KeyFileError
        If it cannot be read, or is too short.
    """
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise KeyFileError(f"the key cannot be read from {path}: {error.strerror}") from None
    if len(key) < KEY_BYTES:
        raise KeyFileError(f"the key in {path} has {len(key)} bytes; it needs {KEY_BYTES} random ones or more")
    return key


def hash_plain_names(connection: Connection, names: UserNames) -> None:
    """Hash names that were stored in mode `PLAIN`."""
    connection.execute(delete(decisions).where(~decisions.c.names_are_hashed, decisions.c.mentions != ""))
    plain = select(launches.c.uid, launches.c.user_name, launches.c.pod).where(~launches.c.user_is_hashed)
    for uid, user, pod in connection.execute(plain).all():
        hashed = {
            "user_is_hashed": True,
            "user_name": names.hash(user or "") or None,
            "pod": names.hash(pod or "") or None,
            "reason": None,
        }
        connection.execute(update(launches).where(launches.c.uid == uid).values(hashed))
