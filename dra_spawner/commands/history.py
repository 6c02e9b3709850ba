"""The command line of ``dra-spawner history``."""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime, timedelta

from dra_spawner.common.command_options import options_of
from dra_spawner.common.project_links import where

_UNITS = {"s": 1, "m": 60, "h": 3600}


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``history`` to the commands of ``dra-spawner``."""
    history = commands.add_parser(
        "history",
        help="import launches into the service's history, export it, or delete a user's records",
        description="Work on the history that the service records: launches, lead times of nodes, decisions.\n"
        f"{where('docs/reference/history.md')} describes the records.",
    )
    actions = history.add_subparsers(title="actions", metavar="ACTION")
    _add_import(actions)
    _add_export(actions)
    _add_forget(actions)


def _add_import(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = actions.add_parser(
        "import",
        help="import launches from a CSV file, JupyterHub or Prometheus",
        description="Import past launches into the history, so that forecasts can learn from them. All rows are\n"
        "checked first: with a bad row nothing is imported, unless --skip-bad is given. A repeated import\n"
        "adds no launch twice. Launches after the first one that the service recorded itself are left out.",
        epilog="sources:\n"
        "  csv         a file (also .gz) with the columns of an export; only asked (a time) is required. A column\n"
        "              count has the number of launches in the minute that begins at asked.\n"
        "  jupyterhub  the hub's REST API, its database, an answer to GET /users, or its event log. The event log\n"
        "              has starts and stops; the others have only the servers that run now.\n"
        "  prometheus  its URL, or a file with an answer of /api/v1/query_range: numbers of launches, without users.\n"
        "\n"
        "examples:\n"
        "  dra-spawner history import --from csv launches.csv\n"
        "  dra-spawner history import --from csv --column asked=minute_utc --column count=launches counts.csv.gz\n"
        "  dra-spawner history import --from jupyterhub /srv/jupyterhub/events.log\n"
        "  dra-spawner history import --from jupyterhub --token-file token https://hub.example.org/hub/api\n"
        "  dra-spawner history import --from prometheus --begin 2026-03-01T00:00:00Z http://prometheus:9090\n"
        "\n"
        "exit code:\n"
        "  0 imported, 1 the database fails, 2 wrong usage, a source that cannot be read, or bad rows",
    )
    command.add_argument("source", metavar="SOURCE", help="file or URL")
    command.add_argument(
        "--from", dest="format", required=True, choices=("csv", "jupyterhub", "prometheus"), help="kind of SOURCE"
    )
    command.add_argument("--skip-bad", action="store_true", help="skip bad rows, and import the others")
    command.add_argument("--profile", default="", help="slug of the profile of launches without one")
    command.add_argument("--time-zone", default="", metavar="ZONE", help="zone of times without one (csv)")
    command.add_argument(
        "--column",
        type=_renaming,
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="name of a column in the file (csv); may be repeated",
    )
    command.add_argument(
        "--ignore", action="append", default=[], metavar="COLUMN", help="a column to ignore (csv); may be repeated"
    )
    command.add_argument("--token-file", default="", metavar="FILE", help="file with a token for hub or Prometheus")
    command.add_argument("--begin", type=_time, metavar="TIME", help="begin of the query of Prometheus (14 days ago)")
    command.add_argument("--end", type=_time, metavar="TIME", help="end of the query of Prometheus (now)")
    command.add_argument(
        "--step",
        type=_step,
        default=timedelta(minutes=1),
        metavar="STEP",
        help="step of the query, like 60s or 5m (1m)",
    )
    command.add_argument(
        "--query",
        default="",
        help="query of a counter, or of launches in each step (increase(...)); default: JupyterHub's starts",
    )
    add_database(command)
    command.set_defaults(run=_import)


def _add_export(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = actions.add_parser(
        "export",
        help="print launches, lead times or decisions",
        description="Print records, the oldest first. Standard error says whether names of users are hashed or plain.",
        epilog="examples:\n"
        "  dra-spawner history export > launches.csv\n"
        "  dra-spawner history export --records lead-times --format json | jq -s 'group_by(.kind)'\n"
        "  kubectl exec --namespace jupyterhub deployment/dra-spawner -- \\\n"
        "    dra-spawner history export --begin 2026-03-01T00:00:00Z\n"
        "\n"
        "exit code:\n"
        "  0 all records are printed, 1 the database fails, 2 it cannot be used",
    )
    command.add_argument(
        "--records", choices=("launches", "lead-times", "decisions"), default="launches", help="kind (%(default)s)"
    )
    command.add_argument("--format", choices=("csv", "json"), default="csv", help="CSV, or lines of JSON (%(default)s)")
    command.add_argument("--begin", type=_time, metavar="TIME", help="first time, like 2026-03-01T00:00:00Z")
    command.add_argument("--end", type=_time, metavar="TIME", help="end of the time, not included")
    add_database(command)
    command.set_defaults(run=_export)


def _add_forget(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = actions.add_parser(
        "forget",
        help="delete the records of a user",
        description="Delete all launches of a user, also those with a hashed name, and decisions about the user's\n"
        "servers. A running server is recorded again when it ends: stop it first.",
        epilog="exit code:\n  0 all records are deleted, 1 the database fails, 2 it cannot be used",
    )
    command.add_argument("user", metavar="USER", help="name of the user in JupyterHub")
    add_database(command)
    command.set_defaults(run=_forget)


def add_database(command: argparse.ArgumentParser) -> None:
    """Add the options that name the database."""
    command.add_argument(
        "--config",
        default="",
        metavar="FILE",
        help="the service's configuration, which names the database (dra_spawner_service_config.py, if it exists)",
    )
    command.add_argument("--url", default="", help="URL of the database, instead of the configuration's")
    command.add_argument("--key-file", default="", metavar="FILE", help="file with the key of hashes, if there is one")


def _renaming(text: str) -> tuple[str, str]:
    ours, _, theirs = text.partition("=")
    if not ours or not theirs:
        raise argparse.ArgumentTypeError(f"{text!r} is not OURS=THEIRS, like asked=minute_utc")
    return theirs, ours


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time with its zone, like 2026-03-01T00:00:00Z")
    return found.astimezone(UTC)


def _step(text: str) -> timedelta:
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smh])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a step like 60s, 5m or 1h")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def _import(options: argparse.Namespace) -> int:
    # Imported here, so that `dra-spawner --help` does not load SQLAlchemy.
    from dra_spawner.commands.history_files.import_command import ImportOptions, run_import
    from dra_spawner.commands.history_files.opening import DatabaseOptions
    from dra_spawner.history.imports.prometheus_import import DEFAULT_QUERY

    asked = options_of(
        ImportOptions,
        options,
        database=options_of(DatabaseOptions, options),
        columns=dict(options.column),
        ignored=frozenset(options.ignore),
        query=options.query or DEFAULT_QUERY,
    )
    return run_import(asked, sys.stdout, sys.stderr)


def _export(options: argparse.Namespace) -> int:
    from dra_spawner.commands.history_files.export_command import ExportOptions, run_export
    from dra_spawner.commands.history_files.opening import DatabaseOptions

    asked = options_of(ExportOptions, options, database=options_of(DatabaseOptions, options))
    return run_export(asked, sys.stdout, sys.stderr)


def _forget(options: argparse.Namespace) -> int:
    from dra_spawner.commands.history_files.forget_command import run_forget
    from dra_spawner.commands.history_files.opening import DatabaseOptions

    return run_forget(options.user, options_of(DatabaseOptions, options), sys.stdout, sys.stderr)
