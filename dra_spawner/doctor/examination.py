"""All rules on all facts."""

from __future__ import annotations

from typing import Any, Final

from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject
from dra_spawner.doctor.rules.clock_skew import CLOCK_RULES, clock_findings
from dra_spawner.doctor.rules.defects import DEFECT_RULES, defect_findings
from dra_spawner.doctor.rules.devices import DEVICE_RULES, device_findings
from dra_spawner.doctor.rules.driver_troubles import TROUBLE_RULES, trouble_findings
from dra_spawner.doctor.rules.neighbours import NEIGHBOUR_RULES, neighbour_findings
from dra_spawner.doctor.rules.network import NETWORK_RULES, network_findings
from dra_spawner.doctor.rules.paths import PATH_RULES, path_findings
from dra_spawner.doctor.rules.placeholders import PLACEHOLDER_RULES, placeholder_findings
from dra_spawner.doctor.rules.rights import RIGHT_RULES, right_findings
from dra_spawner.doctor.rules.scheduling import SCHEDULING_RULES, scheduling_findings
from dra_spawner.doctor.rules.settings import SETTING_RULES, setting_findings
from dra_spawner.doctor.rules.versions import VERSION_RULES, version_findings

ALL_RULES: Final[tuple[DoctorRule, ...]] = (
    *(*VERSION_RULES, *DEFECT_RULES, *DEVICE_RULES, *TROUBLE_RULES, *RIGHT_RULES),
    *(*PATH_RULES, *NETWORK_RULES, *CLOCK_RULES, *SCHEDULING_RULES, *NEIGHBOUR_RULES, *SETTING_RULES),
    *PLACEHOLDER_RULES,
)
_SUBJECTS: Final = tuple(Subject)
_SEVERITIES: Final = tuple(Severity)


def examine(facts: DoctorFacts) -> tuple[DoctorFinding, ...]:
    """The findings by subject, the worst first."""
    found = [
        *version_findings(facts),
        *defect_findings(facts),
        *device_findings(facts),
        *trouble_findings(facts),
        *right_findings(facts),
        *path_findings(facts),
        *network_findings(facts),
        *clock_findings(facts),
        *scheduling_findings(facts),
        *neighbour_findings(facts),
        *setting_findings(facts),
        *placeholder_findings(facts),
    ]
    return tuple(
        sorted(
            dict.fromkeys(found),
            key=lambda each: (_SUBJECTS.index(each.subject), _SEVERITIES.index(each.severity)),
        )
    )


def report_json(facts: DoctorFacts, findings: tuple[DoctorFinding, ...]) -> dict[str, Any]:
    """The report for programs, which docs/reference/doctor.md describes."""
    return {
        **{f"{each.value}s": sum(found.severity is each for found in findings) for each in Severity},
        "namespace": facts.namespace,
        "kubernetes": ".".join(map(str, facts.kubernetes)) if facts.kubernetes else "",
        "findings": [each.to_json() for each in findings],
    }
