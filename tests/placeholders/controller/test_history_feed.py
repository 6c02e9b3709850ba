"""Changes in a watch become records, and records become rows of a database, in virtual time and with restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.fairness.idle.decisions import IdleAction
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.history.records import TRIAL, Launch, NodeLeadTime, PresentServers, Record, RecordedDecision, WaitCause
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.history_feed import HistoryFeed
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.controller.records.decision_text import REFUSAL
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.placeholders.controller.watched_cluster import START, WatchedCluster
from tests.service.unstarted_watch import UnstartedWatch


class _Controller(PlaceholderController):
    """Knows the choice of one shape, as if the hub had published it."""

    def name_of(self, shape: str) -> str:
        return {"shape": "gpu/memory=large"}.get(shape, "")


class Cluster(WatchedCluster):
    """A cluster that each `replica` sees from its creation on."""

    def replica(self, **more: Any) -> Replica:
        watch = UnstartedWatch()
        found = Replica(watch, lambda: self.now, **more)
        self.show(watch)
        return found


class Replica:
    """A replica's feed, and all records that it passed on."""

    def __init__(self, watch: ClusterWatch, now: Callable[[], datetime], **more: Any) -> None:
        self.records: list[Record] = []
        self.decisions = DecisionLog()
        settings = ControllerSettings("hub", placeholders=PlaceholderSettings("hub"), **more)
        api = KubernetesApi.__new__(KubernetesApi)
        self.controller = _Controller(api, watch, self.decisions, settings, now=now)
        self.feed = HistoryFeed(self.controller, self.decisions, self)

    def record(self, record: Record) -> None:
        self.records.append(record)

    def record_all(self, records: Iterable[Record]) -> None:
        self.records.extend(records)

    def launches(self) -> list[Launch]:
        return [each for each in self.records if isinstance(each, Launch)]

    @property
    def last(self) -> Launch:
        return self.launches()[-1]

    def lead_times(self) -> list[NodeLeadTime]:
        return [each for each in self.records if isinstance(each, NodeLeadTime)]


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.node("old", created=START - timedelta(days=1))
    return found


@pytest.fixture
def replica(cluster: Cluster) -> Replica:
    found = cluster.replica()
    found.feed.begin()
    return found


def seconds(moment: datetime | None) -> float | None:
    """Seconds since the start."""
    return None if moment is None else (moment - START).total_seconds()


# --- launches ---------------------------------------------------------------------------------------------------------


def test_a_launch_from_the_pod_to_its_end(cluster: Cluster, replica: Replica) -> None:
    cluster.after(0.4).pod("ada")
    cluster.after(2.2).pod("ada", "old")
    cluster.after(1.1).pod("ada", "old", "Running")
    cluster.after(3600).remove(Kind.POD, "jupyter-ada")
    assert len(replica.launches()) == 4, "one record for each step"
    found = replica.last
    times = [round(seconds(each) or 0, 1) for each in (found.asked, found.bound, found.running, found.ended)]
    assert times == [0.4, 2.6, 3.7, 3603.7]
    assert (found.uid, found.profile, found.choice, found.node) == ("uid-ada", "gpu", "gpu/memory=large", "old")
    assert (found.user, found.pod, found.warm, found.cause) == ("ada", "jupyter-ada", False, WaitCause.NONE)


def test_a_server_of_try_holds_devices_but_is_nobodys_demand(cluster: Cluster, replica: Replica) -> None:
    cluster.pod("ada", "old", labels={names.TRIAL: names.TRUE})
    assert (replica.last.source, replica.last.is_demand, replica.last.choice) == (TRIAL, False, "gpu/memory=large")
    cluster.pod("ben", "old")
    assert replica.last.is_demand


def test_a_warm_claim(cluster: Cluster, replica: Replica) -> None:
    cluster.claim("warm", names.PLACEHOLDER)
    cluster.pod("ada", claim="warm")
    cluster.after(30).pod("ada", "old", claim="warm")
    assert (replica.last.warm, replica.last.cause, replica.last.reason) == (True, WaitCause.NONE, "")


def test_the_devices_of_a_server_are_recorded_when_its_claim_is_known_to_be_allocated(
    cluster: Cluster, replica: Replica
) -> None:
    """The pod and its claim come by two watches, in any order."""
    cluster.slice("old")
    cluster.pod("ada", "old", claim="own")
    assert replica.last.devices is None
    cluster.claim("own", results=[{"driver": "gpu.example.com", "pool": "old", "device": "gpu-0", "request": "gpu"}])
    cluster.after(2).pod("ada", "old", "Running", claim="own")
    assert replica.last.devices == {"gpu.example.com": 1.0}
    cluster.remove(Kind.RESOURCE_CLAIM, "own")
    cluster.after(60).remove(Kind.POD, "jupyter-ada")
    assert replica.last.devices == {"gpu.example.com": 1.0}
    cluster.pod("bob", "old")
    assert replica.last.devices == {}, "none is known, too"


def test_a_reserved_placeholder_without_devices(cluster: Cluster, replica: Replica) -> None:
    replica.controller.launch_waits.reservation("hub", "jupyter-ada")
    cluster.pod("ada")
    cluster.after(1).pod("ada", "old")
    assert (replica.last.warm, replica.last.cause) == (True, WaitCause.NONE)


def test_the_cause_of_a_wait_is_recorded(cluster: Cluster, replica: Replica) -> None:
    for user in ("node", "preemption", "other"):
        cluster.pod(user, says="0/1 nodes are available.")
    cluster.after(100).node("new")
    cluster.after(20).pod("node", "new")
    cluster.pod("preemption", "old", labels={names.PREEMPTED_AT: "1"})
    cluster.pod("other", "old")
    bound = {each.user: each for each in replica.launches() if each.bound}
    assert {name: each.cause.value for name, each in bound.items() if each.cause} == {
        "node": "node",
        "preemption": "preemption",
        "other": "other",
    }
    assert {each.reason for each in bound.values()} == {"0/1 nodes are available."}


def test_a_pod_that_is_replaced_or_fails_has_ended(cluster: Cluster, replica: Replica) -> None:
    cluster.pod("ada")
    cluster.after(10).pod("ada", uid="second")
    assert [(each.uid, seconds(each.ended)) for each in replica.launches()] == [
        ("uid-ada", None),
        ("uid-ada", 10),
        ("second", None),
    ]
    cluster.after(10).pod("ada", "old", "Failed", uid="second")
    assert (replica.last.uid, seconds(replica.last.ended)) == ("second", 20)
    cluster.after(10).remove(Kind.POD, "jupyter-ada")
    assert seconds(replica.last.ended) == 20


def test_why_the_cluster_ended_a_server(cluster: Cluster, replica: Replica) -> None:
    """The condition comes a moment before the end; one that is withdrawn again says nothing."""
    for disruption, because in (
        ("DeletionByDeviceTaintManager", "A device of it was withdrawn on machine old."),
        ("", "Nothing said that it would end: it was deleted by force on machine old, or its end was not seen."),
    ):
        cluster.after(10).pod("ada", "old", "Running")
        pod = cluster.objects[Kind.POD, ObjectKey("hub", "jupyter-ada")]
        ending = {"type": "DisruptionTarget", "status": str(bool(disruption)), "reason": disruption or "Else"}
        conditions = [each for each in pod["status"]["conditions"] if each["type"] != "DisruptionTarget"]
        cluster.put(Kind.POD, {**pod, "status": {**pod["status"], "conditions": [*conditions, ending]}})
        assert replica.last.ended_because == "", "it may stay"
        cluster.after(1).remove(Kind.POD, "jupyter-ada")
        assert replica.last.ended_because == because


def test_what_is_known_of_an_end_that_nothing_explains(cluster: Cluster, replica: Replica) -> None:
    by_force = "Nothing said that it would end: it was deleted by force on machine old, or its end was not seen."
    for number, (phase, graces, because) in enumerate(
        (
            ("Running", (30, 0), ""),
            ("Running", (0,), by_force),
            ("Running", (), by_force),
            ("Succeeded", (), "Its program ended."),
            ("Failed", (), "It failed on machine old: its program ended with an error, or the machine ended it."),
            ("Failed", (30,), ""),
        )
    ):
        cluster.after(10).pod("ada", "old", "Running", uid=f"u{number}")
        pod = cluster.objects[Kind.POD, ObjectKey("hub", "jupyter-ada")]
        status = {**pod["status"], "phase": phase}
        for grace in graces or (None,):
            deleted = {"deletionTimestamp": "2026-03-02T09:00:00Z", "deletionGracePeriodSeconds": grace}
            metadata = {**pod["metadata"], **(deleted if grace is not None else {})}
            cluster.put(Kind.POD, {**pod, "metadata": metadata, "status": status})
        cluster.after(1).remove(Kind.POD, "jupyter-ada")
        assert (replica.last.uid, replica.last.ended_because) == (f"u{number}", because)
    cluster.after(10).pod("ada", uid="no node")
    cluster.after(1).remove(Kind.POD, "jupyter-ada")
    assert (replica.last.uid, replica.last.ended_because) == ("no node", "")


def test_pods_that_are_no_servers_are_no_launches(cluster: Cluster, replica: Replica) -> None:
    cluster.pod("placeholder", component=names.PLACEHOLDER)
    cluster.pod("elsewhere", namespace="other")
    assert replica.launches() == []
    everywhere = cluster.replica(user_namespaces=True)
    everywhere.feed.begin()
    assert [each.user for each in everywhere.launches()] == ["elsewhere"]


def test_a_choice_that_is_published_later(cluster: Cluster, replica: Replica) -> None:
    cluster.pod("ada", labels={names.SHAPE: "unknown"})
    assert (replica.last.profile, replica.last.choice) == ("", "")
    cluster.after(1).pod("ada", "old")
    assert (replica.last.profile, replica.last.choice) == ("gpu", "gpu/memory=large")


def test_a_server_that_was_there_before_the_service(cluster: Cluster) -> None:
    cluster.claim("warm", names.PLACEHOLDER)
    cluster.claim("own", "")
    for user, claim in (("warm", "warm"), ("own", "own"), ("bare", "")):
        cluster.now = START
        cluster.pod(user, claim=claim)
        cluster.after(7).pod(user, "old", claim=claim)
        cluster.after(7).pod(user, "old", "Running", claim=claim)
    cluster.after(1000)
    replica = cluster.replica()
    replica.feed.begin()
    for each in replica.launches():
        assert (seconds(each.asked), seconds(each.bound), seconds(each.running)) == (0, 7, 14)
    # A placeholder without claims leaves no trace.
    assert {each.user: each.warm for each in replica.launches()} == {"warm": True, "own": False, "bare": None}


def test_changes_while_the_watch_was_broken_have_the_times_of_the_api(cluster: Cluster, replica: Replica) -> None:
    cluster.pod("ada")
    watches, cluster.watches = cluster.watches, []
    cluster.after(10).pod("ada", "old")
    cluster.after(10).pod("ada", "old", "Running")
    cluster.watches = watches
    cluster.after(100).pod("ada", "old", "Running")
    assert (seconds(replica.last.bound), seconds(replica.last.running)) == (10, 20)


def test_a_server_that_failed_before_the_service_and_never_ran(cluster: Cluster) -> None:
    cluster.pod("ada")
    cluster.after(10).pod("ada", "old")
    cluster.after(10).pod("ada", "old", "Failed")
    cluster.after(100)
    replica = cluster.replica()
    replica.feed.begin()
    assert seconds(replica.last.ended) == 10, "after it was bound, by what is known"


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_the_lead_time_of_a_node_from_the_pod_that_asked_for_it(cluster: Cluster, replica: Replica) -> None:
    cluster.pod("first")
    cluster.after(10).pod("second")
    cluster.after(50).node("new", ready=False)
    cluster.after(40).node("new")
    cluster.after(20).slice("new")
    cluster.after(5).pod("second", "new")
    cluster.pod("first", "new")
    cluster.after(5).pod("later", "new")
    cluster.after(60).node("new", labels={names.IMAGES_READY: names.TRUE})
    found = replica.lead_times()[-1]
    times = (found.asked, found.created, found.ready, found.slices, found.images)
    assert list(map(seconds, times)) == [0, 60, 100, 120, 190]
    assert (found.uid, found.node, found.kind) == ("uid-new", "new", "g4")


def test_a_pod_that_waited_long_before_did_not_ask_for_this_node(cluster: Cluster, replica: Replica) -> None:
    cluster.pod("stuck")
    cluster.after(3600).node("new")
    cluster.pod("stuck", "new")
    assert replica.lead_times()[-1].asked is None


# --- decisions --------------------------------------------------------------------------------------------------------


def decided(replica: Replica, kind: str, subject: str, reason: str, **details: Any) -> tuple[str, ...]:
    """Names that a decision was found to mention."""
    replica.decisions.append(Decision(START, kind, subject, reason, details=details))
    found = replica.records[-1]
    assert isinstance(found, RecordedDecision)
    return found.mentions


def test_pods_of_users_are_found_in_decisions(cluster: Cluster, replica: Replica) -> None:
    cluster.pod("ada")
    placeholder = "Pod hub/placeholder-1"
    assert decided(replica, "delete-placeholder", placeholder, "hub/jupyter-ada fits on node n1 without it") == (
        "jupyter-ada",
    )
    assert decided(replica, "delete-placeholder", placeholder, "Enough. jupyter-ada.") == ("jupyter-ada",)
    assert decided(replica, "delete-placeholder", placeholder, "for jupyter-adam") == ()
    coming = "Pod hub/jupyter-grace"
    assert decided(replica, REFUSAL, coming, "no placeholder is warm") == ("jupyter-grace",)
    for action in IdleAction:
        assert decided(replica, action, coming, "It is idle.") == ("jupyter-grace",)
    assert decided(replica, "create-placeholder", "shape s", "waits", beside="hub/jupyter-bob") == ("jupyter-bob",)
    own = cluster.replica(user_namespaces=True)
    own.feed.begin()
    assert decided(own, REFUSAL, "Pod ada/jupyter", "no placeholder is warm") == ("ada", "jupyter")


# --- leader and standby -----------------------------------------------------------------------------------------------


def test_a_standby_passes_nothing_on_and_all_when_it_leads(cluster: Cluster) -> None:
    standby = cluster.replica()
    cluster.pod("ada")
    cluster.after(30).node("new")
    cluster.after(1).pod("ada", "new")
    standby.decisions.append(Decision(START, "k", "s", "r"))
    assert standby.records == []
    standby.feed.repeat()
    assert standby.records == []
    standby.feed.begin()
    present, launch, lead_time = standby.records
    assert present == PresentServers(frozenset(("uid-ada",)))
    assert isinstance(launch, Launch)
    assert isinstance(lead_time, NodeLeadTime)
    assert (seconds(launch.asked), seconds(launch.bound)) == (0, 31), "as it saw it, though another led"
    standby.feed.end()
    cluster.after(1).pod("ada", "new", "Running")
    assert len(standby.records) == 3


def test_restarts_lose_nothing_and_write_nothing_twice(cluster: Cluster, tmp_path: Path) -> None:
    """A service that restarts at any step finds the objects that the cluster still shows."""
    cluster.claim("warm", names.PLACEHOLDER)

    def written(restarts: bool) -> list[Launch]:
        world = Cluster()
        world.objects = dict(cluster.objects)
        database = HistoryDatabase.open(f"sqlite:///{tmp_path / str(restarts)}")

        def restart() -> Replica:
            world.watches.clear()
            found = world.replica()
            found.feed.begin()
            return found

        running = restart()

        def step() -> None:
            nonlocal running
            database.add(running.records)
            running.records.clear()
            database.note_seen(world.now)
            if restarts:
                running = restart()

        for user, claim in (("ada", "warm"), ("bob", "")):
            world.after(1).pod(user, claim=claim)
            step()
            world.after(3).pod(user, "old", claim=claim)
            step()
            world.after(4).pod(user, "old", "Running", claim=claim)
            step()
        world.after(50).remove(Kind.POD, "jupyter-ada")
        step()
        # The server ends while no service runs.
        world.watches.clear()
        world.after(7).remove(Kind.POD, "jupyter-bob")
        world.after(7)
        running = restart()
        step()
        found = list(database.launches())
        database.close()
        return found

    straight, restarted = written(restarts=False), written(restarts=True)
    assert len(straight) == len(restarted) == 2
    for one, other in zip(straight, restarted, strict=True):
        for name in ("asked", "bound", "running", "ended", "profile", "choice", "node", "source"):
            assert getattr(one, name) == getattr(other, name), name
    ada, bob = restarted
    assert (ada.warm, ada.cause) == (True, WaitCause.NONE)
    assert bob.warm is False
    assert [each.end_is_estimate for each in restarted] == [False, True]
    assert seconds(bob.ended) == seconds(ada.ended), "when a service last saw the cluster"
