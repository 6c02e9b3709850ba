"""The thought experiment's morning on a real control plane: a second node comes for more users than a node's slots."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.kube.cluster_watch import Change
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.planner.day import CPU_NODES, GPU_NODES, PLACEHOLDERS, SHARE, SLOTS, Session, first_moment
from tests.placeholders.planner.objects import share_claim
from tests.virtual_time.clock import JumpingClock
from tests.virtual_time.cluster_day import ClusterDay
from tests.virtual_time.cluster_world import ClusterWorld
from tests.virtual_time.systems import System, at_work

_EARLY = [f"early-{number}" for number in range(SLOTS)]
"""Fill the first node; the sixth user preempts a placeholder, so that another node is ordered."""
_BETWEEN = ("between-0", "between-1")
"""Come while the new node exists but has no image yet."""
_LATE = ("late-0", "late-1", "late-2")
"""Come when the node has the image."""
_BEGIN = first_moment() + timedelta(minutes=5)
_MINUTES = {
    **{name: number / 2 for number, name in enumerate(_EARLY)},
    **{name: 8.5 + number / 2 for number, name in enumerate(_BETWEEN)},
    **{name: 13.0 + number for number, name in enumerate(_LATE)},
}


def morning() -> list[Session]:
    return [
        Session(name, _BEGIN + timedelta(minutes=minute), timedelta(minutes=20 + 2 * number))
        for number, (name, minute) in enumerate(_MINUTES.items())
    ]


class UserNodes:
    """The node of each user's pod, and the pods whose node was not ready for users."""

    def __init__(self, world: ClusterWorld) -> None:
        self.nodes: dict[str, str] = {}
        self.unready: list[str] = []
        self._world = world
        world.watch.on_change(self._note)

    def _note(self, change: Change) -> None:
        pod = self._world.snapshot.pods.get(change.key) if change.kind is Kind.POD else None
        if pod is None or not pod.node_name or pod.labels.get(names.COMPONENT) != names.USER_SERVER:
            return
        if pod.name not in self.nodes:
            self.nodes[pod.name] = pod.node_name
            if names.IMAGES_READY not in self._world.snapshot.nodes[pod.node_name].node.labels:
                self.unready.append(pod.name)


@pytest.mark.parametrize("shares", [False, True], ids=["without devices", "with shares of GPUs"])
async def test_a_morning(real_cluster: ClusterUnderTest, shares: bool) -> None:
    claims = {"gpu": share_claim(SHARE)} if shares else {}
    clock = JumpingClock(first_moment())
    kubeconfig, namespace = real_cluster.admin_kubeconfig, real_cluster.namespace
    async with at_work(System.OURS, kubeconfig, namespace, clock, claims) as world:
        user_nodes = UserNodes(world)
        outcome = await ClusterDay(world, GPU_NODES if shares else CPU_NODES, morning()).run()

        assert set(outcome.waits) == set(_MINUTES)
        assert outcome.for_image == set()
        assert user_nodes.unready == []
        assert outcome.blocked == set()
        assert world.quiet.overdue == [], "the simulator says that these pods fit, the scheduler does not place them"
        # A user who comes before the new node is ready waits until it is, although the node exists.
        assert outcome.for_node == set(_BETWEEN)
        assert {user_nodes.nodes[name] for name in _EARLY} == {"node-001"}
        assert {user_nodes.nodes[name] for name in (*_BETWEEN, *_LATE)} == {"node-002"}
        assert outcome.max_nodes == 2
        # An hour later only the node with the placeholders and their claims is left.
        assert outcome.left_over == 1
        pods = list(world.snapshot.pods.values())
        assert [pod.labels[names.COMPONENT] for pod in pods] == [names.PLACEHOLDER] * PLACEHOLDERS
        assert {pod.node_name for pod in pods} == set(world.snapshot.nodes)
        assert {claim.name for claim in world.snapshot.claims} == {each.claim for pod in pods for each in pod.claims}
        assert world.snapshot.templates == {}
