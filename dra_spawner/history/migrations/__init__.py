"""Migrations of the tables to the newest version, by Alembic without its configuration file.

The tables say which version a program must know at least to use them. A migration that only adds tables, or columns
that may be empty, leaves this least version as it is, so that one can go back to the program before. Another one names
itself: ``LEAST_VERSION = revision``.
"""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, column, delete, insert, select, table

#: Not Alembic's default: another program with Alembic, like JupyterHub, may use the same database.
_VERSION_TABLE = "dra_spawner_history_version"
_SETTINGS = table("history_settings", column("name"), column("value"))
_LEAST_VERSION = "least_version"
_FIRST = "0001"


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
        If the version is unknown, and its tables need a newer program.
    """
    version = _context(connection).get_current_revision() or ""
    if version and version not in _known() and _least_version_of(connection) not in _known():
        raise NewerDatabase(version)
    return version


def least_version() -> str:
    """The version that a program must know at least to use the newest tables."""
    scripts = _scripts().walk_revisions()  # the newest first
    return next((each.revision for each in scripts if hasattr(each.module, "LEAST_VERSION")), _FIRST)


def _known() -> set[str]:
    return {each.revision for each in _scripts().walk_revisions()}


def _least_version_of(connection: Connection) -> str:
    """The version that a program must know to use the present tables; empty if they do not say it."""
    wanted = select(_SETTINGS.c.value).where(_SETTINGS.c.name == _LEAST_VERSION)
    return connection.scalar(wanted) or ""


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
    if present and present not in _known():
        return
    missing = [*_scripts().iterate_revisions(to or newest_version(), present or "base")]
    for script in reversed(missing):
        with Operations.context(context):
            script.module.upgrade()
        _stamp(context, script.revision)
    if _least_version_of(connection) != (least := least_version()):
        connection.execute(delete(_SETTINGS).where(_SETTINGS.c.name == _LEAST_VERSION))
        connection.execute(insert(_SETTINGS).values(name=_LEAST_VERSION, value=least))


def _stamp(context: MigrationContext, version: str) -> None:
    context.stamp(_scripts(), version)


def _context(connection: Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table": _VERSION_TABLE})


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return ScriptDirectory.from_config(config)
