"""Findings of an examination, and the rules that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is; the worst first."""

    #: Servers, placeholders or the page do not work.
    ERROR = "error"
    #: Something is slow, is lost sometimes, or will break.
    WARNING = "warning"
    #: Needs no action.
    INFO = "info"


class Subject(StrEnum):
    """Groups of the report, in its order."""

    VERSIONS = "versions"
    DEVICES = "devices and drivers"
    RIGHTS = "rights"
    PATHS = "hub, service and API"
    SCHEDULING = "scheduling"
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One finding.

    Attributes
    ----------
    code
        Name of the rule, as docs/reference/doctor.md lists it.
    sentence
        What was found, and what follows from it.
    fix
        A command, a snippet of values or a short sentence; empty where no action is needed.
    where
        The object, for example ``Node n1``; empty for the whole cluster.
    """

    code: str
    subject: Subject
    severity: Severity
    sentence: str
    fix: str = ""
    where: str = ""

    def to_json(self) -> dict[str, str]:
        """The finding for programs."""
        return {
            "code": self.code,
            "subject": self.subject.value,
            "severity": self.severity.value,
            "sentence": self.sentence,
            "fix": self.fix,
            "where": self.where,
        }


@dataclass(frozen=True, slots=True)
class DoctorRule:
    """One thing that is examined; docs/reference/doctor.md has the table of all rules, which a test compares.

    Attributes
    ----------
    severities
        Possible severities, the worst first.
    meaning
        What is found.
    remedy
        What to do, in general.
    """

    code: str
    subject: Subject
    severities: tuple[Severity, ...]
    meaning: str
    remedy: str

    def finding(self, sentence: str, fix: str = "", where: str = "", severity: Severity | None = None) -> DoctorFinding:
        """A finding of this rule, of its first severity if none is given."""
        severity = severity or self.severities[0]
        assert severity in self.severities, (self.code, severity)
        return DoctorFinding(self.code, self.subject, severity, sentence, fix, where)


def rules_of(members: Mapping[str, object]) -> tuple[DoctorRule, ...]:
    """The rules among the members of a module, which gives its ``globals()``, in their order there."""
    return tuple(each for each in members.values() if isinstance(each, DoctorRule))
