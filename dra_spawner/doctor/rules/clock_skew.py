"""Clocks of the API server, of hub and service, of nodes, and of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dra_spawner.common.counted_text import listed
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.node_clocks import NodeClock, node_clock

_API_SERVER: Final = "API server"
_HERE: Final = "this machine"
#: Limit of the difference of clocks, in seconds. The header Date has whole seconds, and an answer needs time.
_SKEW_SECONDS: Final = 5.0
_BAD_SKEW_SECONDS: Final = 60.0
#: Timeout of a kubelet's requests: a report needs this time at most.
_REPORT_SECONDS: Final = 10.0
#: A kubelet reports every five minutes. An older report says nothing about the clock of today.
_OLD_SECONDS: Final = 600.0
_LISTED: Final = 3
_SYNCHRONIZE: Final = "Synchronize the clocks of all nodes (chrony or systemd-timesyncd)."

CLOCK_SKEW: Final = DoctorRule(
    "clock-skew",
    Subject.PATHS,
    (Severity.ERROR, Severity.WARNING, Severity.INFO),
    "clocks of API server, hub, service and this machine differ",
    "synchronize the clocks of these machines",
)
NODE_CLOCK: Final = DoctorRule(
    "node-clock",
    Subject.PATHS,
    (Severity.ERROR, Severity.WARNING),
    "the clock of a node was not the API server's when its kubelet last reported",
    "synchronize the clock of this node",
)

CLOCK_RULES: Final = rules_of(globals())


def clock_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about clocks."""
    yield from _machines(facts)
    yield from _nodes(facts)


def _machines(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    clocks = dict(facts.clocks) | ({_HERE: 0.0} if facts.is_in_cluster else {})
    if clocks:
        slowest, fastest = min(clocks, key=clocks.__getitem__), max(clocks, key=clocks.__getitem__)
        skew = clocks[fastest] - clocks[slowest]
        if skew > _SKEW_SECONDS:
            yield CLOCK_SKEW.finding(
                f"The clock of {fastest} is {skew:.0f} s ahead of the clock of {slowest}. Reservations end too early "
                "or too late, and calendar entries begin at the wrong time.",
                _SYNCHRONIZE,
                severity=_severity(skew),
            )
            return
    theirs = facts.clocks.get(_API_SERVER, 0.0)
    if not facts.is_in_cluster and abs(theirs) > _SKEW_SECONDS:
        yield CLOCK_SKEW.finding(
            f"The clock of this machine is {abs(theirs):.0f} s {'behind' if theirs > 0 else 'ahead of'} the API "
            "server's. The cluster does not use it.",
            severity=Severity.INFO,
        )


def _nodes(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    now = facts.now + facts.clocks.get(_API_SERVER, 0.0)
    reports = (node_clock(each) for each in facts.nodes or ())
    wrong = [each for each in reports if each is not None and now - each.reported_at < _OLD_SECONDS and _skew(each)]
    if not wrong:
        return
    wrong.sort(key=lambda each: (-_skew(each), each.node))
    clocks = [
        f"{each.node} ({abs(each.ahead_seconds):.0f} s {'ahead' if each.ahead_seconds > 0 else 'behind'})"
        for each in wrong
    ]
    yield NODE_CLOCK.finding(
        f"When they last reported, clocks of nodes were not the API server's: {listed(clocks, _LISTED)}. The times "
        "that such a node writes are wrong: when a container started, and when a server was last used.",
        _SYNCHRONIZE,
        f"Node {wrong[0].node}",
        _severity(_skew(wrong[0])),
    )


def _skew(clock: NodeClock) -> float:
    """The least difference of the clock from the right time, in seconds; 0 if the clock may be right."""
    ahead = clock.ahead_seconds
    certain = ahead if ahead > 0 else -ahead - _REPORT_SECONDS
    return certain if certain > _SKEW_SECONDS else 0.0


def _severity(skew: float) -> Severity:
    return Severity.ERROR if skew > _BAD_SKEW_SECONDS else Severity.WARNING
