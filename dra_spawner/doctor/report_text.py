"""The report of an examination as text, by subject."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, Severity, Subject
from dra_spawner.profiles.syntax.problems import on_one_line

_COLOURS: Final = {Severity.ERROR: "\x1b[31m", Severity.WARNING: "\x1b[33m", Severity.INFO: "\x1b[36m"}
_BOLD, _FAINT, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_WIDTH: Final = max(map(len, Severity))


def report_text(facts: DoctorFacts, findings: Sequence[DoctorFinding], *, colours: bool = False) -> str:
    """The report as lines; the last line sums up. Names from the cluster are escaped where they are unprintable.

    Parameters
    ----------
    colours
        Whether to use the colours of a terminal.
    """
    lines: list[str] = []
    for subject in Subject:
        own = [each for each in findings if each.subject is subject]
        if own:
            lines.append(f"{_BOLD}{subject.value}{_PLAIN}" if colours else subject.value)
            for each in own:
                lines += _lines(each, colours)
            lines.append("")
    lines.append(_summary(facts, findings))
    return "\n".join(lines) + "\n"


def _lines(finding: DoctorFinding, colours: bool) -> Iterator[str]:
    level, blank = f"{finding.severity.value:{_WIDTH}}", " " * _WIDTH
    place = on_one_line(f"{finding.where} ({finding.code})" if finding.where else f"({finding.code})")
    if colours:
        level, place = f"{_COLOURS[finding.severity]}{level}{_PLAIN}", f"{_FAINT}{place}{_PLAIN}"
    yield f"  {level}  {on_one_line(finding.sentence)}"
    if finding.fix:
        yield f"  {blank}  fix: {on_one_line(finding.fix)}"
    yield f"  {blank}  {place}"


def _summary(facts: DoctorFacts, findings: Sequence[DoctorFinding]) -> str:
    counts = [
        f"{number} {severity.value}{'' if number == 1 else 's'}"
        for severity in Severity
        if (number := sum(each.severity is severity for each in findings))
    ]
    numbers = [*(facts.kubernetes or ()), *([facts.kubernetes_patch] if facts.kubernetes_patch is not None else [])]
    version = f" on Kubernetes {'.'.join(map(str, numbers))}" if numbers else ""
    if not any(each.severity is Severity.ERROR for each in findings):
        counts.insert(0, "nothing is broken")
    return f"{', '.join(counts)} in namespace {on_one_line(facts.namespace)}{version}"
