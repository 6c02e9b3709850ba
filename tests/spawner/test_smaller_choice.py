"""Which claims are smaller than others, and which smaller choice is offered."""

import pytest

from dra_spawner.spawner.smaller_choice import claims_size, free_smaller_choice, is_smaller
from tests.integration.devices import classes, node_with, shareable
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of
from tests.spawner.service_stand_in import ServiceStandIn, profile_items, service_of_the_hub


def specs(count=1, *, kind="gpu", claim="gpu", mode="ExactCount", **capacity):
    exactly = {"deviceClassName": kind, "allocationMode": mode, "count": count}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    return {claim: {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


@pytest.mark.parametrize(
    ("one", "other", "smaller"),
    [
        pytest.param(specs(memory="5Gi"), specs(memory="10Gi"), True, id="smaller share"),
        pytest.param(specs(memory="10Gi"), specs(memory="10Gi"), False, id="same"),
        pytest.param(specs(memory="15Gi"), specs(memory="10Gi"), False, id="larger share"),
        pytest.param(specs(memory="5Gi"), specs(), True, id="share of a whole one"),
        pytest.param(specs(), specs(memory="5Gi"), False, id="whole instead of a share"),
        pytest.param(specs(1), specs(2), True, id="fewer"),
        pytest.param(specs(1, kind="nic"), specs(2), False, id="another kind"),
        pytest.param(specs(1, claim="nic"), specs(2), False, id="another claim"),
        pytest.param(specs(), {**specs(), **specs(claim="nic")}, True, id="one claim less"),
        pytest.param(specs(1, memory="20Gi"), specs(2, memory="10Gi"), False, id="fewer but larger"),
        pytest.param({}, specs(), False, id="nothing"),
    ],
)
def test_smaller(one, other, smaller):
    size, other_size = claims_size(one), claims_size(other)
    assert size is not None
    assert other_size is not None
    assert is_smaller(size, other_size) is smaller


@pytest.mark.parametrize(
    "unknown",
    [
        specs(mode="All"),
        specs(memory="much"),
        {"gpu": {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "a"}]}]}}},
    ],
    ids=["all of a node", "no amount", "alternatives"],
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


@pytest.mark.parametrize(
    ("states", "name"),
    [
        pytest.param({"own/memory=10Gi": "free", "own/memory=20Gi": "free"}, "own/memory=20Gi", id="the largest"),
        pytest.param({"own/memory=20Gi": "needs-node", "other": "ready"}, "other", id="of other needs"),
        pytest.param({"own/memory=10Gi": "free", "other": "ready"}, "own/memory=10Gi", id="rather of the same needs"),
        pytest.param({"own/memory=20Gi": "after-preemption", "other": "never"}, None, id="nothing is free"),
        pytest.param({}, "own/memory=20Gi", id="not known to the service"),
    ],
)
async def test_the_service_is_asked_for_free_choices(embedded_cluster, states, name):
    """According to the hub itself, all 40Gi are free."""
    await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    with kubernetes_of(embedded_cluster.hub_kubeconfig):
        side = HubSide(embedded_cluster.hub_kubeconfig, embedded_cluster.namespace)
        side.spawner_config.profile_list = [own("40Gi", "20Gi", "10Gi"), profile("other", "30Gi", mem_limit="1G")]
        spawner = side.user("ada").spawner
        spawner.user_options = {"profile": "own", "memory": "40Gi"}
        pod = {"metadata": {"name": "jupyter-ada"}, "spec": {"containers": [{"name": "notebook"}]}}
        async with ServiceStandIn().listening() as service:

            async def answer(query):
                return profile_items(**{key: each for key, each in states.items() if query.get("name", key) == key})

            service.profiles = answer
            with service_of_the_hub(service.url):
                # The search itself waits 0.4 s for this answer.
                assert (await spawner.availability.latest(60)).age_seconds is not None
                found = await free_smaller_choice(spawner, specs(memory="40Gi", kind=CLASS), pod)
        await end_hub_side()
    assert (found.name if found else None) == name
