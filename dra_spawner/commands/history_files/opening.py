"""The database of a command: the service's own, unless the command line names another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.history.connecting import HistoryUrlError, is_in_memory, parsed_url
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.migrations import NewerDatabase
from dra_spawner.history.settings import DEFAULT_DIRECTORY, IN_MEMORY, HistorySettings, default_url
from dra_spawner.history.stored_settings import KeyFileError
from dra_spawner.history.user_names import UserNameMode

_CONFIG: Final = "dra_spawner_service_config.py"


class CommandError(Exception):
    """Raised if a command cannot go on; the message is a sentence without its full stop.

    Attributes
    ----------
    code
        Exit code.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """Options of the command line."""

    url: str = ""
    key_file: str = ""
    config: str = ""
    """The service's configuration file; empty for the one in the current directory, if it exists."""


@contextmanager
def opened(options: DatabaseOptions, *, is_for_import: bool = False) -> Iterator[HistoryDatabase]:
    """The open database; closed at the end of the context.

    Parameters
    ----------
    is_for_import
        Whether a SQLite database that does not exist is made. Other commands refuse its name: in an empty database
        they would find no user.

    Raises
    ------
    CommandError
        If it cannot be opened, or fails within the context.
    """
    settings = _settings(options)
    url = options.url or settings.url or default_url()
    if url == IN_MEMORY:
        raise CommandError(
            f"no database is configured, and the directory {DEFAULT_DIRECTORY} cannot be written: use --url"
        )
    mode: UserNameMode | None = None if options.url else settings.user_names
    try:
        if not is_for_import:
            _refuse_missing(parsed_url(url))
        database = HistoryDatabase.open(url, mode, options.key_file or settings.key_file)
    except HistoryUrlError as error:
        raise CommandError(f"the database's URL cannot be used; allowed: {error}") from None
    except (KeyFileError, NewerDatabase) as error:
        raise CommandError(f"the database cannot be used: {error}") from None
    except (SQLAlchemyError, OSError) as error:
        raise _failure(error) from None
    try:
        yield database
    except SQLAlchemyError as error:
        raise _failure(error) from None
    finally:
        database.close()


def _refuse_missing(url: URL) -> None:
    path = url.database or ""
    is_file = url.get_backend_name() == "sqlite" and not is_in_memory(url) and not path.startswith("file:")
    if is_file and not Path(path).exists():
        raise CommandError(f"there is no database {path}")


def _failure(error: Exception) -> CommandError:
    cause = " ".join(str(getattr(error, "orig", None) or error).split())
    return CommandError(f"the database fails: {cause}", 1)


def _settings(options: DatabaseOptions) -> HistorySettings:
    """The history's settings in the service's configuration; the defaults without one."""
    if options.url and not options.config:
        return HistorySettings()
    path = Path(options.config or _CONFIG)
    if not path.is_file():
        if options.config:
            raise CommandError(f"there is no configuration file {options.config}")
        return HistorySettings()
    from traitlets import TraitError
    from traitlets.config import PyFileConfigLoader

    from dra_spawner.profiles.syntax.settings_reader import SettingsError
    from dra_spawner.service.traits.history_settings import read_history

    try:
        config = PyFileConfigLoader(path.name, path=str(path.absolute().parent)).load_config()
        service = config.get("DRASpawnerService", {})
        return read_history(dict(service.get("history", {})))
    except (SettingsError, TraitError) as error:
        raise CommandError(f"{path}: {error}") from None
    except Exception as error:  # the file is a program
        raise CommandError(f"{path}: {type(error).__name__}: {error}") from None
