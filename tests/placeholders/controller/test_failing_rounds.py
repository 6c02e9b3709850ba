"""A failure of one action, or after all actions, neither repeats nor prevents the other actions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from dra_spawner.placeholders.controller.round.backoff import Backoff
from dra_spawner.placeholders.controller.round.executor import ActionExecutor
from dra_spawner.placeholders.controller.round.expectations import Expectation, Expectations
from dra_spawner.placeholders.controller.round.reconciler import ReconcilerTimes
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder
from dra_spawner.placeholders.planner.targets.policy import Policy, Renewal, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import node, shape
from tests.placeholders.controller.world import at_work

GOOD = shape({})
BAD = shape({}, cpu="900m")


class Buggy(ActionExecutor):
    """An executor with a defect that shows with one shape."""

    def __init__(self, other: ActionExecutor) -> None:
        self.other = other
        self.tried = 0

    async def do(
        self, action: Action, shapes: Mapping[str, Shape], expectations: Expectations
    ) -> tuple[Expectation, ...]:
        if isinstance(action, CreatePlaceholder) and action.shape == BAD.id:
            self.tried += 1
            raise LookupError("a mistake")
        return await self.other.do(action, shapes, expectations)


async def test_a_defect_in_one_action_delays_no_other(prepared: ClusterUnderTest) -> None:
    await prepared.publish(*node("node-a"))
    async with at_work(prepared) as world:
        reconciler = world.reconciler
        reconciler.executor = executor = Buggy(reconciler.executor)
        reconciler.times = ReconcilerTimes(idle=0.02)
        reconciler.backoff = Backoff(600, 600, 10)
        world.policy = Policy(
            shapes={BAD.id: BAD, GOOD.id: GOOD}, replicas={BAD.id: ReplicaRange(1, 1), GOOD.id: ReplicaRange(3, 3)}
        )
        reconciler.wake()
        await world.until_warm(GOOD, 3)
        assert reconciler.problems() == ("Placeholders: an unforeseen error: LookupError: a mistake.",)
        for _ in range(5):
            decided = world.decisions.decided_at
            await world.until(lambda: world.decisions.decided_at != decided)  # noqa: B023 (awaited at once)
        assert executor.tried == 1, "it is not made again at once"
        failed = [each.decision for each in world.decisions.newest(100) if each.decision.outcome != "done"]
        assert [each.outcome for each in failed] == ["LookupError: a mistake"]


async def test_a_failed_round_has_spent_its_creations(
    prepared: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepared.publish(*node("node-a"))
    async with at_work(prepared) as world:

        async def fail(expected: object) -> None:
            raise LookupError("a mistake")

        # It fails where no defect is expected.
        monkeypatch.setattr(world.reconciler, "until_seen", fail)
        world.reconciler.times = ReconcilerTimes(idle=0.02)
        world.policy = Policy(
            shapes={GOOD.id: GOOD},
            replicas={GOOD.id: ReplicaRange(3, 3)},
            renewal=Renewal(per_second=0.0, whole_in=timedelta(days=10)),
        )
        world.reconciler.wake()
        await world.until(lambda: len(world.reconciler.view().placeholders) == 3)
        await world.until(lambda: bool(world.reconciler.problems()))
        assert world.reconciler.planner_state.creations.spent > 2.9
