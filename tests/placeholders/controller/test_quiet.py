"""Without a change in the cluster the service writes nothing, for hours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from dra_spawner.placeholders.controller.round.reconciler import ReconcilerTimes
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.placeholders.controller.world import PlaceholderWorld, at_work
from tests.presence import present

_WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Rounds:
    """Counts the reconciler's rounds. Three minutes pass with each round."""

    def __init__(self, world: PlaceholderWorld) -> None:
        self.count = 0
        self._begin = datetime.now(UTC)
        self._policy: Callable[[], Policy] = world.reconciler.policy
        world.reconciler.policy = self._next
        world.reconciler.now = world.reconciler.views.now = self._now
        world.reconciler.times = ReconcilerTimes(gather=0.0, idle=0.01)

    def _now(self) -> datetime:
        return self._begin + timedelta(minutes=3 * self.count)

    def _next(self) -> Policy:
        self.count += 1
        return self._policy()


def writes(proxy: FaultProxy) -> int:
    return sum(request.verb in _WRITES for request in proxy.requests)


async def test_nothing_is_written_while_nothing_changes(prepared: ClusterUnderTest) -> None:
    gpu, plain = shape(WHOLE), shape({})
    await prepared.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")), *node("node-b"), *node("node-c", images=()))
    async with prepared.fault_proxy() as proxy:
        prepared.admin_kubeconfig = prepared.admin_kubeconfig_for(proxy.url)
        async with at_work(prepared, (gpu, ReplicaRange(1, 4)), (plain, ReplicaRange(2, 4))) as world:
            await world.until(lambda: len(world.warm(gpu)) == 1 and len(world.reconciler.view().placeholders) == 3)
            reservation = await world.placed_user("ada", gpu, WHOLE)
            await world.user("wants-too-much", WHOLE, cpu="10000")
            rounds = Rounds(world)
            ada, old = ObjectKey(prepared.namespace, "ada"), present(reservation.placement.placeholder).key

            def is_handed_over() -> bool:
                pods = world.watch.snapshot.pods
                runs = ada in pods and pods[ada].is_running and old not in pods
                return runs and len(world.warm(gpu)) == 1 and len(world.warm(plain)) == 2

            await world.until(is_handed_over, what="ada's server runs, and its placeholder is replaced")
            # Nodes are no longer new, the node without images is opened in the end, and placeholders come to rest.
            rest = rounds.count + 40
            await world.until(lambda: rounds.count >= rest)
            before, decided = writes(proxy), world.decisions.count
            end = rounds.count + 60
            await world.until(lambda: rounds.count >= end)
            assert writes(proxy) == before, [str(each) for each in proxy.requests[-5:]]
            assert world.decisions.count == decided
            assert before > 0, "the proxy sees what is written"
