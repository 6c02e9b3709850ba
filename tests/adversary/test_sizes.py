"""Users and profiles that ask for more than a device has, or for less than nothing: nothing is created for them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dra_spawner.devcluster.demo.example_nodes import example_objects
from dra_spawner.dra.model.same_hardware import same_hardware
from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.planner.targets.shape_definition import DefinitionError, shape_from
from dra_spawner.profiles import ProfileError, compile_device_claims
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import SpawnRefused
from tests.adversary.quantities import OVERFLOWING
from tests.all_of_them import all_of_them
from tests.chart.browser_session import BrowserSession, error_in
from tests.cluster.under_test import ClusterUnderTest
from tests.dra.builders import device_json, make_slice
from tests.integration.faulty_hub import LEFT_BEHIND, Faulty, faulty_on
from tests.integration.hub_process import HubProcess
from tests.placeholders.planner.objects import GPU
from tests.polling import eventually
from tests.spawner.hub_side import HubSide

SHARE = "gpu-share.example.com"
NOTHING = ("0", "0Gi", "-1Gi", "-10e18", "1e4294967299")
#: No user should have to know these.
KUBERNETES_WORDS = re.compile(r"kube|claim|pod\b|int64|2\^|selector|DeviceClass|administrator", re.IGNORECASE)

#: The profiles of the demo, and one where users type.
CONFIG = """
from dra_spawner.devcluster.demo.profiles import EXAMPLE_PROFILES
def gpu(memory):
    return {"device_claims": {"gpu": {"device_class": "gpu-share.example.com", "capacity": {"memory": memory}}}}
typed = {"enabled": True, "display_name": "Other", "validation_regex": ".+", "kubespawner_override": gpu("{value}")}
sizes = {"display_name": "Memory", "choices": {"small": {"display_name": "5 GiB", "kubespawner_override": gpu("5Gi")}}}
c.DRASpawner.nodes_may_be_added = True
c.DRASpawner.profile_list = [
    *EXAMPLE_PROFILES,
    {"display_name": "Typed", "slug": "typed", "kubespawner_override": gpu("10Gi"),
     "profile_options": {"memory": {**sizes, "unlisted_choice": typed}}},
]
"""


@pytest.fixture
async def hub(cluster: ClusterUnderTest) -> AsyncIterator[HubProcess]:
    """The demo's devices and profiles in a real hub."""
    await cluster.publish(*example_objects())
    hub = HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, CONFIG)
    try:
        await hub.start()
        hub.let_forms_wait()
        yield hub
    finally:
        await hub.stop()


async def objects_of(cluster: ClusterUnderTest) -> list[str]:
    found = []
    for plural in LEFT_BEHIND:
        found += [each["metadata"]["name"] for each in (await cluster.admin.list(cluster.path(plural)))["items"]]
    return found


async def test_no_user_gets_more_than_a_device_has(cluster: ClusterUnderTest, hub: HubProcess) -> None:
    async with BrowserSession(hub.url, "eve") as browser:
        # The hub alone refuses: once with all sizes is enough.
        everything = (*OVERFLOWING, *NOTHING, "1n", "45Gi")
        sizes = everything if cluster.kind == "embedded" else ("10e399", "9223372036854775808", "0")
        for size in sizes:
            status, answer = await hub.refusal("ada", {"profile": "gpu-slice", "memory": size})
            assert status == 400, (size, answer)
            refused_plainly(answer["message"])
            if size not in ("1n", "45Gi"):
                options = {"profile": "typed", "memory": "unlisted-choice", "memory--unlisted-choice": size}
                status, answer = await hub.refusal("ada", options)
                assert status == 400, (size, answer)
                refused_plainly(answer["message"])
        slices = ({"profile": "gpu-slice", "memory": size} for size in ("9223372036854775807", "1n", *sizes[:2]))
        typed = {"profile": "typed", "memory": "unlisted-choice", "memory--unlisted-choice": "10e18"}
        for chosen in (*slices, typed):
            profile = chosen.pop("profile")
            fields = {f"profile-option-{profile}--{name}": value for name, value in chosen.items()}
            status, page = await browser.refusal(data={"profile": profile, **fields})
            assert status == 400, (chosen, page)
            refused_plainly(error_in(page))
    assert await objects_of(cluster) == []
    # A node with a larger device may be added: the server is pending.
    typed = {"profile": "typed", "memory": "unlisted-choice", "memory--unlisted-choice": "45Gi"}
    status, answer = await hub.spawn("dan", typed)
    assert status in (201, 202), answer
    await cluster.wait_event("jupyter-dan", "FailedScheduling", timeout_seconds=120)
    assert await consumed(cluster) == []
    # Two GPUs of 40 GiB: two users have them, and the third server is pending.
    for user, size in (("ada", "40Gi"), ("bob", "35Gi")):
        status, answer = await hub.spawn(user, {"profile": "gpu-slice", "memory": size})
        assert status in (201, 202), answer
    await eventually(lambda: some_allocated(cluster, 2), "two servers have their shares", within_seconds=120)
    status, answer = await hub.spawn("eve", {"profile": "gpu-slice", "memory": "10Gi"})
    assert status in (201, 202), answer
    await cluster.wait_event("jupyter-eve", "FailedScheduling", timeout_seconds=120)
    assert sorted(await consumed(cluster)) == [Quantity.parse("35Gi"), Quantity.parse("40Gi")]


def refused_plainly(sentence: str) -> None:
    """The user reads the problem in a sentence without words of Kubernetes."""
    assert re.search(r"Cannot start with these options|cannot be used", sentence), sentence
    assert not KUBERNETES_WORDS.search(sentence), sentence


async def consumed(cluster: ClusterUnderTest) -> list[Quantity]:
    """Consumed amount of each device, of all shares together."""
    total: dict[tuple[str, str], Quantity] = {}
    for claim in (await cluster.admin.list(cluster.path("resourceclaims")))["items"]:
        allocation = (claim.get("status") or {}).get("allocation") or {"devices": {"results": []}}
        for result in allocation["devices"]["results"]:
            device = (result["pool"], result["device"])
            total[device] = total.get(device, Quantity(0)) + Quantity.parse(result["consumedCapacity"]["memory"])
    return list(total.values())


async def some_allocated(cluster: ClusterUnderTest, count: int) -> bool:
    return len(await consumed(cluster)) >= count


# --- all ways into a claim ------------------------------------------------------------------------------------------


def raw(size: Any, *, alternatives: bool = False) -> dict[str, Any]:
    """A spec that asks for a size."""
    asked = {"deviceClassName": SHARE, "capacity": {"requests": {"memory": size}}}
    request = {"firstAvailable": [{"name": "a", **asked}]} if alternatives else {"exactly": asked}
    return {"devices": {"requests": [{"name": "r", **request}]}}


def companion(kind: str, size: Any) -> dict[str, Any]:
    spec = raw(size) if kind == "ResourceClaim" else {"spec": raw(size)}
    manifest = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": spec}
    entry = {"manifest": manifest, "resource": f"{kind.lower()}s"}
    return {"gpu": {"device_class": SHARE, "companions": {"more": entry}}}


WAYS = {
    "capacity": lambda size: {"gpu": {"device_class": SHARE, "capacity": {"memory": size}}},
    "long form": lambda size: {"a": {"requests": {"gpu": {"device_class": SHARE, "capacity": {"memory": size}}}}},
    "alternative": lambda size: {
        "gpu": {"first_available": {"a": {"device_class": SHARE, "capacity": {"memory": size}}}}
    },
    "min_memory": lambda size: {"gpu": {"device_class": SHARE, "min_memory": size}},
    "raw spec": lambda size: {"gpu": {"spec": raw(size)}},
    "raw alternatives": lambda size: {"gpu": {"spec": raw(size, alternatives=True)}},
    "shared": lambda size: {
        "gpu": {"device_class": SHARE, "capacity": {"memory": size}, "shared": {"by": "everybody"}}
    },
    "companion claim": lambda size: companion("ResourceClaim", size),
    "companion template": lambda size: companion("ResourceClaimTemplate", size),
}


@all_of_them("way", WAYS)
def test_no_way_into_a_profile_accepts_an_overflowing_size(way: Any) -> None:
    for size in (*OVERFLOWING, *NOTHING, 10**19, 2**63, 0, -1, "1e-99999999"):
        with pytest.raises(ProfileError) as error:
            compile_device_claims(way(size))
        (problem,) = error.value.problems
        assert problem.allowed == "a quantity above zero and of at most 4Ei, such as 10Gi or 500m"
        assert problem.found == repr(size)
    for size in ("10Gi", "500m", "4Ei", 1):
        compile_device_claims(way(size))


def test_a_published_shape_of_an_overflowing_size_is_broken() -> None:
    value = {"containers": list(GPU.containers), "node_fields": GPU.node_fields}
    for size in (*OVERFLOWING, *NOTHING):
        # A value that Kubernetes drops must not hide the others.
        for claim in (raw(size), {**raw(size), "spec": raw("10Gi")}, {"spec": raw(size)}):
            with pytest.raises(DefinitionError, match="above zero"):
                shape_from({**value, "claims": {"gpu": claim}})


# --- the last line of defence -----------------------------------------------------------------------------------------


class CarelessSpawner(DRASpawner):
    """A new way into the spec that forgot the rule."""

    way = "plan"

    async def load_user_options(self) -> None:
        await super().load_user_options()
        if self.way == "plan":
            assert parts_of(self).start.attempt.plan is not None
            spec: Any = parts_of(self).start.attempt.plan.claims[0].spec
            spec["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["memory"] = "10e18"

    async def get_pod_manifest(self) -> Any:
        pod = await super().get_pod_manifest()
        if self.way == "objects":
            assert parts_of(self).start.attempt.objects is not None
            manifest = parts_of(self).start.attempt.objects.templates["gpu"]
            manifest["spec"]["spec"] = raw("9223372036854775808")
        return pod


@pytest.mark.parametrize("way", ["plan", "objects"])
async def test_each_size_in_a_claim_is_checked_before_it_is_created(
    cluster: ClusterUnderTest, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CarelessSpawner, "way", way)
    async with faulty_on(cluster) as faulty:
        side = HubSide(faulty.side.kubeconfig, cluster.namespace, CarelessSpawner)
        side.spawner_config.device_claims = faulty.side.spawner_config.device_claims
        careless = Faulty(cluster, faulty.proxy, side)
        error = await careless.spawn()
        assert isinstance(error, SpawnRefused)
        assert str(error).startswith("The size '")
        assert not KUBERNETES_WORDS.search(str(error))
        assert [each for each in faulty.requests() if each.startswith("create")] == []
        assert await objects_of(cluster) == []


def test_a_driver_that_says_that_all_devices_are_one() -> None:
    """They are compared to a few only: the pairs grow as the devices do, not with their square."""
    names = [f"d{number}" for number in range(2_000)]
    same = {"uuid": {"string": "1"}, "parentUUID": {"string": "1"}}
    whole = {"uuid": {"string": "1"}}
    for attributes in (same, whole):
        devices = [
            device
            for begin in range(0, len(names), 100)
            for device in make_slice(
                devices=[device_json(name, attributes=attributes) for name in names[begin : begin + 100]]
            ).devices
        ]
        assert len(same_hardware(devices)) <= 8 * len(devices)
