"""Which choices of the form a user is offered whose server waits, with and without the service."""

from __future__ import annotations

import asyncio
import logging

import pytest

from dra_spawner.spawner.availability.client import AvailabilityClient
from dra_spawner.spawner.availability.form_choices import options_with
from dra_spawner.spawner.free_choices import free_choices, other_choices
from dra_spawner.spawner.placement.service_address import ServiceAddress
from dra_spawner.spawner.server_context import parts_of
from tests.integration.devices import classes, node_with, shareable
from tests.set_clock import SetClock
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of
from tests.spawner.service_stand_in import PREFIX, TOKEN, ServiceStandIn, profile_items, service_of_the_hub

LOG = logging.getLogger(__name__)

CLASS = "gpu-share.example.com"


def waits_for(memory):
    """Specs of the claims of a server that waits for a share."""
    exactly = {"deviceClassName": CLASS, "capacity": {"requests": {"memory": memory}}}
    return {"gpu": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}


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


HOSTILE = "<b onclick=alert(1)>CPU</b> &lt;script&gt;"
CPU = {"display_name": HOSTILE, "slug": "cpu"}
FREE_CHOICES = {
    "the largest of the smaller ones first": (
        {"own/memory=10Gi": "free", "own/memory=20Gi": "free"},
        ["own/memory=20Gi", "own/memory=10Gi"],
    ),
    "of other needs": ({"own/memory=20Gi": "needs-node", "other": "ready"}, ["other"]),
    "rather of the same needs": ({"own/memory=10Gi": "free", "other": "ready"}, ["own/memory=10Gi", "other"]),
    "another profile, without a device": ({"own": "free", "cpu": "free", "other": "waits"}, ["cpu"]),
    "not too many": (
        dict.fromkeys(("cpu", "other", "own/image=b", "own/memory=10Gi", "own/memory=20Gi"), "free"),
        ["own/memory=20Gi", "own/memory=10Gi", "other"],
    ),
    "nothing is free": ({"own/memory=20Gi": "after-preemption", "other": "never"}, []),
    "not known to the service": ({}, ["own/memory=20Gi", "own/memory=10Gi", "own/image=b"]),
}


def answering(states):
    async def answer(query):
        return profile_items(**{key: each for key, each in states.items() if query.get("name", key) == key})

    return answer


@pytest.mark.promise("A user who waits is offered what would start now.")
async def test_the_service_is_asked_for_free_choices(embedded_cluster):
    """According to the hub itself, all 40Gi are free."""
    await embedded_cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    pod = {"metadata": {"name": "jupyter-ada"}, "spec": {"containers": [{"name": "notebook"}]}}
    found = {}
    for row, (states, _) in FREE_CHOICES.items():
        with kubernetes_of(embedded_cluster.hub_kubeconfig):
            side = HubSide(embedded_cluster.hub_kubeconfig, embedded_cluster.namespace)
            others = [profile("other", "30Gi", mem_limit="1G"), CPU]
            side.spawner_config.profile_list = [own("40Gi", "20Gi", "10Gi"), *others]
            spawner = side.user("ada").spawner
            spawner.user_options = {"profile": "own", "memory": "40Gi"}
            server, form = parts_of(spawner).server, parts_of(spawner).form
            async with ServiceStandIn().listening() as service:
                service.profiles = answering(states)
                with service_of_the_hub(service.url):
                    # The search itself waits 0.4 s for this answer.
                    assert (await form.availability.latest(60)).age_seconds is not None
                    known = await other_choices(server, waits_for("40Gi"))
                    assert known.own == "own"
                    offered = await free_choices(server, form.availability, known, pod)
                    found[row] = [each.name for each in offered]
            await end_hub_side()
    assert found == {row: names for row, (_, names) in FREE_CHOICES.items()}


async def test_an_answer_of_some_seconds_ago_counts_while_the_service_is_slow(nowhere):
    """The page of a start asks every five seconds: offers that come and go would be none."""
    now, hangs = SetClock(100.0), asyncio.Event()

    async def answer(_):
        if now.now > 100:
            await hangs.wait()
        return profile_items(cpu="free")

    nowhere.spawner_config.profile_list = [own("40Gi", "20Gi"), CPU]
    spawner = nowhere.user("ada").spawner
    spawner.user_options = {"profile": "own", "memory": "40Gi"}
    server = parts_of(spawner).server
    known, offered = await other_choices(server, waits_for("40Gi")), []
    async with ServiceStandIn().listening() as service:
        service.profiles = answer
        client = AvailabilityClient(lambda: ServiceAddress(service.url + PREFIX, TOKEN), LOG, now)
        assert (await client.latest(60)).age_seconds == 0
        for now.now in (101.0, 112.0, 117.0):
            offered.append([each.name for each in await free_choices(server, client, known, {})])
        hangs.set()
    assert offered == [["cpu"], ["cpu"], []]


async def test_choices_of_a_form(nowhere):
    """Names are text, free text is none of the choices, and a form without profiles has nothing to offer."""
    side = nowhere
    side.spawner_config.profile_list = [own("40Gi", "20Gi"), CPU]
    spawner = side.user("ada").spawner
    waits = waits_for("40Gi")
    spawner.user_options = {"profile": "own", "memory": "20Gi", "image": "b"}
    found = await other_choices(parts_of(spawner).server, waits_for("20Gi"))
    assert found.own == "own/memory=20Gi,image=b"
    last = found.candidates[-1].choice
    assert (last.name, last.words) == ("cpu", "CPU <script>")
    assert {each.choice.name: dict(each.choice.options) for each in found.candidates}["own/image=b"] == {
        "profile": "own",
        "memory": "40Gi",
        "image": "b",
    }
    again = await other_choices(parts_of(side.user("eve", "x").spawner).server, waits)
    assert again.own == "own"
    for options in ({"profile": "own", "memory--unlisted-choice": "3Gi"}, {"profile": "gone"}, None):
        spawner.user_options = options
        assert (await other_choices(parts_of(spawner).server, waits)).own == ("own" if not options else ""), options
    side.spawner_config.profile_list = []
    assert (await other_choices(parts_of(side.user("bob").spawner).server, waits)).candidates == ()


async def test_a_hub_with_a_form_of_its_own(nowhere):
    """The form is the administrator's, and other code reads an option of it."""
    side = nowhere
    side.spawner_config.profile_list = [own("40Gi", "20Gi"), CPU]
    side.spawner_config.options_form = '<input name="course">'
    side.spawner_config.other_user_options = ["course"]
    spawner = side.user("ada").spawner
    spawner.user_options = {"profile": "own", "course": "a"}
    parts = parts_of(spawner)
    found = await other_choices(parts.server, waits_for("40Gi"))
    assert [each.choice.name for each in found.candidates] == ["own/memory=20Gi", "own/image=b", "cpu"]
    choices = await parts.form.choices_of_form()
    assert options_with(spawner.user_options, "cpu", choices) == {"profile": "cpu", "course": "a"}
