"""The index that views share changes no decision; it only saves time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.decide import decide
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.claims import ObjectKey
from tests.examples import example_count
from tests.placeholders.planner.chaos import Chaos
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim
from tests.placeholders.planner.world import World, hub


class Compared(World):
    """Decides with the index, and again without it."""

    decided = 0

    def decide(self):
        fresh = decide(self.view(ClusterIndex()), self.policy, self.planner_state)
        known = decide(self.view(), self.policy, self.planner_state)
        assert known == fresh
        assert decide(self.view(), self.policy, self.planner_state) == fresh, "and when nothing has changed since"
        self.decided += len(fresh.actions)
        return super().decide()


class ChangingDevices(Chaos):
    """Drivers publish more or fewer devices, also such that pods hold. The service begins again with other settings."""

    changes_images = True

    def wait(self) -> None:
        nodes = sorted({item.node_name for item in self.world.snapshot.slices.values() if item.node_name})
        if nodes and self.random.random() < 0.5:
            name, memory = self.random.choice(nodes), self.random.choice(("", "40Gi"))
            if self.random.random() < 0.2:
                self.world.lose_slice(name)
            else:
                self.world.slice(name, self.random.choice((1, 2, 3)), memory)
        super().wait()


SEEDS = 30


@pytest.mark.parametrize("seed", range(example_count(SEEDS)))
def test_decisions_with_the_index_equal_those_without(seed: int) -> None:
    chaos = ChangingDevices(100 + seed)
    chaos.world.__class__ = Compared
    while chaos.world.now - chaos.begun < timedelta(minutes=15):
        chaos.step()
    assert isinstance(chaos.world, Compared)
    assert chaos.world.decided > 5


def test_another_policy_makes_all_nodes_be_looked_at_again() -> None:
    world = hub((PLAIN, 1, 2))
    world.__class__ = Compared
    world.node("a")
    world.settle()
    assert world.is_ready("a")
    images = frozenset(("example.com/another:1",))
    world.policy = Policy(shapes={PLAIN.id: PLAIN}, readiness=type(world.policy.readiness)(images=images))
    world.settle()
    assert not world.is_ready("a")


def test_a_pod_that_did_not_fit_is_looked_at_again_where_something_changed() -> None:
    world = hub((GPU, 2, 4))
    world.__class__ = Compared
    for name in "ab":
        world.node(name, gpus=1)
    world.settle()
    world.user("ada", {"gpu": gpu_claim(count=2)})
    world.run(minutes=1)
    assert world.last.pending[0].needs_node
    world.slice("b", 3)
    world.settle()
    assert world.node_of("ada") == "b"


def test_a_view_stays_as_it_was_for_users_and_placeholders() -> None:
    world = hub((PLAIN, 1, 2), nodes="a")
    world.user("ada")
    world.schedule()
    view = world.view()
    world.leave("ada")
    world.view()
    assert list(view.users) == [ObjectKey(NAMESPACE, "ada")]
    assert [pod.name for pod in view.users_of_node["a"]] == ["ada"]
    assert names.IMAGES_READY in world.snapshot.nodes["a"].node.labels
