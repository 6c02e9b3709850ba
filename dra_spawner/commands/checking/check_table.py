"""The findings of a check as text, grouped by choice; findings shared by several choices are listed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from dra_spawner.commands.checking.check_outcome import CheckOutcome, title
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.syntax.problems import on_one_line

__all__ = ["check_table"]

_COLOURS = {Level.ERROR: "\x1b[31m", Level.WARNING: "\x1b[33m", Level.INFO: "\x1b[36m"}
_BOLD, _FAINT, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_LEVEL_WIDTH = max(map(len, Level))


def check_table(outcome: CheckOutcome, *, colours: bool = False) -> str:
    """The findings as lines; the last line sums up.

    Parameters
    ----------
    colours
        Whether to use the colours of a terminal.
    """
    lines: list[str] = []
    for heading, findings, elsewhere in _groups(outcome):
        lines += [f"{_BOLD}{heading}{_PLAIN}" if colours else heading]
        for finding in findings:
            lines += _lines(finding, elsewhere[finding] - 1, colours)
        lines.append("")
    lines += [f"note: {on_one_line(text)}" for text in outcome.not_checked()]
    lines.append(_summary(outcome))
    return "\n".join(lines) + "\n"


def _groups(outcome: CheckOutcome) -> Iterator[tuple[str, list[Finding], Counter[Finding]]]:
    """Headings with the findings that are new there, and the number of choices that share each."""
    report = outcome.report
    times = Counter(finding for choice in report.choices for finding in choice.findings)
    listed: set[Finding] = set()
    if report.general:
        yield outcome.source, list(dict.fromkeys(report.general)), Counter(dict.fromkeys(report.general, 1))
        listed.update(report.general)
    for choice in report.choices:
        new = [finding for finding in choice.findings if finding not in listed]
        if new:
            yield title(choice.listed), new, times
            listed.update(new)


def _lines(finding: Finding, others: int, colours: bool) -> Iterable[str]:
    level = f"{finding.level:{_LEVEL_WIDTH}}"
    also = f"; also in {_counted(others, 'other choice')}" if others > 0 else ""
    message, place = on_one_line(finding.message), f"{on_one_line(finding.path)} ({finding.rule}{also})"
    if colours:
        level, place = f"{_COLOURS[finding.level]}{level}{_PLAIN}", f"{_FAINT}{place}{_PLAIN}"
    return f"  {level}  {message}", f"  {'':{_LEVEL_WIDTH}}  {place}"


def _summary(outcome: CheckOutcome) -> str:
    report = outcome.report
    counts = [_counted(report.count(level), level.value) for level in Level if report.count(level)]
    if [*counts] and not report.count(Level.ERROR):
        counts = ["no errors", *counts]
    where = "a hub without profiles" if outcome.is_empty else _counted(len(report.choices), "choice")
    text = f"{', '.join(counts) or 'nothing found'} in {where}"
    if outcome.unread:
        text += "; not complete"
    if not outcome.has_cluster:
        return f"{text}; checked without a cluster"
    facts = outcome.inventory.facts
    version = facts.kubernetes_version
    kubernetes = f"Kubernetes {'.'.join(map(str, version))}" if version is not None else "the cluster"
    if facts.slices is None:
        return f"{text}; checked against {kubernetes}"
    devices = _counted(len(outcome.inventory.devices), "device")
    return (
        f"{text}; checked against {kubernetes} with {devices} of {_counted(len(outcome.inventory.drivers), 'driver')}"
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
