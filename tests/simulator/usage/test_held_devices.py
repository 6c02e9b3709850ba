"""The devices that a server holds: worked examples, the numbers computed by hand in the comments."""

from __future__ import annotations

from typing import Any

from dra_spawner import names
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.usage.held_devices import held_devices
from tests.all_of_them import all_of_them
from tests.dra.builders import DRIVER, device_json, make_slice, result, share
from tests.simulator.objects import node, pod
from tests.simulator.utilization_examples import CARD, ONE_SHARED, SHARED_PART, A, B, cards, claim, decoded, gpus

SERVER = pod("ada", nodeName="n1", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
OTHER = pod("bob", nodeName="n1", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
PLACEHOLDER = pod("bob", labels={names.COMPONENT: names.PLACEHOLDER}, nodeName="n1")
NIC = "nic.example.com"
FABRIC = make_slice("fabric", [device_json("x0")], driver=NIC, allNodes=True)


def consumers(*found: Any) -> tuple[Any, ...]:
    return tuple({"resource": "pods", "name": each.name, "uid": each.uid} for each in found)


@all_of_them("slices, results, expected", {
    "two whole devices of eight": ([gpus(8)], [result("d0"), result("d1")], {DRIVER: 2}),
    # 5 of 40 GiB.
    "a share": ([ONE_SHARED], [share("d0", memory="5Gi")], {DRIVER: 0.125}),
    # Memory 10/40, cores 4/8.
    "a partition": (cards(A, B, card=CARD), [result("a")], {DRIVER: 0.5}),
    # Half of a partition that has memory 10/40 and cores 4/8.
    "a share of a partition": (cards(SHARED_PART, card=CARD), [share("a", memory="5Gi")], {DRIVER: 0.25}),
    "admin access": ([gpus(8)], [result("d0", adminAccess=True)], {}),
    "a GPU, and a device of all nodes": (
        [gpus(1), FABRIC], [result("d0"), result("x0", driver=NIC)], {DRIVER: 1, NIC: 1},
    ),
    "a pool that is not published": ([], [result("d0")], None),
    "an incomplete pool": (cards(A, card=CARD)[:1], [result("a")], None),
})  # fmt: skip
def test_worked_examples(slices: list[Any], results: list[Any], expected: Any) -> None:
    snapshot = Snapshot([node("n1"), *map(decoded, slices), claim(*results), SERVER])
    assert held_devices(snapshot, SERVER) == expected


def test_not_yet_known_and_without_devices() -> None:
    snapshot = Snapshot([node("n1"), decoded(gpus(1)), claim(allocated=False), SERVER])
    assert held_devices(snapshot, SERVER) is None, "the claim is not allocated"
    assert held_devices(snapshot, pod("new")) is None, "the pod has no node"
    assert held_devices(snapshot, pod("plain", nodeName="n1")) == {}


def test_devices_by_extended_resources_are_held_by_the_claim_of_the_scheduler() -> None:
    """Such a pod names no claim; its status does, and before the claim is seen nothing is known."""
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []}}
    server = Pod.from_json(
        {"metadata": {"name": "ada", "namespace": "default"}, "spec": {"nodeName": "n1"}, "status": status}
    )
    tracked = claim(result("d0"), result("d1"), consumers=consumers(server))
    n1, devices = node("n1"), decoded(gpus(8))
    assert held_devices(Snapshot([n1, devices, tracked, server]), server) == {DRIVER: 2}
    assert held_devices(Snapshot([n1, devices, server]), server) is None


def test_a_shared_claim_is_divided_among_servers_and_not_with_the_placeholder_before_them() -> None:
    def held(other: Any) -> Any:
        tracked = claim(result("d0"), consumers=consumers(SERVER, other))
        return held_devices(Snapshot([node("n1"), decoded(gpus(1)), tracked, SERVER, other]), SERVER)

    assert held(OTHER) == {DRIVER: 0.5}
    assert held(PLACEHOLDER) == {DRIVER: 1}
