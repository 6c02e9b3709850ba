"""The number of nodes that are certain to come: as configured, or as seen, in virtual time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.history.records import Launch, NodeLeadTime
from dra_spawner.placeholders.controller.sources.node_ceilings import NodeCeilings
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.placeholders.controller.watched_cluster import START, WatchedCluster


class Nodes(WatchedCluster):
    """Nodes that come and go."""

    def __init__(self, *, has_autoscaler: bool = True, **max_nodes: int) -> None:
        super().__init__()
        settings = ControllerSettings("hub", max_nodes=max_nodes, has_autoscaler=has_autoscaler)
        self.ceilings = NodeCeilings(self.watch(), settings, now=lambda: self.now)

    def come(self, *node_names: str, kind: str = "large", is_open: bool = True) -> None:
        for name in node_names:
            self.node(name, kind=kind, labels={names.IMAGES_READY: names.TRUE} if is_open else {})

    def go(self, *node_names: str) -> None:
        for name in node_names:
            self.remove(Kind.NODE, name)

    def seen(self, uid: str, *, asked: bool = True, seconds: float = 300, kind: str = "large") -> None:
        """A node came, for a pod that had been pending for 100 s."""
        waited = self.now - timedelta(seconds=100) if asked else None
        images = self.now + timedelta(seconds=seconds)
        self.ceilings.record_all([NodeLeadTime(uid, uid, kind, self.now, waited, images=images)])


@pytest.mark.parametrize(("present", "more"), [(0, 3), (2, 1), (3, 0), (4, 0)])
def test_the_setting_says_how_many(present: int, more: int) -> None:
    nodes = Nodes(large=3)
    nodes.come(*map(str, range(present)), is_open=False)
    assert nodes.ceilings.more_nodes() == ({"large": more} if more else {})


def test_a_maximum_is_no_autoscaler() -> None:
    nodes = Nodes(has_autoscaler=False, large=3)
    nodes.come("a")
    assert nodes.ceilings.more_nodes() == {}, "no autoscaler is known to add nodes"
    nodes.seen("b", kind="small")
    assert nodes.ceilings.more_nodes() == {"large": 2}, "an autoscaler was seen"
    nodes.come("b", "c")
    assert nodes.ceilings.more_nodes() == {}, "the maximum is reached"
    nodes.go("c")
    nodes.now += timedelta(days=8)
    assert nodes.ceilings.more_nodes() == {}, "it was seen too long ago"


def test_nothing_is_known_without_a_node_that_came_for_a_pod() -> None:
    nodes = Nodes()
    nodes.come("a", "b")
    nodes.go("b")
    assert nodes.ceilings.more_nodes() == {}
    nodes.seen("a", asked=False)
    nodes.ceilings.record(Launch("uid", START))
    assert nodes.ceilings.more_nodes() == {}
    nodes.seen("a")
    assert nodes.ceilings.more_nodes() == {"large": 1}


def test_as_many_as_there_were_at_once_in_the_last_days() -> None:
    nodes = Nodes()
    nodes.come("a", "b", "c")
    nodes.come("other", kind="small")
    nodes.seen("a")
    assert nodes.ceilings.more_nodes() == {}, "it is not known whether there may be more"
    nodes.go("b", "c")
    assert nodes.ceilings.more_nodes() == {"large": 2}
    nodes.come("d", is_open=False)
    assert nodes.ceilings.more_nodes() == {"large": 1}
    nodes.go("d")
    nodes.now += timedelta(days=8)
    assert nodes.ceilings.more_nodes() == {}, "that was long ago"
    nodes.come("a")
    nodes.seen("e")
    nodes.go("a")
    assert nodes.ceilings.more_nodes() == {"large": 1}


def test_a_node_that_changes_its_kind() -> None:
    nodes = Nodes(large=1, small=1)
    nodes.come("a")
    nodes.come("a", kind="small")
    assert nodes.ceilings.more_nodes() == {"large": 1}


def test_how_long_new_nodes_took() -> None:
    nodes = Nodes()
    nodes.seen("a", seconds=200)
    nodes.seen("b", asked=False, seconds=100)
    nodes.seen("a", seconds=250)
    nodes.seen("broken", seconds=9_999)
    nodes.seen("other", kind="small")
    assert sorted(nodes.ceilings.waits_for_new("large")) == [350]
    assert sorted(nodes.ceilings.waits_for_created("large")) == [100, 250]


def test_memory_is_bounded() -> None:
    nodes = Nodes()
    for number in range(1_100):
        nodes.come(f"n{number}", kind=f"kind-{number}")
        nodes.seen(f"n{number}", kind=f"kind-{number}")
        nodes.go(f"n{number}")
    assert len(nodes.ceilings.more_nodes()) <= 200
    assert nodes.ceilings.waits_for_new("kind-0") == []
    assert nodes.ceilings.waits_for_new("kind-1099") == [400]
