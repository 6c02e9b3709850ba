"""One table of causes: each has a text for its user, without words of Kubernetes, and a detail for an administrator."""

from __future__ import annotations

from dra_spawner.dra.allocation.reasons import NoFitReason, Refusal, RefusalKind
from dra_spawner.simulator.fitting import NodeAnswer
from dra_spawner.simulator.refusal_text import (
    CLOSED,
    DOUBTFUL,
    DRAINED,
    nearest_cause,
    never_sentence,
    waiting_sentence,
)
from dra_spawner.simulator.scheduler.node_fit import Filter, FilterVerdict, FitCode

#: Words that a hub's users need not know.
FOREIGN = ("node", "pod", "claim", "placeholder", "preempt", "schedul", "cluster", "kube", "taint", "slice", "{")


def refusal(judge: Filter | None, reason: NoFitReason | None = None) -> NodeAnswer:
    return NodeAnswer(FilterVerdict(FitCode.UNSCHEDULABLE, judge, ("in its words",)), reason)


def devices(kind: RefusalKind, found: int = 0, *, is_alone: bool = True) -> NodeAnswer:
    reason = NoFitReason("hub/gpu", "gpu", Refusal(kind), wanted=9, found=found, is_alone=is_alone)
    return refusal(Filter.DYNAMIC_RESOURCES, reason)


def test_each_cause_has_texts_for_users() -> None:
    refusals = [*map(refusal, Filter), *map(devices, RefusalKind), refusal(None)]
    texts = [nearest_cause([each]) for each in refusals] + [CLOSED, DRAINED, DOUBTFUL]
    said = [f"{each.waiting} It can never start: {each.never}." for each in texts]
    assert [(word, each) for each in said for word in FOREIGN if word in each.lower()] == []
    assert [
        each for each in texts if not (each.now.endswith(".") and each.never and each.ends.endswith(("", ".")))
    ] == []


def test_the_node_that_came_nearest_counts() -> None:
    small, large, busy = (
        devices(RefusalKind.TAKEN_HERE, 2),
        devices(RefusalKind.TAKEN_HERE, 4),
        devices(RefusalKind.IN_USE),
    )
    closed = refusal(Filter.TAINT_TOLERATION)
    assert never_sentence([closed, large, small]) == (
        "It can never start: it asks for 9 such devices, and the machine with most of them has 4."
    )
    beside = devices(RefusalKind.TAKEN_HERE, 2, is_alone=False)
    assert never_sentence([beside]) == "It can never start: it asks for more devices than any machine has."
    assert never_sentence([]) == "It can never start: no machine is of the kind that it asks for."
    assert waiting_sentence([closed, busy, small]) == (
        "All devices of this kind are in use. The server starts as soon as one is free."
    )
