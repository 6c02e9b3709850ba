"""Other parts of the cluster that decide about pods or devices, and what they mean for this project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dra_spawner import names
from dra_spawner.common.project_links import where
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of

#: Plural by API group -> what it means here.
NEIGHBOURS: Final[Mapping[tuple[str, str], str]] = {
    (names.KUEUE_GROUP, "clusterqueues"): (
        "Kueue is installed. Servers of a namespace that it manages wait in its queues, and users read so. "
        "Placeholders must not wait there: they would take quota for nobody."
    ),
    (names.SCHEDULING_GROUP, "workloads"): (
        "Kubernetes serves Workloads (all-or-nothing starts of groups of pods). Servers belong to no group. A device "
        "counts as free until a group of others has it."
    ),
    (names.SCHEDULING_GROUP, "podgroups"): (
        "Kubernetes serves PodGroups, whose claims several pods share. A profile's claim cannot be one of them."
    ),
    (names.RESOURCE_GROUP, "resourcepoolstatusrequests"): (
        "Kubernetes serves ResourcePoolStatusRequests, which tell free devices without the right to read claims of "
        "others. Hub and service do not use them: they read the claims."
    ),
}

NEIGHBOUR: Final = DoctorRule(
    "neighbour",
    Subject.SCHEDULING,
    (Severity.INFO,),
    "Kueue, Workloads, PodGroups or ResourcePoolStatusRequests are served",
    "read what they mean here",
)

NEIGHBOUR_RULES: Final = rules_of(globals())


def neighbour_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about other systems."""
    for neighbour, sentence in NEIGHBOURS.items():
        if neighbour in facts.neighbours:
            fix = f"Keep placeholders out of the queues: {where('docs/how-to/kueue.md')}."
            yield NEIGHBOUR.finding(sentence, fix if neighbour[0] == names.KUEUE_GROUP else "")
