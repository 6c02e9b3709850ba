"""Which claims are smaller than others, and which smaller choice is offered."""

import pytest

from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.smaller_choice import claims_size, free_smaller_choice, is_smaller
from tests.all_of_them import all_of_them
from tests.integration.devices import classes, node_with, shareable
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of
from tests.spawner.service_stand_in import ServiceStandIn, profile_items, service_of_the_hub


def specs(count=1, *, kind="gpu", claim="gpu", mode="ExactCount", **capacity):
    exactly = {"deviceClassName": kind, "allocationMode": mode, "count": count}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {claim: {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


@all_of_them(
    "one, other, smaller",
    {
        "smaller share": (specs(memory="5Gi"), specs(memory="10Gi"), True),
        "same": (specs(memory="10Gi"), specs(memory="10Gi"), False),
        "larger share": (specs(memory="15Gi"), specs(memory="10Gi"), False),
        "share of a whole one": (specs(memory="5Gi"), specs(), True),
        "whole instead of a share": (specs(), specs(memory="5Gi"), False),
        "fewer": (specs(1), specs(2), True),
        "another kind": (specs(1, kind="nic"), specs(2), False),
        "another claim": (specs(1, claim="nic"), specs(2), False),
        "one claim less": (specs(), {**specs(), **specs(claim="nic")}, True),
        "fewer but larger": (specs(1, memory="20Gi"), specs(2, memory="10Gi"), False),
        "nothing": ({}, specs(), False),
    },
)
def test_smaller(one, other, smaller):
    size, other_size = claims_size(one), claims_size(other)
    assert size is not None
    assert other_size is not None
    assert is_smaller(size, other_size) is smaller


@all_of_them(
    "unknown",
    {
        "all of a node": specs(mode="All"),
        "no amount": specs(memory="much"),
        "alternatives": {"gpu": {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "a"}]}]}}},
    },
)
def test_claims_that_cannot_be_compared(unknown):
    assert claims_size(unknown) is None


CLASS = "gpu-share.example.com"


def profile(slug, memory, **more):
    claims = {"gpu": {"device_class": CLASS, "capacity": {"memory": memory}}}
    return {"display_name": slug, "slug": slug, "kubespawner_override": {"device_claims": claims, **more}}


def own(*sizes):
    choices = {
        size: {
            "display_name": size,
            "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": size}}}},
        }
        for size in sizes
    }
    images = {name: {"display_name": name} for name in ("a", "b")}
    options = {
        "memory": {"display_name": "Memory", "choices": choices},
        "image": {"display_name": "Image", "choices": images},
    }
    return {**profile("own", "40Gi"), "profile_options": options}


FREE_CHOICES = {
    "the largest": ({"own/memory=10Gi": "free", "own/memory=20Gi": "free"}, "own/memory=20Gi"),
    "of other needs": ({"own/memory=20Gi": "needs-node", "other": "ready"}, "other"),
    "rather of the same needs": ({"own/memory=10Gi": "free", "other": "ready"}, "own/memory=10Gi"),
    "nothing is free": ({"own/memory=20Gi": "after-preemption", "other": "never"}, None),
    "not known to the service": ({}, "own/memory=20Gi"),
}


@pytest.mark.promise("A user who waits is offered a smaller choice that is free.")
async def test_the_service_is_asked_for_free_choices(embedded_cluster):
    """According to the hub itself, all 40Gi are free."""
    await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    pod = {"metadata": {"name": "jupyter-ada"}, "spec": {"containers": [{"name": "notebook"}]}}
    found = {}
    for row, (states, _) in FREE_CHOICES.items():
        with kubernetes_of(embedded_cluster.hub_kubeconfig):
            side = HubSide(embedded_cluster.hub_kubeconfig, embedded_cluster.namespace)
            side.spawner_config.profile_list = [own("40Gi", "20Gi", "10Gi"), profile("other", "30Gi", mem_limit="1G")]
            spawner = side.user("ada").spawner
            spawner.user_options = {"profile": "own", "memory": "40Gi"}
            async with ServiceStandIn().listening() as service:

                async def answer(query, states=states):
                    return profile_items(**{key: each for key, each in states.items() if query.get("name", key) == key})

                service.profiles = answer
                with service_of_the_hub(service.url):
                    # The search itself waits 0.4 s for this answer.
                    assert (await parts_of(spawner).form.availability.latest(60)).age_seconds is not None
                    choice = await free_smaller_choice(
                        parts_of(spawner).server,
                        parts_of(spawner).form.availability,
                        specs(memory="40Gi", kind=CLASS),
                        pod,
                    )
                    found[row] = choice.name if choice else None
            await end_hub_side()
    assert found == {row: name for row, (_, name) in FREE_CHOICES.items()}
