"""Decisions on plain values: the result for a pod in a given cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dra_spawner.dra.allocation.allocator import AllocatedState
from dra_spawner.dra.model.objects import DeviceClass, ResourceClaim, ResourceSlice
from dra_spawner.dra.model.pools import SliceIndex
from dra_spawner.simulator.scheduler.node_fit import Filter
from dra_spawner.simulator.scheduler.scheduler_preemption import SchedulerPreemption, resolve
from dra_spawner.simulator.scheduler.scheduling import (
    ChosenNode,
    ClusterView,
    Failure,
    SchedulingAttempt,
    SchedulingQuestion,
    Unschedulable,
)
from tests.all_of_them import all_of_them
from tests.simulator.objects import pod, required_nodes, state

DRIVER = "gpu.example.com"


def first(options):
    return options[0]


def device_class(name: str = "gpu", expression: str = f'device.driver == "{DRIVER}"') -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return DeviceClass.from_json({"metadata": {"name": name}, "spec": spec})


def gpus(node: str, *names: str, **device: Any) -> ResourceSlice:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": name, **device} for name in names]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return ResourceSlice.from_json({"metadata": {"name": f"{node}-gpus"}, "spec": spec})


def claim(name: str = "claim", on: str = "", reserved_for: tuple[str, ...] = (), **request: Any) -> ResourceClaim:
    """A claim for one GPU; with `on`, it has that node's ``gpu-0``."""
    exactly = {"deviceClassName": "gpu", **request}
    status: dict[str, Any] = {}
    if on:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
        results = [{"request": "r", "driver": DRIVER, "pool": on, "device": "gpu-0"}]
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}}
        consumers = [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved_for]
        status = {"allocation": allocation, "reservedFor": consumers}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return ResourceClaim.from_json({"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status})


def cluster(*nodes, slices=(), classes=None, claims=(), nominated=None) -> ClusterView:
    return ClusterView(
        nodes=nodes,
        slices=SliceIndex(slices),
        classes={each.name: each for each in (classes if classes is not None else [device_class()])},
        allocated=AllocatedState.from_claims(claims),
        nominated=nominated or {},
    )


def attempt(view: ClusterView, candidate, *claims: ResourceClaim, **question: Any) -> SchedulingAttempt:
    return SchedulingAttempt(view, SchedulingQuestion(candidate, claims, **question), first)


def refused(tried: SchedulingAttempt) -> Unschedulable:
    decision = tried.decide()
    assert isinstance(decision, Unschedulable)
    return decision


def message_of(tried: SchedulingAttempt) -> str:
    """Message about a pod that fits nowhere."""
    refusal = refused(tried)
    return refusal.message(resolve(tried, refusal, first).message)


NOT_HELPFUL = "Preemption is not helpful for scheduling."
NO_VICTIMS = "No preemption victims found for incoming pod"


FULL, CORDONED = state("a", pod("x", {"cpu": "4"})), state("b", unschedulable=True)
ON_A = required_nodes({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]})
ONE_CPU = pod(requests={"cpu": "1"})
NO_CLAIMS = "preemption:"
NO_HOME = {"problem": 'persistentvolumeclaim "home" not found', "problem_filter": Filter.VOLUME_BINDING}


@all_of_them(
    "tried, text",
    {
        "no nodes": (attempt(cluster(), pod()), "no nodes available to schedule pods"),
        "too large": (
            attempt(cluster(state("a"), state("b")), pod(requests={"cpu": "5"})),
            f"0/2 nodes are available: 2 Insufficient cpu. {NO_CLAIMS} 0/2 nodes are available: 2 {NOT_HELPFUL}",
        ),
        "no devices": (
            attempt(cluster(state("a"), state("b", slices=[])), pod(), claim()),
            "0/2 nodes are available: 2 cannot allocate all claims. preemption: "
            f"0/2 nodes are available: 2 {NOT_HELPFUL}",
        ),
        "full, and nobody lesser there": (
            attempt(cluster(FULL, CORDONED), ONE_CPU),
            f"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. {NO_CLAIMS} "
            f"0/2 nodes are available: 1 {NO_VICTIMS}, 1 {NOT_HELPFUL}",
        ),
        "bound to a full node": (
            attempt(cluster(FULL, state("b")), pod(requests={"cpu": "1"}, affinity=ON_A)),
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
            f"{NO_CLAIMS} 0/2 nodes are available: 1 {NO_VICTIMS}, 1 {NOT_HELPFUL}",
        ),
        "no such class": (
            attempt(cluster(state("a"), classes=[]), pod(), claim()),
            f"0/1 nodes are available: request r: device class gpu does not exist. {NO_CLAIMS} "
            f"0/1 nodes are available: 1 {NOT_HELPFUL}",
        ),
        "no such volume": (
            attempt(cluster(state("a")), pod(), **NO_HOME),
            '0/1 nodes are available: persistentvolumeclaim "home" not found. not found',
        ),
        "peaceful pod": (
            attempt(cluster(FULL), pod(requests={"cpu": "1"}, priority=5, preemptionPolicy="Never")),
            f"0/1 nodes are available: 1 Insufficient cpu. {NO_CLAIMS} not eligible due to preemptionPolicy=Never.",
        ),
    },
)
def test_the_message_of_a_pod_that_fits_nowhere(tried, text):
    assert message_of(tried) == text


def test_claims_are_allocated_where_the_devices_are():
    view = cluster(state("a"), state("b"), slices=[gpus("b", "gpu-0", "gpu-1")])
    decision = attempt(view, pod(), claim("one"), claim("two")).decide()
    assert isinstance(decision, ChosenNode)
    assert decision.node_name == "b"
    given = [
        (each.name, [result.id.device for result in allocation.results]) for each, allocation in decision.allocations
    ]
    assert given == [("one", ["gpu-0"]), ("two", ["gpu-1"])]


def test_devices_in_use_are_not_given_again():
    taken = claim("taken", on="a", reserved_for=("x",))
    view = cluster(state("a"), slices=[gpus("a", "gpu-0")], claims=[taken])
    assert message_of(attempt(view, pod(), claim())).startswith(
        "0/1 nodes are available: 1 cannot allocate all claims."
    )


def test_allocated_claims_bind_to_their_node():
    view = cluster(state("a"), state("b", pod("x", {"cpu": "3"})))
    decision = attempt(view, pod(requests={"cpu": "1"}), claim(on="b", reserved_for=("x",))).decide()
    assert decision == ChosenNode("b")


@all_of_them(
    "reserved_for, freed",
    {
        "nobody's": ((), True),
        "its own": (("pod",), True),
        "another's": (("other",), False),
        "shared": (("pod", "other"), False),
    },
)
def test_idle_claim_elsewhere_is_given_back(reserved_for, freed):
    shared = claim(on="gone", reserved_for=reserved_for)
    tried = attempt(cluster(state("a")), pod(), shared)
    refusal = refused(tried)
    assert "1 resourceclaim not available on the node" in refusal.message()
    resolution = resolve(tried, refusal, first)
    assert (resolution.deallocate is shared) is freed
    words = "deallocation of ResourceClaim completed, " if freed else ""
    assert resolution.message.startswith(f"{words}preemption: ")


def test_error_on_any_device_ends_the_attempt():
    selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].missing == "x"'}}
    view = cluster(state("a"), state("b"), slices=[gpus("b", "gpu-0")])
    decision = attempt(view, pod(), claim(selectors=[selector])).decide()
    assert isinstance(decision, Failure)
    assert decision.message.startswith('running "DynamicResources" filter plugin: claim default/claim')
    assert decision.message.endswith("no such key: missing")


def test_unknown_selectors_are_said_and_not_guessed():
    selector = {"cel": {"expression": 'authorizer.path("/x").check("get").allowed()'}}
    decision = attempt(cluster(state("a"), slices=[gpus("a", "gpu-0")]), pod(), claim(selectors=[selector])).decide()
    assert isinstance(decision, Failure)


def test_binding_conditions_are_said_and_not_guessed():
    conditions = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    view = cluster(state("a"), slices=[gpus("a", "gpu-0", **conditions)])
    refusal = refused(attempt(view, pod(), claim()))
    assert refusal.filters == {Filter.NOT_MODELLED}
    assert "cannot decide: it does not wait for binding conditions" in refusal.message()


# --- preemption ----------------------------------------------------------------------------------------------------


def cleared(tried: SchedulingAttempt) -> SchedulerPreemption | None:
    resolution = resolve(tried, refused(tried), first)
    assert (resolution.message == "") is (resolution.preemption is not None)
    return resolution.preemption


def lower(name: str, cpu: str = "2", priority: int = 0, start: str = "2026-01-01T00:00:00Z", **spec: Any):
    return pod(name, {"cpu": cpu}, priority=priority, status={"startTime": start, "phase": "Running"}, **spec)


def names(preemption: SchedulerPreemption | None) -> tuple[str, list[str]]:
    assert preemption is not None
    return preemption.node_name, [victim.name for victim in preemption.victims]


VIP = pod("vip", {"cpu": "2"}, priority=100)


JANUARY, FEBRUARY, MARCH = (f"2026-0{month}-01T00:00:00Z" for month in (1, 2, 3))


@all_of_them(
    "states, expected",
    {
        "lost least": ([state("a", lower("old", start=JANUARY), lower("new", start=FEBRUARY))], ("a", ["new"])),
        "the least": ([state("a", lower("p5", priority=5), lower("p1", priority=1))], ("a", ["p1"])),
        "node of the least": ([state("a", lower("p5", "4", 5)), state("b", lower("p1", "4", 1))], ("b", ["p1"])),
        "equals: the sum of priorities": (
            [state("a", lower("a1", "1", 5), lower("a2", "3", 1)), state("b", lower("b1", "4", 1))],
            ("a", ["a2"]),
        ),
        "first of equals": (
            [state("a", lower("a1", "2", -5), lower("a2", "2", -5)), state("b", lower("b1", "4", -5))],
            ("a", ["a2"]),
        ),
        "node of the latest victim": (
            [state("a", lower("a1", "4", start=JANUARY)), state("b", lower("b1", "4", start=MARCH))],
            ("b", ["b1"]),
        ),
    },
)
def test_victims(states, expected):
    assert names(cleared(attempt(cluster(*states), VIP))) == expected


def test_equals_are_not_preempted():
    tried = attempt(cluster(state("a", lower("peer", "4", 100))), VIP)
    assert cleared(tried) is None
    assert NO_VICTIMS in message_of(tried)


@pytest.mark.promise("The simulator knows that preemption frees no device.")
def test_preemption_never_frees_devices():
    """The victim's claim counts as allocated, so clearing its node would not help."""
    taken = claim("taken", on="a", reserved_for=("holder",))
    view = cluster(state("a", lower("holder", "4")), slices=[gpus("a", "gpu-0")], claims=[taken])
    tried = attempt(view, VIP, claim())
    assert message_of(tried) == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        "0/1 nodes are available: 1 cannot allocate all claims."
    )


def test_handover_preempts_the_holder_for_cpu():
    """A pod that names the holder's own claim preempts the holder."""
    shared = claim(on="a", reserved_for=("holder",))
    view = cluster(state("a", lower("holder", "4")), state("b"), slices=[gpus("a", "gpu-0")], claims=[shared])
    assert names(cleared(attempt(view, VIP, shared))) == ("a", ["holder"])


def test_nominated_node_comes_first():
    candidate = pod("vip", {"cpu": "1"}, priority=100, status={"nominatedNodeName": "b"})
    decision = attempt(cluster(state("a"), state("b", lower("x", "3"))), candidate).decide()
    assert decision == ChosenNode("b")


@all_of_them("priority, fits", {"lesser pod does not fit": (0, False), "greater does": (200, True)})
def test_capacity_that_is_being_cleared_is_for_the_nominated_pod(priority, fits):
    nominated = pod("vip", {"cpu": "4"}, priority=100)
    view = cluster(state("a"), nominated={"a": [nominated]})
    decision = attempt(view, pod("late", {"cpu": "1"}, priority=priority)).decide()
    assert isinstance(decision, ChosenNode) is fits


def test_a_preemptor_waits_for_victims_that_are_ending():
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim = replace(pod("victim", {"cpu": "4"}, status={"conditions": [disrupted]}), is_deleted=True)
    candidate = pod("vip", {"cpu": "2"}, priority=100, status={"nominatedNodeName": "a"})
    tried = attempt(cluster(state("a", victim)), candidate)
    assert message_of(tried).endswith("preemption: not eligible due to a terminating pod on the nominated node.")
