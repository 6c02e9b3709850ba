"""The order of actions, and answers that are shared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from dra_spawner.kube.client.api_errors import KubernetesError, RequestTarget
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round import reservations
from dra_spawner.placeholders.controller.round.executor import ActionExecutor
from dra_spawner.placeholders.controller.round.expectations import Expectation, Expectations
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, AddConsumer, DeleteClaim, DeletePlaceholder
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.placeholders.controller.world import at_work
from tests.polling import eventually

GPU = shape(WHOLE)


class Failing(ActionExecutor):
    """Fails at some actions, and does nothing at the others."""

    def __init__(self, failing: type[Action]) -> None:
        self.failing = failing
        self.tried: list[Action] = []

    async def do(
        self, action: Action, shapes: Mapping[str, Shape], expectations: Expectations
    ) -> tuple[Expectation, ...]:
        self.tried.append(action)
        if isinstance(action, self.failing):
            target = RequestTarget("patch", "ResourceClaim", "hub", "claim")
            raise KubernetesError(target, status=500, reason="InternalError", message="etcd is away")
        return ()


@pytest.mark.parametrize(
    ("failing", "tried"),
    [
        pytest.param(AddConsumer, 1, id="not-reserved"),
        pytest.param(DeletePlaceholder, 2, id="still-there"),
    ],
)
async def test_actions_after_a_failed_one_are_not_done(
    prepared: ClusterUnderTest, failing: type[Action], tried: int
) -> None:
    """If the placeholder ended before its claim is handed over, any pod could get the claim."""
    pod, placeholder = ObjectKey("hub", "ada"), ObjectKey("hub", "placeholder")
    chain = (
        AddConsumer(ObjectKey("hub", "claim"), pod, "uid-ada", "x"),
        DeletePlaceholder(placeholder, "uid", Cause.HANDED_OVER, "x", pod),
    )
    async with at_work(prepared) as world:
        world.reconciler.executor = executor = Failing(failing)
        await world.reconciler.carry_out(chain, world.policy)
    assert executor.tried == list(chain[:tried])


async def test_simultaneous_requests_get_the_same_answer(
    prepared: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepared.publish(*node("node-a", whole("gpu-0")))
    asked: list[Any] = []

    def asking(*question: Any) -> Placement:
        asked.append(question)
        return find_placement(*question)

    monkeypatch.setattr(reservations, "find_placement", asking)
    async with at_work(prepared, (GPU, ReplicaRange(0, 1))) as world:
        place = world.reservations.place
        await world.watch.wait_synced()

        async def answer() -> AvailabilityState:
            return (await place(GPU, prepared.namespace, "ada")).placement.state

        async def is_fresh() -> bool:
            return await answer() is AvailabilityState.FREE

        await eventually(is_fresh, "a fresh pod fits")
        asked.clear()
        assert set(await asyncio.gather(*(answer() for _ in range(30)))) == {AvailabilityState.FREE}
        assert len(asked) <= 1
        # A device that another pod got meanwhile is not reserved on the strength of an older answer.
        await world.user("eve", WHOLE)
        await world.until_placed("eve")
        assert await answer() is not AvailabilityState.FREE


async def test_a_terminating_claim_gets_no_consumer(prepared: ClusterUnderTest) -> None:
    """No consumer can be added any more. That is no failure: no claim is left for a handover."""
    await prepared.publish(*node("node-a", whole("gpu-0")))
    async with at_work(prepared, (GPU, ReplicaRange(1, 1))) as world:
        await world.until_warm(GPU)
        (placeholder,) = world.warm(GPU)
        path = prepared.path("resourceclaims", placeholder.claims[0].name)
        do = world.reconciler.executor.do
        world.reconciler.executor = Failing(DeleteClaim)  # from here on the executor only records actions
        await prepared.admin.delete(path)
        reserve = AddConsumer(placeholder.claims[0], ObjectKey(prepared.namespace, "ada"), "uid-ada", "x", owner=False)
        assert await do(reserve, {}, Expectations()) == ()
        assert "deletionTimestamp" in (await prepared.admin.get(path))["metadata"]
