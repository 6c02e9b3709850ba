"""``dra-spawner budgets``: device-hours from the history, and what budgets would have done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from textwrap import fill
from typing import BinaryIO, Final, TextIO

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.limits import PROFILE_FILES
from dra_spawner.commands.cluster_files.reading import Progress, read_files
from dra_spawner.commands.history_files.opening import CommandError, DatabaseOptions, opened
from dra_spawner.fairness.budget_replay import Effect, Standing, UseReport, use_report
from dra_spawner.fairness.budget_settings import ReadBudgets, read_budgets
from dra_spawner.fairness.budgets import Budget, BudgetPolicy, Per
from dra_spawner.fairness.device_hours import ALL_DRIVERS
from dra_spawner.fairness.report_notes import effect_text, report_notes
from dra_spawner.fairness.use_json import use_json
from dra_spawner.history.imports.http_source import read_token
from dra_spawner.history.imports.hub_groups import read_groups
from dra_spawner.history.imports.imported_rows import SourceError
from dra_spawner.history.records import Launch
from dra_spawner.profiles.syntax.settings_reader import SettingsError

_LONGEST_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class BudgetsOptions:
    """Options of the command line."""

    budgets: str = ""
    """File with budgets; empty for none."""
    database: DatabaseOptions = DatabaseOptions()  # noqa: RUF009 (frozen)
    days: int = 30
    by: str = "user"
    top: int = 20
    groups: str = ""
    token_file: str = ""
    as_json: bool = False
    now: datetime | None = None


def run_budgets(options: BudgetsOptions, standard_input: BinaryIO, output: TextIO, messages: TextIO) -> int:
    """Print use, standings and effects.

    Returns
    -------
    int
        0, 1 if the database fails, 2 if the input is wrong or the database cannot be used.
    """
    progress = Progress(messages)
    try:
        file = _budgets(options, standard_input, progress)
        end = options.now or datetime.now(UTC)
        begin = end - timedelta(days=options.days)
        policy = file.policy
        with opened(options.database) as database:
            memberships = read_groups(options.groups, read_token(options.token_file), database.names.stored)
            launches = list(_read(database.launches(begin - policy.reach, end), progress))
        progress.begin(f"judging {len(launches):,} launches")
        report = use_report(launches, begin, end, policy, memberships)
    except (InputError, SourceError, SettingsError, CommandError) as error:
        progress.clear()
        messages.write(f"dra-spawner budgets: {error}\n")
        return error.code if isinstance(error, CommandError) else 2
    finally:
        progress.clear()
    for sentence in report_notes(report, file, memberships):
        messages.write(f"{sentence}\n")
    if options.as_json:
        output.write(json.dumps(use_json(report), ensure_ascii=False) + "\n")
    else:
        output.write(_text(report, policy, options))
    return 0


def _budgets(options: BudgetsOptions, standard_input: BinaryIO, progress: Progress) -> ReadBudgets:
    if not options.budgets:
        return ReadBudgets()
    documents = list(read_files((options.budgets,), standard_input, progress, PROFILE_FILES))
    if len(documents) > 1:
        raise InputError(options.budgets, 0, "", "has several documents; allowed: one")
    return read_budgets(documents[0].value, options.budgets)


def _read(launches: Iterator[Launch], progress: Progress) -> Iterator[Launch]:
    for number, each in enumerate(launches, 1):
        progress.show(f"reading {number:,} launches")
        yield each


def _text(report: UseReport, policy: BudgetPolicy, options: BudgetsOptions) -> str:
    hours = {"user": report.by_user, "group": report.by_group, "choice": report.by_choice}[options.by]
    has_costs = bool(report.cost_by_user) and options.by == "user"
    rows = [
        (name, _number(used), *((_number(report.cost_by_user.get(name, 0.0)),) if has_costs else ()))
        for name, used in sorted(hours.items(), key=lambda each: (-each[1], each[0]))
    ]
    headings = (options.by, "device-hours", *(("costs",) if has_costs else ()))
    parts = [
        f"{report.begin:%Y-%m-%d} to {report.end:%Y-%m-%d %H:%M} UTC: {report.launches:,} launches, "
        f"{_number(sum(report.by_user.values()))} device-hours\n",
        _table(headings, rows, options.top),
    ]
    if policy.drivers:
        standings = [
            (each.subject, _limit(each.budget), _number(each.hours), _state(each)) for each in report.standings
        ]
        parts += ["Budgets at the end\n", _table(("subject", "budget", "used", ""), standings, options.top)]
        parts += [fill(effect_text(report), 100) + "\n", _effect_table(report.effects, options.top)]
    return "\n".join(filter(None, parts))


def _effect_table(effects: Mapping[str, Effect], top: int) -> str:
    rows = [
        (user, f"{each.over:,}", f"{each.behind:,}")
        for user, each in sorted(effects.items(), key=lambda item: (-item[1].over, item[0]))
    ]
    return _table(("user", "over budget", "behind others"), rows, top) if rows else ""


def _state(standing: Standing) -> str:
    if standing.is_over:
        return "over budget"
    return f"{standing.hours / standing.budget.hours:.0%}"


def _limit(budget: Budget) -> str:
    days = budget.window / timedelta(days=1)
    driver = "" if budget.driver == ALL_DRIVERS else f" of {budget.driver}"
    together = ", together" if budget.per is Per.GROUP else ""
    return f"{_number(budget.hours)} h{driver} in {days:g} days{together}"


def _number(value: float) -> str:
    return f"{value:,.1f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], top: int) -> str:
    shown = [headings, *([_name(row[0]), *row[1:]] for row in rows[:top])]
    widths = [max(len(row[column]) for row in shown) for column in range(len(headings))]
    lines = []
    for row in shown:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join((row[0].ljust(widths[0]), *cells)).rstrip())
    if len(rows) > top:
        lines.append(f"and {len(rows) - top:,} more (--top)")
    return "\n".join(lines) + "\n"


def _name(name: str) -> str:
    """A name on one line, without characters that a terminal obeys."""
    found = "".join(each if each.isprintable() else "?" for each in name) or "not known"
    return found if len(found) <= _LONGEST_NAME else f"{found[: _LONGEST_NAME - 3]}..."
