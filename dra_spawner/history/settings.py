"""Settings of the history."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from dra_spawner.history.user_names import UserNameMode

DEFAULT_DIRECTORY: Final = Path("/var/lib/dra-spawner")
"""Directory at which a Deployment mounts a volume for the history."""
DEFAULT_FILE: Final = "history.sqlite"
IN_MEMORY: Final = "sqlite://"


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """Database, retention and names of users."""

    url: str = field(default="", repr=False)
    """SQLAlchemy's URL of the database; empty for `default_url`."""
    keep: timedelta = timedelta(days=365)
    """Age after which launches and lead times are deleted; 0 records nothing."""
    user_names: UserNameMode = UserNameMode.HASHED
    key_file: str = ""
    """File with the key of hashes; empty for a random key in the database."""


def default_url(directory: Path = DEFAULT_DIRECTORY) -> str:
    """A SQLite file in the directory if it can be written there, else a database in memory."""
    is_writable = directory.is_dir() and os.access(directory, os.W_OK)
    return f"sqlite:///{directory / DEFAULT_FILE}" if is_writable else IN_MEMORY
