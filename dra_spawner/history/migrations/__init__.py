"""Bring a database to the newest version of the tables, by Alembic and without its configuration file."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

__all__ = ["NewerDatabase", "newest_version", "upgrade", "version_of"]

#: A table of our own: the database may be shared with a program that uses Alembic, too, as JupyterHub does.
_VERSION_TABLE = "dra_spawner_history_version"


class NewerDatabase(Exception):
    """The tables were made by a newer version of this package."""

    def __init__(self, version: str) -> None:
        super().__init__(
            f"its version {version!r} is not known to this version of dra-spawner; use the newer one, or another"
            " database"
        )


def newest_version() -> str:
    """The version that `upgrade` leads to."""
    version = _scripts().get_current_head()
    assert version is not None
    return version


def version_of(connection: Connection) -> str:
    """The version of a database's tables; empty if there are none.

    Raises
    ------
    NewerDatabase
    """
    version = _context(connection).get_current_revision() or ""
    known = {each.revision for each in _scripts().walk_revisions()}
    if version and version not in known:
        raise NewerDatabase(version)
    return version


def upgrade(connection: Connection, to: str = "") -> None:
    """Run the migrations that are missing, in the transaction of the connection.

    Parameters
    ----------
    to
        A version; empty for the newest.

    Raises
    ------
    NewerDatabase
    """
    present, context = version_of(connection), _context(connection)
    missing = [*_scripts().iterate_revisions(to or newest_version(), present or "base")]
    for script in reversed(missing):
        with Operations.context(context):
            script.module.upgrade()
        _stamp(context, script.revision)


def _stamp(context: MigrationContext, version: str) -> None:
    context.stamp(_scripts(), version)


def _context(connection: Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table": _VERSION_TABLE})


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return ScriptDirectory.from_config(config)
