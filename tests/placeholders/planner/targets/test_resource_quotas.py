"""ResourceQuotas: the counted resources, the rest, and the capacity that placeholders leave for users' servers."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.model.objects import DeviceClass, ResourceClaim
from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.targets.limits import claim_amounts, pod_amounts, quota_of
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.placeholders.planner.counted_quota import CLAIMS, DEVICES, PRIORITY_CLASS, Counting, quota
from tests.placeholders.planner.objects import GPU, PLAIN, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub

PAIR = user_shape({"gpu": gpu_claim(count=2)})


def number(world: World, shape: Shape) -> int:
    return world.number(shape)


# --- the rest of a quota, and its scope ------------------------------------------------------------------------------


def test_the_rest_of_a_quota() -> None:
    found = quota_of(
        quota({"pods": "10", "requests.cpu": "4", "memory": "1Gi"}, {"pods": "3", "requests.cpu": "4500m"}), ""
    )
    assert found.left == {"pods": 7 * NANO_PER_UNIT, "requests.cpu": -NANO_PER_UNIT // 2, "memory": 0}
    assert found.uncounted == {"memory"}
    assert quota_of(quota({"pods": "10"}), "").left == {"pods": 0}, "nothing is counted yet"
    assert quota_of(quota({"pods": "x"}, {"pods": "1"}), "").left == {}, "the API server admits none"


def priority(operator: str, *values: str) -> dict[str, Any]:
    rule = {"scopeName": "PriorityClass", "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [rule]}}


def test_scopes() -> None:
    mine = PRIORITY_CLASS
    rows: tuple[tuple[dict[str, Any], str, str], ...] = (
        ({}, mine, "placeholders servers claims"),
        (priority("In", mine), mine, "placeholders"),
        (priority("In", "other"), mine, ""),
        (priority("NotIn", mine), mine, ""),
        (priority("NotIn", "other"), mine, "placeholders"),
        (priority("Exists"), mine, "placeholders"),
        (priority("Exists"), "", ""),
        (priority("DoesNotExist"), "", "placeholders"),
        (priority("Sideways"), "", ""),  # an operator of the future
        ({"scopes": ["PriorityClass"]}, mine, "placeholders"),
        ({"scopes": ["NotTerminating"]}, "", "placeholders servers"),
        ({"scopes": ["Terminating"]}, "", ""),
        ({"scopes": ["BestEffort"]}, "", "placeholders servers"),
        ({"scopes": ["BestEffort", "NotBestEffort"]}, "", ""),
        ({"scopes": ["CrossNamespacePodAffinity"]}, "", ""),
        ({"scopes": ["Future"]}, "", ""),
    )
    counted = {}
    for spec, priority_class, _ in rows:
        found = quota_of(quota({"pods": "1"}, {}, **spec), priority_class)
        parts = {"placeholders": found.for_placeholders, "servers": found.for_servers, "claims": found.for_claims}
        counted[f"{spec} {priority_class}"] = " ".join(name for name, counts in parts.items() if counts)
    assert counted == {f"{spec} {priority_class}": expected for spec, priority_class, expected in rows}


def test_best_effort() -> None:
    some, none = {"cpu": Quantity.parse("1")}, {"cpu": Quantity.parse("0")}
    for scope, expected in (("BestEffort", [False, True]), ("NotBestEffort", [True, False])):
        found = quota_of(quota({"pods": "1"}, {}, scopes=[scope]), "")
        assert [found.counts_pods(some), found.counts_pods(none)] == expected


def test_servers_of_other_namespaces_do_not_count() -> None:
    assert not quota_of(quota({"pods": "1"}, {}), "", has_servers=False).for_servers


def test_the_resources_that_a_pod_counts() -> None:
    requests = {
        name: Quantity.parse(amount)
        for name, amount in (("cpu", "500m"), ("memory", "1Gi"), ("example.com/gpu", "2"), ("hugepages-2Mi", "4Mi"))
    }
    found = {name: str(Quantity(amount)) for name, amount in pod_amounts(requests).items()}
    assert found == {
        "pods": "1",
        "count/pods": "1",
        "cpu": "500m",
        "requests.cpu": "500m",
        "memory": "1073741824",
        "requests.memory": "1073741824",
        "requests.example.com/gpu": "2",
        "hugepages-2Mi": "4194304",
        "requests.hugepages-2Mi": "4194304",
    }


def test_the_resources_that_claims_count() -> None:
    """Alternatives count as the most of each class; "all devices" counts as the most that a claim can have."""
    first = [
        {"name": "a", "deviceClassName": "one", "count": 3},
        {"name": "b", "deviceClassName": "one"},
        {"name": "c", "deviceClassName": "two"},
    ]
    requests = [
        {"name": "x", "firstAvailable": first},
        {"name": "y", "exactly": {"deviceClassName": "one", "count": 2}},
        {"name": "z", "exactly": {"deviceClassName": "three", "allocationMode": "All"}},
    ]
    claim = ResourceClaim.from_json({"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}})
    classes = {"two": DeviceClass("two", extended_resource_name="example.com/two")}
    found = {name: amount // NANO_PER_UNIT for name, amount in claim_amounts([claim], classes).items()}
    devices = {"one": 5, "two": 1, "three": 32}
    assert found == {
        CLAIMS: 1,
        **{f"{name}.deviceclass.resource.k8s.io/devices": count for name, count in devices.items()},
        **{f"requests.deviceclass.resource.kubernetes.io/{name}": count for name, count in devices.items()},
        "requests.example.com/two": 1,
    }
    of_server = claim_amounts([claim], {}, from_templates=True)
    assert of_server["count/resourceclaimtemplates.resource.k8s.io"] == NANO_PER_UNIT


# --- what is created -------------------------------------------------------------------------------------------------


def test_a_quota_limits_placeholders_and_leaves_capacity_for_a_server() -> None:
    rows = (
        ("pods", "5", 4),
        ("count/pods", "5", 4),
        ("requests.cpu", "3500m", 2),
        ("memory", "4Gi", 3),
        (CLAIMS, "4", 3),
        (DEVICES, "3", 2),
        ("other.deviceclass.resource.k8s.io/devices", "0", 6),
        ("services", "0", 6),
        ("pods", "1", 0),
    )
    found, expected = {}, {}
    for name, most, allowed in rows:
        world = hub((GPU, 6, 9))
        world.node("a", gpus=9)
        Counting(world, {name: most})
        world.run(minutes=1)
        denial = world.last.limited.get(GPU.id)
        found[name, most] = world.number(GPU), denial and denial.sentence("gpu")
        sentence = (
            f"Placeholders of gpu: 6 are wanted, {allowed} are allowed by ResourceQuota 'q' "
            f"(at most {most} of {name}), which leaves capacity for users' servers."
        )
        expected[name, most] = allowed, sentence if allowed < 6 else None
    assert found == expected


def test_users_count_and_always_fit() -> None:
    """A user comes and goes; `Counting` proves that the API server would refuse neither pod."""
    world = hub((GPU, 6, 9))
    world.node("a", "40", gpus=20)
    Counting(world, {"pods": "8"})
    for step in range(7):
        world.run(minutes=1)
        assert world.number(GPU) == min(6, 8 - step - 1)
        if step < 6:
            world.user(f"user-{step}", {"gpu": gpu_claim()})
    for step in range(6):
        world.leave(f"user-{step}")
    world.run(minutes=1)
    assert world.number(GPU) == 6


def test_capacity_for_a_server_of_each_shape_with_pending_users() -> None:
    world = hub((GPU, 6, 9), (PAIR, 0, 9))
    world.node("a", "40", gpus=20)
    Counting(world, {DEVICES: "8"})
    world.run(minutes=1)
    assert world.number(GPU) == 6
    world.user("bob", {"gpu": gpu_claim(count=2)})
    world.refused["bob"] = "0/1 nodes are available"
    for key in list(world.view().placeholders):
        world.remove_pod(key)
    world.run(minutes=0.2, every_seconds=1)
    # Capacity is left for two devices of a server like Bob's and one of a server of this shape.
    assert world.number(GPU) == 5


def test_a_quota_for_placeholders_alone_is_used_up() -> None:
    world = hub((PLAIN, 6, 9))
    world.node("a", "40")
    Counting(world, {"pods": "4"}, **priority("In", PRIORITY_CLASS))
    world.run(minutes=1)
    assert world.number(PLAIN) == 4


def test_placeholders_for_pending_servers_use_the_last_capacity() -> None:
    """Without placeholders the autoscaler adds no node, and the servers are pending for ever."""
    world = hub((GPU, 2, 9))
    world.users(("ada", "bob", "cy"), {"gpu": gpu_claim()})
    Counting(world, {"pods": "4"})
    world.run(minutes=1)
    assert world.number(GPU) == 1
    (made,) = world.actions(CreatePlaceholder)
    assert made.for_pending_pod is not None
    sentence = world.last.limited[GPU.id].sentence("gpu")
    assert sentence == (
        "Placeholders of gpu: 2 are wanted, 1 is allowed by ResourceQuota 'q' (at most 4 of pods), which leaves capacity for "
        "users' servers."
    )


def test_pods_that_are_not_counted_yet_are_not_forgotten() -> None:
    """The watch of pods may be ahead of the watch of quotas."""
    world = hub((PLAIN, 6, 9))
    world.node("a", "40")
    late = quota_of(quota({"pods": "4"}, {"pods": "0"}), "")
    world.quotas = lambda: (late,)
    for _ in range(20):
        world.decide()
        world.pass_time(seconds=0.1)
    assert world.number(PLAIN) == 3
    assert not world.ended(Cause.SURPLUS)
