"""A placeholder that somebody deletes by force while a server waits for its end is told, in virtual time."""

from __future__ import annotations

from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.controller.round.forced_ends import ForcedEnds
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.all_of_them import all_of_them
from tests.placeholders.controller.watched_cluster import WatchedCluster, stamp

OWN = frozenset(("hub",))
HELD = ObjectKey("hub", "jupyter-held")


def world(driver: str, *, server_claim: str = "warm") -> tuple[WatchedCluster, ForcedEnds]:
    """A placeholder that runs with a claim, and a server that names one."""
    cluster = WatchedCluster()
    policy = Policy({}, {}, drivers_prepare_for=drivers_prepare_for())
    found = ForcedEnds(cluster.watch(), lambda: policy, Namespaces(OWN, OWN, OWN))
    result = {"request": "gpu", "driver": driver, "pool": "a", "device": "d0"}
    request = {"name": "gpu", "exactly": {"deviceClassName": driver}}
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "warm", "namespace": "hub", "uid": "uid-warm"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    cluster.put(Kind.RESOURCE_CLAIM, claim)
    cluster.pod("held", "a", "Running", component=names.PLACEHOLDER, claim="warm")
    cluster.pod("ada", claim=server_claim)
    return cluster, found


def delete(cluster: WatchedCluster, *graces: int) -> None:
    """The API server shows each grace; then the object is gone."""
    for grace in graces:
        pod: dict[str, Any] = cluster.objects[Kind.POD, HELD]
        deleted = {"deletionTimestamp": stamp(cluster.now), "deletionGracePeriodSeconds": grace}
        cluster.put(Kind.POD, {**pod, "metadata": {**pod["metadata"], **deleted}})
    cluster.remove(Kind.POD, HELD.name)


@all_of_them(
    "driver, claim, graces, is_told",
    {
        "by force": ("dra.net", "warm", (0,), True),
        "as the service does": ("dra.net", "warm", (5, 0), False),
        "a GPU": ("gpu.nvidia.com", "warm", (0,), False),
        "no server has its claim": ("dra.net", "other", (0,), False),
    },
)
def test_what_is_told(driver: str, claim: str, graces: tuple[int, ...], is_told: bool) -> None:
    cluster, found = world(driver, server_claim=claim)
    delete(cluster, *graces)
    assert [each.split(":")[0] for each in found.problems()] == [
        "Server hub/jupyter-ada may lack its devices"
    ] * is_told


def test_until_the_server_is_started_again() -> None:
    cluster, found = world("dra.net")
    delete(cluster, 0)
    cluster.pod("ada", "a", "Running", claim="warm")
    assert len(found.problems()) == 1
    cluster.pod("ada", claim="warm", uid="second")
    assert found.problems() == ()
