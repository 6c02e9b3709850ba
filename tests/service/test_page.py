"""Placeholders as people and programs see them."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.placeholders.controller.answers import availability
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.preemption import NO_CAPACITY
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable, whole
from tests.placeholders.controller.objects import SHARE, WHOLE, node, prepare, shape, user_pod
from tests.polling import eventually
from tests.service.replica import Replica, publish_shapes, replica, server_objects, set_up
from tests.set_clock import SetClock

GPU = shape(WHOLE)
PART = shape(SHARE)
HUGE = shape({}, cpu="10000")
EVIL = "<script>alert(1)</script>"


def text_of(page: str) -> str:
    """The visible text of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.mark.promise("The page and the API show who uses which device.")
async def test_page_and_answers(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1"), shareable("gpu-2")))
    sizes = [f"gpu-slice/memory={each}" for each in ("40Gi", "5Gi", "small")]
    shapes = {"gpu-whole": GPU, "gpu-slice": PART, **dict.fromkeys(sizes, PART), "huge": HUGE}
    await publish_shapes(cluster, shapes, {"broken": EVIL})
    placeholders = {"gpu-whole": {"min": 2}, "gpu-slice": {"min": 1, "max": 3, "floor": 1}}
    async with replica(cluster, placeholders=placeholders, reservation_seconds=600.0) as service:
        await service.until_warm(GPU, 2)
        await service.until_warm(PART, 1)
        answer = await service.place(GPU, "jupyter-ada")
        # A replacement is made, for which there is no device.
        await service.until(lambda: any(each.is_pending for each in service.placeholders().values()), "one more")
        await service.decide(2)
        text = text_of(await service.get("page"))
        assert "placeholder, reserved for jupyter-ada 100 %" in text
        page = await service.get("placeholders-page")
        assert "<script>" not in page
        text = text_of(page)
        assert "pending target 2, running 2 1 pending, 1 warm, 1 reserved; 0 in use At least 2" in text
        assert "broken left out: &lt;script&gt;" in text
        assert "reserved for jupyter-ada until" in text
        assert "and 3 with the same needs gpu-slice/memory=" in text
        assert "warm node-a it may run on no other node target 1, present 0" in text
        decisions = text_of(await service.get("decisions-page"))
        assert "create-placeholder" in decisions
        assert "target 2, present 0" in decisions
        placeholder = answer["claims"]["gpu"].removesuffix("-gpu")
        reason_text = f"placeholder {placeholder} on node node-a is reserved for it, with its devices, until"
        (reservation,) = (await service.get_json("decisions?kind=reserve-placeholder"))["items"]
        assert (reservation["subject"], reservation["code"]) == (f"Pod {cluster.namespace}/jupyter-ada", "ready")
        assert reservation["details"]["claim.gpu"] == answer["claims"]["gpu"]
        assert reservation["reason"].startswith(reason_text)
        assert reason_text in decisions
        assert (await service.ask({"shape": HUGE.id, "pod": "eve", "namespace": cluster.namespace}))[0] == 200
        (line,) = (await service.get_json("decisions?kind=refuse-reservation"))["items"]
        assert (line["subject"], line["code"]) == (f"Pod {cluster.namespace}/eve", "waits")
        assert line["reason"] in text_of(await service.get("decisions-page?search=eve"))
        assert "create-placeholder</td>" not in await service.get("decisions-page?search=eve")

        profiles = json.loads(await service.get("profiles"))
        assert (profiles["total"], profiles["problem"]) == (7, "")
        names = [each["name"] for each in profiles["items"]]
        assert names == ["broken", "gpu-slice", sizes[1], sizes[0], sizes[2], "gpu-whole", "huge"]
        by_name = {each["name"]: each for each in profiles["items"]}
        assert by_name["gpu-slice"]["replicas"] == {"min": 1, "max": 3, "floor": 1}
        assert by_name["gpu-slice/memory=small"]["replicas"] is None
        assert by_name["gpu-slice/memory=small"]["placeholders"]["warm"] == 1
        assert by_name["gpu-whole"]["placeholders"] == {
            "pending": 1, "starting": 0, "warm": 1, "reserved": 1, "terminating": 0
        }  # fmt: skip
        shown = json.loads(await service.get("placeholders"))
        reason = "no placeholder is evicted while one is pending"
        assert shown["safeguard"] == {"rule": "pending", "reason": reason, "holds_everything": False}
        assert shown["on_hold"] == ""
        assert reason in text
        reserved = [each for each in shown["items"] if each["reserved_for"]]
        assert [each["reserved_for"] for each in reserved] == ["jupyter-ada"]
        assert (reserved[0]["name"], reserved[0]["node"]) == (placeholder, "node-a")
        assert reserved[0]["claims"] == answer["claims"]
        assert reserved[0]["reserved_until"][:19] == answer["until"][:19]
        metrics = await service.get("metrics")
        for line in (
            'dra_spawner_placeholders{profile="gpu-whole",state="reserved"} 1.0',
            'dra_spawner_servers{profile="gpu-slice"} 0.0',
            'dra_spawner_placeholder_claims{state="reserved"} 1.0',
            'dra_spawner_evictions_held_total{rule="floor"} 0.0',
            "dra_spawner_handover_seconds_count 0.0",
            'dra_spawner_idle_device_seconds_total{class="gpu.example.com"} 0.0',
        ):
            assert line in metrics


async def test_combinations_with_placeholders_or_servers_are_listed(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0"), shareable("gpu-1")))
    wanted, used, idle = (shape(SHARE, cpu=cpu) for cpu in ("2", "3", "4"))
    shapes = {"gpu-slice": PART, "gpu-slice/a=1,b=1": wanted, "gpu-slice/a=1,b=2": used, "gpu-slice/a=2,b=1": idle}
    await publish_shapes(cluster, {**shapes, "gpu-slice/a=2,b=2": PART})
    placeholders = {"gpu-slice": {"min": 1}, "gpu-slice/b=1,a=1": {"min": 1}}
    async with replica(cluster, placeholders=placeholders) as service:
        await service.until_warm(wanted, 1)
        await service.until_warm(PART, 1)
        await cluster.publish(*server_objects("ada", used))
        await service.until_running("ada")
        listed = json.loads(await service.get("profiles"))["items"]
        assert [each["name"] for each in listed] == ["gpu-slice", "gpu-slice/a=1,b=1", "gpu-slice/a=1,b=2"]
        assert [each["replicas"] is not None for each in listed] == [True, True, False]
        assert [each["placeholders"]["warm"] for each in listed] == [1, 1, 0]
        (asked,) = json.loads(await service.get("profiles?name=gpu-slice/b=1,a=2"))["items"]
        assert (asked["name"], asked["shape"], asked["availability"]["state"]) == ("gpu-slice/a=2,b=1", idle.id, "free")
        assert {key: asked["availability"][key] for key in ("state", "wait")} == {"state": "free", "wait": None}
        assert asked["availability"]["sentence"] == "It starts now, as everything that it needs is free."
        metrics = await service.get("metrics")
        assert 'dra_spawner_placeholders{profile="gpu-slice/a=1,b=1",state="warm"} 1.0' in metrics
        assert 'dra_spawner_servers{profile="gpu-slice/a=1,b=2"} 1.0' in metrics
        # Launches are read again only after a while.
        clock = service.controller.now = SetClock(datetime.now(UTC))
        for profile in ("", "gpu-slice/a=1,b=2"):

            async def is_recorded(profile: str = profile) -> bool:
                clock.now += timedelta(seconds=21)
                timeline = await service.get_json(f"timeline?hours=1&profile={profile}")
                return sum(each["launches"] or 0 for each in timeline["items"]) == 1

            await eventually(is_recorded, "the launch is in the timeline", pause_seconds=0.2)
        timeline = await service.get_json("timeline?hours=1&profile=gpu-slice")
        past, coming = timeline["items"][:13], timeline["items"][13:]
        assert [each["launches"] for each in past] == [0] * 13
        assert {each["launches"] for each in coming} == {None}
        assert len(coming) in (5, 6)
        assert (timeline["step_minutes"], timeline["entries"], timeline["unknown_because"]) == (5, [], [])
        assert "a=2,b=1" not in metrics


@pytest.mark.promise("The page says why a placeholder is not warm yet.")
async def test_why_a_placeholder_is_not_warm_yet(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0"), images=()))
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1, "max": 1}}) as service:
        await service.until(lambda: any(each.node for each in service.placeholders().values()), "it has a node")
        (shown,) = json.loads(await service.get("placeholders"))["items"]
        assert (shown["state"], shown["stays_because"]) == ("starting", "")
        reason_text = "its node is not ready for users: 1 image to be pulled (example.com/notebook:1)"
        assert shown["starting_because"] == reason_text
        text = text_of(await service.get("page"))
        assert "node-a not for users yet: 1 image to be pulled (example.com/notebook:1)" in text
        assert "not for users yet an image or a device is missing" in text, "words about nodes are explained"
        assert reason_text in text_of(await service.get("placeholders-page"))
        await cluster.pull_image("node-a", "example.com/notebook:1")
        await service.until_warm(GPU, 1)
        (shown,) = json.loads(await service.get("placeholders"))["items"]
        assert (shown["state"], shown["starting_because"]) == ("warm", "")
        assert "node-a ready" in text_of(await service.get("page"))


@pytest.mark.promise("The page names each pending server with its cause.")
async def test_pending_servers_are_named_with_their_causes(cluster: ClusterUnderTest) -> None:
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0")))
    placeholders = {"gpu-whole": {"min": 0, "max": 1}}
    async with replica(cluster, placeholders=placeholders) as one, replica(cluster, placeholders=placeholders) as other:
        assert await pending_servers(one) == await pending_servers(other) == []
        await cluster.publish(
            user_pod("ada", {"gpu": {"resourceClaimName": "missing"}}),
            user_pod("eve", {}, cpu="10000"),
            user_pod("bob", {}, gates=["example.com/not-yet"]),
        )
        for each in (one, other):
            await each.until(lambda: len(each.controller.view().pending_users) == 3, "they are seen")  # noqa: B023 (awaited at once)
            await each.until(lambda: has_label(each, "node-a"), "the node is ready")  # noqa: B023 (awaited at once)
            assert await pending_servers(each) == [
                ("ada", 'resourceclaim.resource.k8s.io "missing" not found', False),
                ("bob", "held back by example.com/not-yet", False),
                ("eve", f"{NO_CAPACITY}: Insufficient cpu", True),
            ]
            text = text_of(await each.get("page"))
            assert "Pending servers" in text
            assert "No machine has enough memory or processors free." in text
            assert f"{NO_CAPACITY}: Insufficient cpu" in text
            metrics = await each.get("metrics")
            assert 'dra_spawner_pending_servers{profile="other"} 3.0' in metrics
            assert 'dra_spawner_servers{profile="other"} 0.0' in metrics, "they have no node"


async def pending_servers(service: Replica) -> list[tuple[str, str, bool]]:
    found = json.loads(await service.get("pending-servers"))
    assert found["total"] == len(found["items"])
    return sorted((each["name"], each["cause"], each["needs_node"]) for each in found["items"])


def has_label(service: Replica, name: str) -> bool:
    return names.IMAGES_READY in service.controller.watch.snapshot.nodes[name].node.labels


def is_attracting(service: Replica) -> bool:
    node = service.controller.watch.snapshot.nodes["node-a"].node
    pods = service.controller.watch.snapshot.pods.values()
    return names.ATTRACT in node.labels and all(pod.phase == "Running" for pod in pods)


async def test_availability_is_computed_once_for_all_callers(
    embedded_cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = embedded_cluster
    await set_up(
        cluster, {"gpu-whole": GPU, "gpu-slice": PART, "gpu-slice/memory=small": PART}, *node("node-a", whole("gpu-0"))
    )
    asked: list[str] = []

    def counting(view: View, policy: Policy, wanted: Shape, *more: Any) -> Placement:
        asked.append(wanted.id)
        return find_placement(view, policy, wanted, *more)

    monkeypatch.setattr(availability, "find_placement", counting)
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        await service.until_warm(GPU, 1)
        (placeholder,) = service.placeholders()
        await cluster.wait_running(placeholder.name)
        await service.until(lambda: is_attracting(service), "all labels are there")

        async def are_known() -> bool:
            asked.clear()
            await asyncio.gather(*(service.get("profiles") for _ in range(5)))
            return asked == []

        # The last changes of the start may still come.
        await eventually(are_known, "nothing is computed again without a change", shows=lambda: asked)
        await cluster.publish(*node("node-b"))
        await service.until(lambda: len(service.controller.watch.snapshot.nodes) == 2, "the node is seen")
        asked.clear()
        await asyncio.gather(*(service.get("profiles") for _ in range(5)))
        # Labels that the new node gets are changes, too. On a busy machine the answer before is given for a moment.
        while {GPU.id, PART.id} != set(asked):
            await service.get("profiles")
        assert len(asked) <= 2 * 5
