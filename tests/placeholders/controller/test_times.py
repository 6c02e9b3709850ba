"""Start-up times of nodes and servers, in virtual time, from the changes in a watch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.placeholders.controller.records.launch_waits import LaunchWaits
from dra_spawner.placeholders.controller.records.node_lead_times import NodeLeadTimes
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.placeholders.controller.watched_cluster import START, WatchedCluster


class Times(WatchedCluster):
    """All times that are reported about a cluster."""

    def __init__(self, namespaces: Namespaces | None = None) -> None:
        super().__init__()
        self.drivers: dict[str, set[str]] = {}
        self.leads: list[tuple[str, str, float]] = []
        self.launches: list[tuple[str, str, float]] = []
        self.node("there-before")
        watch, hub = self.watch(), frozenset(("hub",))
        lead_times = NodeLeadTimes(
            watch, names.INSTANCE_TYPE, lambda kind: self.drivers.get(kind, ()), now=lambda: self.now
        )
        lead_times.on_reached(
            lambda each: self.leads.append((each.bounded_kind, each.phase.value, each.seconds)),
        )
        self.start_seconds = 0
        self.waits = LaunchWaits(
            watch,
            namespaces or Namespaces(hub, hub, hub),
            now=lambda: self.now,
            start_seconds=lambda: self.start_seconds,
        )
        self.waits.on_launch(
            lambda each: self.launches.append((each.pod.labels[names.SHAPE], each.outcome.value, each.seconds)),
        )

    def new_node(self, name: str = "new", **more: Any) -> None:
        """A node that came when the test began, and is not ready."""
        self.node(name, **{"created": START, "ready": False, **more})


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_each_step_of_a_new_node_is_reported_once() -> None:
    times = Times()
    made = times.after(60).now
    times.drivers["g4"] = {"gpu.example.com", "nic.example.com"}
    times.node("new", made, ready=False)
    times.after(40).node("new", made)
    times.after(5).slice("new", 0, of=2)
    times.after(5).slice("new", 1, of=2)
    assert times.leads == [("g4", "ready", 40)], "the other driver of its kind has not said anything"
    times.after(10).slice("new", driver="nic.example.com")
    times.after(240).node("new", made, labels={names.IMAGES_READY: "true"})
    times.after(5).node("new", made, ready=False)
    times.after(5).node("new", made, labels={names.IMAGES_READY: "true"})
    assert times.leads == [("g4", "ready", 40), ("g4", "slices", 60), ("g4", "images", 300)]


def test_a_pool_of_an_older_generation_is_not_complete() -> None:
    times = Times()
    times.new_node()
    times.slice("new", 0, of=2, generation=1)
    times.after(7).slice("new", 0, of=2, generation=2)
    assert times.leads == []
    times.after(7).slice("new", 1, of=2, generation=2)
    assert times.leads == [("g4", "slices", 14)]


def test_slices_that_are_seen_before_their_node_count() -> None:
    times = Times()
    times.after(20).slice("new")
    times.new_node()
    assert times.leads == [("g4", "slices", 20)]


def test_a_node_that_is_open_because_of_the_deadline_has_not_its_images() -> None:
    times = Times()
    times.new_node()
    times.after(900).new_node(labels={names.IMAGES_READY: "late"})
    assert times.leads == []
    times.after(100).new_node(labels={names.IMAGES_READY: "true"})
    assert times.leads == [("g4", "images", 1000)]


def test_older_and_removed_nodes_are_not_reported() -> None:
    times = Times()
    times.after(60).node("there-before", labels={names.IMAGES_READY: "true"})
    times.node("older", START - timedelta(minutes=1), ready=False)
    times.node("older", START - timedelta(minutes=1))
    times.new_node("gone")
    times.remove(Kind.NODE, "gone")
    times.node("gone", START - timedelta(minutes=1))
    assert times.leads == []


def test_kinds_are_bounded() -> None:
    times = Times()
    for number in range(60):
        times.node(f"n{number}", kind=f"k{number}")
    times.node("again", kind="k0")
    times.node("bare", kind="")
    kinds = [kind for kind, *_ in times.leads]
    assert kinds == [*(f"k{number}" for number in range(50)), *["other"] * 10, "k0", "none"]


# --- servers ---------------------------------------------------------------------------------------------------------


def test_a_warm_claim_is_a_hit() -> None:
    times = Times()
    times.claim("warm", names.PLACEHOLDER)
    times.claim("mine")
    times.pod("ada", claim="warm")
    times.pod("bob", claim="mine")
    times.waits.reservation("hub", "jupyter-bob")  # the reservation came too late
    times.after(0.3).pod("ada", "there-before", claim="warm", created=START)
    times.after(0.3).pod("bob", "there-before", claim="mine", created=START)
    times.after(60).pod("ada", "there-before", claim="warm", created=START)
    assert times.launches == [("shape", "hit", 0.3), ("shape", "miss", pytest.approx(0.6))]


def test_a_reserved_placeholder_without_devices_is_a_hit() -> None:
    times = Times()
    times.waits.reservation("hub", "jupyter-ada")
    times.waits.reservation("hub", "jupyter-late")
    times.after(5).pod("ada")
    times.after(1).pod("ada", "there-before")
    times.after(700).waits.reservation("hub", "jupyter-somebody")
    times.pod("late")
    times.after(1).pod("late", "there-before")
    assert times.launches == [("shape", "hit", 1), ("shape", "miss", 1)]


def test_a_launch_on_a_node_newer_than_its_pod_is_a_node_wait() -> None:
    times = Times()
    times.pod("ada")
    times.after(60).node("new", times.now, ready=False)
    times.after(240).pod("ada", "new", created=START)
    assert times.launches == [("shape", "node_wait", 300)]


def test_a_pod_pending_before_it_was_seen_counts_from_its_creation() -> None:
    times = Times()
    times.after(100).pod("ada", created=START)
    times.after(20).pod("ada", "there-before", created=START)
    assert times.launches == [("shape", "miss", 120)]


def test_pods_that_are_no_launches_are_not_reported() -> None:
    times = Times()
    times.pod("running", "there-before")
    for node in ("", "there-before"):
        times.pod("placeholder", node, component=names.PLACEHOLDER)
        times.pod("elsewhere", node, namespace="evil")
    times.pod("gone")
    times.remove(Kind.POD, "jupyter-gone")
    times.pod("gone", "there-before", uid="2")
    times.pod("replaced", uid="1")  # its deletion is not seen where a watch begins anew
    times.pod("replaced", "there-before", uid="2")
    assert times.launches == []
    everywhere = Times(Namespaces(None, frozenset(("hub",)), frozenset(("hub",))))
    everywhere.pod("ada", namespace="ada")
    everywhere.after(2).pod("ada", "there-before", namespace="ada")
    assert everywhere.launches == [("shape", "miss", 2)]


def test_servers_that_wait_too_long_are_counted_once() -> None:
    """Those that get a node late, those that are removed without one, and those that still wait."""
    times = Times()
    times.pod("early")
    times.after(1000).remove(Kind.POD, "jupyter-early")
    assert times.waits.slow == 0, "the hub has not published its limit"
    times.start_seconds = 100
    for user in ("late", "given-up", "still", "quick"):
        times.pod(user)
    times.pod("trial", labels={names.TRIAL: names.TRUE})  # waits, too, but nobody is to be paged for it
    times.after(55).pod("quick", "there-before")
    assert times.waits.slow == 0, "60 % of 100 s are not over"
    times.after(10).pod("late", "there-before")
    assert times.waits.slow == 3
    times.after(40).remove(Kind.POD, "jupyter-given-up")
    times.start_seconds = 0
    assert times.waits.slow == 3, "it never falls"
