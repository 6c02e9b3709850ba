"""The command line of ``dra-spawner budgets``."""

from __future__ import annotations

import argparse
import sys

from dra_spawner.commands.history import add_database
from dra_spawner.common.command_options import options_of
from dra_spawner.common.project_links import where

_MOST_DAYS = 3650


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``budgets`` to the commands of ``dra-spawner``."""
    command = commands.add_parser(
        "budgets",
        help="show device-hours by user, group and choice, and what limits would have done",
        description="Show from the service's history how many device-hours users, groups and choices had: a share\n"
        "of a quarter of a device for four hours is one device-hour. With budgets, show who is over budget now,\n"
        "and what the budgets would have done in these days. It changes nothing, and needs no Prometheus.",
        epilog="examples:\n"
        "  dra-spawner budgets\n"
        "  dra-spawner budgets --days 7 --by group --groups https://hub.example.org/hub/api --token-file token\n"
        "  dra-spawner budgets budgets.yaml --groups groups.json\n"
        "\n"
        "budgets (YAML or JSON; the policies of jupyterhub-usage-quotas can stay as they are):\n"
        "  policy:\n"
        "    - resource: devices              # or a driver, like gpu.nvidia.com\n"
        "      limit: {value: 40, unit: device-hours}\n"
        "      window: 7                      # days, rolling\n"
        "      scope: {group: [maths]}        # all users without it\n"
        "      per: user                      # or group: its users together\n"
        "  scope_backup_strategy:\n"
        "    empty: {resource: devices, limit: {value: 10}, window: 7}    # users for whom no other one holds\n"
        "    intersection: min                # of several: min, max or sum\n"
        "  prices: {gpu-large: 2.5, gpu.nvidia.com: 3}    # of a device-hour, by profile or driver\n"
        "\n"
        f"{where('docs/how-to/budgets.md')} explains the figures.\n"
        "\n"
        "exit code:\n"
        "  0 done, 1 the database fails, 2 wrong usage or input, or the database cannot be used",
    )
    command.add_argument("budgets", nargs="?", default="", metavar="BUDGETS", help="file with budgets, or - for stdin")
    command.add_argument("--days", type=_days, default=30, help="days until now that are shown (%(default)s)")
    command.add_argument(
        "--by", choices=("user", "group", "choice"), default="user", help="rows of the table (%(default)s)"
    )
    command.add_argument("--top", type=_days, default=20, metavar="ROWS", help="most rows of a table (%(default)s)")
    command.add_argument(
        "--groups", default="", metavar="SOURCE", help="the hub's REST API, or a file with its answer to GET /groups"
    )
    command.add_argument(
        "--token-file",
        default="",
        metavar="FILE",
        help="file with a token for the hub, with the scopes list:groups and read:groups",
    )
    command.add_argument("--format", choices=("table", "json"), default="table", help="output format (%(default)s)")
    add_database(command)
    command.set_defaults(run=_run)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {_MOST_DAYS}")
    return int(text)


def _run(options: argparse.Namespace) -> int:
    # Imported here, so that `dra-spawner --help` does not load SQLAlchemy.
    from dra_spawner.commands.budgeting.budgets_command import BudgetsOptions, run_budgets
    from dra_spawner.commands.history_files.opening import DatabaseOptions

    asked = options_of(BudgetsOptions, options, database=options_of(DatabaseOptions, options))
    return run_budgets(asked, sys.stdin.buffer, sys.stdout, sys.stderr)
