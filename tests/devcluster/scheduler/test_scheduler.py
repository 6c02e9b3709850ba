"""The scheduler on a store, without a loop: each test lets it settle and looks at what it wrote."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from dra_spawner.devcluster.api.pod_operations import bind_pod
from dra_spawner.devcluster.api.resource_types import (
    DEVICECLASSES,
    EVENTS,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    PRIORITYCLASSES,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
)
from dra_spawner.devcluster.api.store import Store
from dra_spawner.devcluster.controllers.claim_controller import CLAIM_FINALIZER, ClaimController
from dra_spawner.devcluster.scheduler.queue import Waiting
from dra_spawner.devcluster.scheduler.scheduler import Scheduler
from tests.devcluster.cluster_objects import (
    NAMESPACE,
    SHARE_CLASS,
    TurnedClock,
    claim,
    device_class,
    gpu_slice,
    node,
    pod,
    shareable,
    template,
    whole,
)


class Cluster:
    """A store with claim controller and scheduler at work."""

    def __init__(self) -> None:
        self.clock = TurnedClock()
        self.store = Store(self.clock.now, random=random.Random(1))
        numbers = itertools.count()
        self.controllers = (
            ClaimController(self.store, self.clock),
            Scheduler(
                self.store,
                self.clock,
                random=random.Random(1),
                new_share_id=lambda: f"00000000-0000-4000-8000-{next(numbers):012}",
            ),
        )
        for controller in self.controllers:
            controller.attach()
        self.scheduler = self.controllers[1]

    def settle(self):
        before = None
        while before != self.store.resource_version:
            before = self.store.resource_version
            for controller in self.controllers:
                controller.settle()

    def create(self, resource_type, *objects):
        for obj in objects:
            self.store.create(resource_type, obj)
        self.settle()

    def add_node(self, name, *devices, **options):
        self.create(NODES, node(name, **options))
        if devices:
            self.create(RESOURCESLICES, gpu_slice(name, *devices))

    def pod(self, name):
        return self.store.get(PODS, NAMESPACE, name)

    def place(self, name):
        return self.pod(name)["spec"].get("nodeName")

    def condition(self, name):
        for condition in self.pod(name)["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled":
                return condition["status"], condition.get("reason"), condition.get("message")
        return None

    def claim(self, name):
        return self.store.get(RESOURCECLAIMS, NAMESPACE, name)

    def claim_of(self, name):
        return self.claim(self.pod(name)["status"]["resourceClaimStatuses"][0]["resourceClaimName"])

    def devices_of(self, name):
        return self.devices(self.claim_of(name))

    @staticmethod
    def devices(obj):
        results = obj["status"]["allocation"]["devices"]["results"]
        return [(each["pool"], each["device"], each.get("consumedCapacity")) for each in results]

    def run(self, name):
        """What a kubelet does."""
        self.store.modify(PODS, NAMESPACE, name, lambda obj: obj["status"].update(phase="Running"), "status")
        self.settle()

    def delete(self, name):
        self.store.delete(PODS, NAMESPACE, name, grace_period_seconds=0)
        self.settle()

    def events(self, name):
        return [
            (event["reason"], event["message"], event["series"]["count"] if "series" in event else 1)
            for event in self.store.objects(EVENTS)
            if event["involvedObject"]["name"] == name
        ]

    def attempts(self, name):
        return sum(count for reason, _, count in self.events(name) if reason == "FailedScheduling")


@pytest.fixture
def cluster():
    made = Cluster()
    made.create(
        DEVICECLASSES,
        device_class(),
        device_class(SHARE_CLASS, "device.allowMultipleAllocations"),
    )
    return made


NO_PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
ALL_TAKEN = f"0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, {NO_PREEMPTION}"


def test_pod_is_bound_and_told(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user"))
    assert cluster.place("user") == "a"
    assert cluster.condition("user") == ("True", None, None)
    assert cluster.events("user") == [("Scheduled", "Successfully assigned default/user to a", 1)]


def test_pods_that_were_there_before_are_placed_in_order():
    clock = TurnedClock()
    store = Store(clock.now)
    store.create(NODES, node("a"))
    for name in ("z", "y"):
        store.create(PODS, pod(name, cpu="3"))
    scheduler = Scheduler(store, clock)
    scheduler.attach()
    scheduler.settle()
    assert store.get(PODS, NAMESPACE, "z")["spec"]["nodeName"] == "a"
    assert "nodeName" not in store.get(PODS, NAMESPACE, "y")["spec"]


def test_first_by_priority_then_by_arrival(cluster):
    cluster.store.create(PRIORITYCLASSES, {"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"})
    for name, more in (("one", {}), ("two", {}), ("high", {"priorityClassName": "high"}), ("three", {})):
        cluster.store.create(PODS, pod(name, cpu="1500m", **more))
    cluster.create(NODES, node("a"))
    assert [name for name in ("one", "two", "high", "three") if cluster.place(name)] == ["one", "high"]


def test_other_schedulers_pods_are_left_alone(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("theirs", schedulerName="another"))
    assert cluster.place("theirs") is None
    assert cluster.events("theirs") == []
    assert cluster.condition("theirs") is None


def test_gated_pods_wait_for_their_gates(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", schedulingGates=[{"name": "example.com/wait"}]))
    assert cluster.scheduler.waiting_pods == {(NAMESPACE, "user"): Waiting.GATE}
    cluster.store.modify(PODS, NAMESPACE, "user", lambda obj: obj["spec"].pop("schedulingGates"))
    cluster.settle()
    assert cluster.place("user") == "a"


def test_no_nodes(cluster):
    cluster.create(PODS, pod("user"))
    assert cluster.condition("user") == ("False", "Unschedulable", "no nodes available to schedule pods")
    cluster.add_node("a")
    assert cluster.place("user") == "a"


def test_least_used_node_is_taken(cluster):
    for name in ("a", "b", "c"):
        cluster.add_node(name)
    cluster.create(PODS, *(pod(f"pod-{number}", cpu="1") for number in range(6)))
    places = [cluster.place(f"pod-{number}") for number in range(6)]
    assert sorted(places[:3]) == sorted(places[3:]) == ["a", "b", "c"]


# --- devices -------------------------------------------------------------------------------------------------------


def test_whole_device(cluster):
    cluster.add_node("a")
    cluster.add_node("b", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(PODS, pod("user", template="gpus"))
    assert cluster.place("user") == "b"
    made = cluster.claim_of("user")
    user = cluster.pod("user")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "b", "device": "gpu-0"}
    assert made["status"] == {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [term]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "user", "uid": user["metadata"]["uid"]}],
    }
    assert made["metadata"]["finalizers"] == [CLAIM_FINALIZER]


def test_pod_that_finds_no_device_waits_for_one(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(PODS, pod("first", template="gpus"), pod("second", template="gpus"))
    assert cluster.condition("second") == ("False", "Unschedulable", ALL_TAKEN)
    assert ("FailedScheduling", ALL_TAKEN, 1) in cluster.events("second")
    cluster.delete("first")
    assert cluster.place("second") == "a"
    assert cluster.condition("second")[0] == "True"


def test_shares_are_rounded_and_add_up(cluster):
    cluster.add_node("a", shareable("gpu-0"))
    share = {"device_class_name": SHARE_CLASS}
    cluster.create(RESOURCECLAIMTEMPLATES, template("t12", "12Gi", **share), template("t11", "11Gi", **share))
    cluster.create(PODS, pod("one", template="t12"), pod("two", template="t11"), pod("three", template="t12"))
    assert cluster.devices_of("one") == cluster.devices_of("two") == [("a", "gpu-0", {"memory": "15Gi"})]
    assert cluster.place("three") is None
    shares = {
        cluster.claim_of(each)["status"]["allocation"]["devices"]["results"][0]["shareID"] for each in ("one", "two")
    }
    assert len(shares) == 2


def test_pods_may_share_a_claim(cluster):
    cluster.add_node("a")
    cluster.add_node("b", whole("gpu-0"))
    cluster.create(RESOURCECLAIMS, claim("standing"))
    cluster.create(PODS, pod("one", claim="standing"), pod("two", claim="standing"))
    assert (cluster.place("one"), cluster.place("two")) == ("b", "b")
    assert [consumer["name"] for consumer in cluster.claim("standing")["status"]["reservedFor"]] == ["one", "two"]


def test_pod_waits_for_its_claim_without_a_word(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(PODS, pod("user", claim="standing"))
    assert cluster.scheduler.waiting_pods == {(NAMESPACE, "user"): Waiting.GATE}
    assert cluster.events("user") == []
    cluster.create(RESOURCECLAIMS, claim("standing"))
    assert cluster.place("user") == "a"


def test_claim_of_another_pod_is_not_used(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(RESOURCECLAIMS, claim("foreign"))
    cluster.store.create(PODS, pod("user", template="gpus"))
    foreign = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "foreign"}]}
    cluster.store.modify(PODS, NAMESPACE, "user", lambda obj: obj["status"].update(foreign), "status")
    cluster.settle()
    assert cluster.place("user") == "a"
    assert cluster.claim_of("user")["metadata"]["name"] != "foreign"
    assert cluster.claim("foreign")["status"] == {}


def test_standing_claim_is_handed_over(cluster):
    """The second pod comes while the first one is there: the claim is never given back."""
    cluster.add_node("a", whole("gpu-0"), whole("gpu-1"))
    cluster.create(RESOURCECLAIMS, claim("standing"))
    cluster.create(PODS, pod("placeholder", claim="standing"))
    allocation = cluster.claim("standing")["status"]["allocation"]
    cluster.create(PODS, pod("user", claim="standing"))
    cluster.delete("placeholder")
    assert cluster.claim("standing")["status"]["allocation"] == allocation
    assert [consumer["name"] for consumer in cluster.claim("standing")["status"]["reservedFor"]] == ["user"]


def test_failed_hand_over_heals_itself(cluster):
    """The user's pod does not fit beside its claim's devices; without the placeholder they are given up for others."""
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMS, claim("standing"))
    cluster.create(PODS, pod("placeholder", claim="standing", cpu="1"))
    cluster.create(PODS, pod("hog", cpu="3"))
    cluster.add_node("b", whole("gpu-0"))
    cluster.create(PODS, pod("user", claim="standing", cpu="2"))
    assert "1 Insufficient cpu, 1 resourceclaim not available on the node" in cluster.condition("user")[2]
    cluster.delete("placeholder")
    assert cluster.place("user") == "b"
    assert cluster.devices(cluster.claim("standing")) == [("b", "gpu-0", None)]


def test_claim_allocated_for_a_node_that_does_not_fit_is_given_back(cluster):
    cluster.add_node("a", whole("gpu-0"), labels={"zone": "a"})
    cluster.create(RESOURCECLAIMS, claim("standing"))
    cluster.create(PODS, pod("placeholder", claim="standing"))
    allocation = cluster.claim("standing")["status"]["allocation"]
    cluster.delete("placeholder")

    def allocate(obj):  # as if a driver had, for nobody
        obj["status"]["allocation"] = allocation

    cluster.store.modify(RESOURCECLAIMS, NAMESPACE, "standing", allocate, "status")
    cluster.add_node("b", whole("gpu-0"), labels={"zone": "b"})
    cluster.create(PODS, pod("user", claim="standing", nodeSelector={"zone": "b"}))
    assert any("deallocation of ResourceClaim completed" in message for _, message, _ in cluster.events("user"))
    assert cluster.place("user") == "b"


def test_devices_of_a_finished_pod_are_free(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(PODS, pod("first", template="gpus"), pod("second", template="gpus"))
    cluster.store.modify(PODS, NAMESPACE, "first", lambda obj: obj["status"].update(phase="Succeeded"), "status")
    cluster.settle()
    assert cluster.place("second") == "a"


def test_reservation_the_api_refuses_fails_the_attempt(cluster):
    """A claim has at most 256 consumers; the scheduler learns of it only when it writes."""
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMS, claim("standing"))
    cluster.create(PODS, pod("first", claim="standing"))

    def crowd(obj):
        consumers = [{"resource": "jobs", "name": f"j{number}", "uid": str(number)} for number in range(255)]
        obj["status"]["reservedFor"] += consumers

    cluster.store.modify(RESOURCECLAIMS, NAMESPACE, "standing", crowd, "status")
    cluster.create(PODS, pod("user", claim="standing"))
    status, reason, message = cluster.condition("user")
    assert (status, reason) == ("False", "SchedulerError")
    assert message.startswith('running PreBind plugin "DynamicResources": add reservation to claim default/standing: ')
    assert "must have at most 256 items" in message
    assert cluster.place("user") is None


# --- what changes, and who is tried again --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda cluster: cluster.create(RESOURCESLICES, gpu_slice("a", whole("gpu-0"))), id="slice"),
        pytest.param(lambda cluster: cluster.add_node("b", whole("gpu-0")), id="node"),
    ],
)
def test_pod_is_tried_again_when_devices_come(cluster, change):
    cluster.add_node("a")
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    cluster.create(PODS, pod("user", template="gpus"))
    assert cluster.attempts("user") == 1
    change(cluster)
    assert cluster.place("user") is not None


def test_pod_is_tried_again_when_its_class_comes(cluster):
    cluster.add_node("a", whole("gpu-0"))
    cluster.create(RESOURCECLAIMTEMPLATES, template("gpus", device_class_name="late"))
    cluster.create(PODS, pod("user", template="gpus"))
    assert "request gpu: device class late does not exist" in cluster.condition("user")[2]
    cluster.create(DEVICECLASSES, device_class("late"))
    assert cluster.place("user") == "a"


TAINTS = [{"key": "x", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param(lambda obj: None, lambda obj: obj["metadata"]["labels"].update(zone="x"), id="label"),
        pytest.param(
            lambda obj: (obj["metadata"]["labels"].update(zone="x"), obj["spec"].update(taints=TAINTS)),
            lambda obj: obj["spec"].pop("taints"),
            id="taint",
        ),
        pytest.param(
            lambda obj: (obj["metadata"]["labels"].update(zone="x"), obj["spec"].update(unschedulable=True)),
            lambda obj: obj["spec"].pop("unschedulable"),
            id="cordon",
        ),
    ],
)
def test_pod_is_tried_again_when_the_node_changes(cluster, before, change):
    cluster.add_node("a")
    cluster.store.modify(NODES, None, "a", before)
    cluster.create(PODS, pod("user", nodeSelector={"zone": "x"}))
    assert cluster.place("user") is None
    cluster.store.modify(NODES, None, "a", change)
    cluster.settle()
    assert cluster.place("user") == "a"


def test_pod_is_tried_again_when_the_node_grows(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", cpu="6"))
    grown = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}
    cluster.store.modify(NODES, None, "a", lambda obj: obj["status"].update(grown), "status")
    cluster.settle()
    assert cluster.place("user") == "a"


def test_pod_is_tried_again_when_its_volume_comes(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", volumes=[{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]))
    assert 'persistentvolumeclaim "home" not found' in cluster.condition("user")[2]
    resources = {"requests": {"storage": "1Gi"}}
    volume_claim = {
        "metadata": {"name": "home", "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
    }
    cluster.create(PERSISTENTVOLUMECLAIMS, volume_claim)
    assert cluster.place("user") == "a"


def test_changes_that_cannot_help_cost_no_attempt(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", cpu="6"))
    assert cluster.attempts("user") == 1
    cluster.create(RESOURCESLICES, gpu_slice("a", whole("gpu-0")))
    cluster.create(RESOURCECLAIMS, claim("any"))
    cluster.create(PODS, pod("small", cpu="1"))
    cluster.store.modify(NODES, None, "a", lambda obj: obj["status"].update(images=[]), "status")
    cluster.settle()
    assert cluster.attempts("user") == 1
    cluster.delete("small")
    assert cluster.attempts("user") == 2


def test_pod_is_tried_again_after_five_minutes_all_the_same(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", cpu="6"))
    assert cluster.scheduler.step() == pytest.approx(300)
    cluster.clock.turn(299)
    cluster.settle()
    assert cluster.attempts("user") == 1
    cluster.clock.turn(1)
    cluster.settle()
    assert cluster.attempts("user") == 2


def test_failed_attempts_back_off(cluster):
    cluster.add_node("a", whole("gpu-0"))
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].missing == "x"'}}
    cluster.create(RESOURCECLAIMTEMPLATES, template("broken", selectors=[selector]))
    cluster.create(PODS, pod("user", template="broken"))
    assert cluster.condition("user")[1] == "SchedulerError"
    delays = []
    for _ in range(6):
        delay = cluster.scheduler.step()
        delays.append(round(delay))
        cluster.clock.turn(delay)
        cluster.settle()
    assert delays == [1, 2, 4, 8, 10, 10]
    assert cluster.attempts("user") == 7


def test_condition_keeps_its_time_while_it_stays_false(cluster):
    cluster.add_node("a")
    cluster.create(PODS, pod("user", cpu="6"))
    cluster.clock.turn(60)
    cluster.add_node("b")
    (condition,) = cluster.pod("user")["status"]["conditions"]
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert "0/2 nodes" in condition["message"]


def test_pod_that_goes_leaves_the_queue(cluster):
    cluster.create(PODS, pod("user"))
    cluster.delete("user")
    assert cluster.scheduler.waiting_pods == {}


def test_deleted_pod_that_lingers_is_not_scheduled(cluster):
    lingering = pod("user", cpu="6")
    lingering["metadata"]["finalizers"] = ["example.com/keep"]
    cluster.add_node("a")
    cluster.create(PODS, lingering)
    cluster.store.delete(PODS, NAMESPACE, "user")
    cluster.add_node("b", cpu="8")
    assert cluster.place("user") is None
    assert cluster.events("user")[-1][:2] == ("FailedScheduling", "skip schedule deleting pod: default/user")


def test_pods_bound_by_others_count(cluster):
    cluster.add_node("a")
    cluster.store.create(PODS, pod("theirs", cpu="3", schedulerName="another"))
    bind_pod(cluster.store, NAMESPACE, "theirs", "a")
    cluster.create(PODS, pod("user", cpu="2"))
    assert "1 Insufficient cpu" in cluster.condition("user")[2]


# --- preemption ----------------------------------------------------------------------------------------------------


@pytest.fixture
def ranks(cluster):
    for name, value in (("high", 1000), ("low", -10)):
        cluster.create(PRIORITYCLASSES, {"metadata": {"name": name}, "value": value})
    return cluster


def test_preemption(ranks):
    ranks.add_node("a")
    ranks.create(PODS, pod("low", cpu="3", priorityClassName="low"))
    ranks.run("low")
    ranks.create(PODS, pod("vip", cpu="2", priorityClassName="high"))
    victim = ranks.pod("low")
    assert victim["metadata"]["deletionTimestamp"]
    disrupted = victim["status"]["conditions"][-1]
    assert (disrupted["type"], disrupted["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")
    assert disrupted["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    vip = ranks.pod("vip")
    assert vip["status"]["nominatedNodeName"] == "a"
    uid = vip["metadata"]["uid"]
    assert ("Preempted", f"Preempted by pod {uid} on node a", 1) in ranks.events("low")
    assert ranks.condition("vip")[2] == "0/1 nodes are available: 1 Insufficient cpu."
    # Nobody lesser slips into the room that is being made.
    ranks.create(PODS, pod("small", cpu="3"))
    ranks.delete("low")
    assert ranks.place("vip") == "a"
    assert "nominatedNodeName" not in ranks.pod("vip")["status"]
    assert ranks.place("small") is None


def test_preemption_never_frees_devices(ranks):
    ranks.add_node("a", whole("gpu-0"))
    ranks.create(RESOURCECLAIMTEMPLATES, template("gpus"))
    ranks.create(PODS, pod("low", template="gpus", priorityClassName="low"))
    ranks.create(PODS, pod("vip", template="gpus", priorityClassName="high"))
    assert "deletionTimestamp" not in ranks.pod("low")["metadata"]
    assert ranks.condition("vip") == ("False", "Unschedulable", ALL_TAKEN)


def test_hand_over_preempts_the_placeholder(ranks):
    ranks.add_node("a", whole("gpu-0"))
    ranks.create(RESOURCECLAIMS, claim("warm"))
    ranks.create(
        PODS, pod("placeholder", claim="warm", cpu="3", priorityClassName="low", terminationGracePeriodSeconds=0)
    )
    allocation = ranks.claim("warm")["status"]["allocation"]
    ranks.create(PODS, pod("user", claim="warm", cpu="3"))
    assert ranks.store.find(PODS, NAMESPACE, "placeholder") is None
    assert ranks.place("user") == "a"
    assert [consumer["name"] for consumer in ranks.claim("warm")["status"]["reservedFor"]] == ["user"]
    assert ranks.devices(ranks.claim("warm")) == [("a", "gpu-0", None)]
    assert allocation["devices"] == ranks.claim("warm")["status"]["allocation"]["devices"]


def test_greater_preemptor_takes_over_the_nomination(ranks):
    ranks.add_node("a")
    ranks.create(PODS, pod("low", cpu="4", priorityClassName="low"))
    ranks.run("low")
    ranks.create(PODS, pod("middle", cpu="4"))
    assert ranks.pod("middle")["status"]["nominatedNodeName"] == "a"
    ranks.create(PODS, pod("vip", cpu="4", priorityClassName="high"))
    assert ranks.pod("vip")["status"]["nominatedNodeName"] == "a"
    ranks.delete("low")
    assert (ranks.place("vip"), ranks.place("middle")) == ("a", None)


# --- the loop ------------------------------------------------------------------------------------------------------


async def test_loop_places_pods_as_they_come_and_ends():
    clock = TurnedClock()
    store = Store(clock.now)
    scheduler = Scheduler(store, clock)
    scheduler.start()
    store.create(NODES, node("a"))
    bound = set()
    all_bound = asyncio.Event()

    def watch(event):
        if event.resource_type is PODS and "nodeName" in event.object["spec"]:
            bound.add(event.object["metadata"]["name"])
            if len(bound) == 20:
                all_bound.set()

    store.subscribe(watch)
    for number in range(20):
        store.create(PODS, pod(f"pod-{number}"))
    await asyncio.wait_for(all_bound.wait(), 5)
    await scheduler.stop()
    store.create(PODS, pod("late"))
    await asyncio.sleep(0)
    assert "nodeName" not in store.get(PODS, NAMESPACE, "late")["spec"]


async def test_loop_waits_for_back_off_by_its_clock():
    clock = TurnedClock()
    store = Store(clock.now)
    scheduler = Scheduler(store, clock)
    scheduler.start()
    store.create(NODES, node("a"))
    store.create(PODS, pod("user", cpu="6"))

    async def attempts(number):
        while True:
            events = list(store.objects(EVENTS))
            if sum(event.get("series", {"count": 1})["count"] for event in events) >= number:
                return
            await asyncio.sleep(0)

    await asyncio.wait_for(attempts(1), 5)
    for _ in range(10):
        await asyncio.sleep(0)
    clock.turn(301)
    await asyncio.wait_for(attempts(2), 5)
    await scheduler.stop()
