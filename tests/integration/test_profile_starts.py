"""Starts of servers whose claims are more than one request: DRASpawner makes, leaves alone or explains them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cluster.claim_names import own_claim_names
from tests.integration.faulty_hub import Faulty

SHARE_CLASS = "gpu-share.example.com"


def share(name: str) -> dict[str, Any]:
    exactly = {"deviceClassName": SHARE_CLASS, "capacity": {"requests": {"memory": "5Gi"}}}
    return {"devices": {"requests": [{"name": name, "exactly": exactly}]}}


def foreign(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def test_objects_of_others_are_used_and_stay(faulty: Faulty):
    cluster = faulty.cluster
    await cluster.publish(
        foreign("ResourceClaimTemplate", "imex-channel", {"spec": share("channel")}),
        foreign("ResourceClaim", "team-gpu", share("gpu")),
    )
    faulty.side.spawner_config.device_claims = {"channel": {"template": "imex-channel"}, "team": {"claim": "team-gpu"}}
    assert await faulty.spawn() is None
    assert faulty.requests() == ["create pods"]
    pod = await faulty.pod()
    assert pod["spec"]["resourceClaims"] == [
        {"name": "channel", "resourceClaimTemplateName": "imex-channel"},
        {"name": "team", "resourceClaimName": "team-gpu"},
    ]
    await faulty.stop()
    await cluster.wait_gone(cluster.path("pods"))
    assert faulty.requests() == ["create pods", "delete pods"]
    assert "team-gpu" in {item["metadata"]["name"] for item in await faulty.items("resourceclaims")}
    (left,) = await faulty.items("resourceclaimtemplates")
    assert (left["metadata"]["name"], left["metadata"].get("ownerReferences")) == ("imex-channel", None)


async def test_an_alternative_without_class_is_refused_with_a_sentence(faulty: Faulty):
    """The scheduler wants the classes of all alternatives to exist; waiting cannot help."""
    alternatives = {"big": {"device_class": "no-such.example.com"}, "share": {"device_class": SHARE_CLASS}}
    faulty.side.spawner_config.device_claims = {"gpu": {"first_available": alternatives}}
    error = await faulty.spawn()
    assert "a kind of device that this cluster does not have" in str(error)
    await faulty.nothing_is_left()


@pytest.mark.promise("Where the first alternative is not free, a server gets the second.")
async def test_the_second_alternative_is_taken_where_the_first_is_not_free(faulty: Faulty):
    alternatives = {
        "big": {"device_class": SHARE_CLASS, "min_memory": "200Gi"},
        "share": {"device_class": SHARE_CLASS, "capacity": {"memory": "10Gi"}},
    }
    faulty.side.spawner_config.device_claims = {"gpu": {"first_available": alternatives}}
    assert await faulty.spawn() is None
    (claim,) = await faulty.items("resourceclaims")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["request"], result["consumedCapacity"]) == ("gpu/share", {"memory": "10Gi"})
    await faulty.stop_last()


async def test_the_reason_why_no_alternative_is_free_is_shown(faulty: Faulty):
    alternatives = {
        "big": {"device_class": SHARE_CLASS, "capacity": {"memory": "200Gi"}},
        "huge": {"device_class": SHARE_CLASS, "capacity": {"memory": "400Gi"}},
    }
    faulty.side.spawner_config.device_claims = {"gpu": {"first_available": alternatives}}
    error = await faulty.give_up(text="no device gives a share of ")
    assert "Gave up after 90 seconds." in str(error)
    assert "no device gives a share of " in str(error)
    await faulty.nothing_is_left()


async def test_one_template_under_two_names_gives_two_claims(faulty: Faulty):
    cluster = faulty.cluster
    await cluster.publish(foreign("ResourceClaimTemplate", "channel", {"spec": share("channel")}))
    faulty.side.spawner_config.device_claims = {"first": {"template": "channel"}, "second": {"template": "channel"}}
    starting = asyncio.create_task(faulty.spawn())
    await own_claim_names(cluster, [await cluster.wait_for(cluster.path("pods", "jupyter-ada"))])
    assert await starting is None
    claims = await faulty.items("resourceclaims")
    assert [len(claim["status"]["reservedFor"]) for claim in claims] == [1, 1]
    await faulty.stop()
    await cluster.wait_gone(cluster.path("resourceclaims"))
