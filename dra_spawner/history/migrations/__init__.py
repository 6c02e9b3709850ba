"""Migrations of the tables to the newest version, by Alembic without its configuration file."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

#: Not Alembic's default: another program with Alembic, like JupyterHub, may use the same database.
_VERSION_TABLE = "dra_spawner_history_version"


class NewerDatabase(Exception):
    """Raised if a newer version of this package made the tables."""

    def __init__(self, version: str) -> None:
        super().__init__(
            f"its version {version!r} is newer than this version of dra-spawner; use the newer dra-spawner, or another"
            " database"
        )


def newest_version() -> str:
    """The version of the tables after `upgrade`."""
    version = _scripts().get_current_head()
    assert version is not None
    return version


def version_of(connection: Connection) -> str:
    """The version of a database's tables; empty without tables.

    Raises
    ------
    NewerDatabase
        If the version is unknown.
    """
    version = _context(connection).get_current_revision() or ""
    known = {each.revision for each in _scripts().walk_revisions()}
    if version and version not in known:
        raise NewerDatabase(version)
    return version


def upgrade(connection: Connection, to: str = "") -> None:
    """Run the missing migrations, in the connection's transaction.

    Parameters
    ----------
    to
        A version; empty for the newest.

    Raises
    ------
    NewerDatabase
        If the version of the tables is unknown.
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
