"""The page Today on a full cluster: who waits, for whose devices, what is wrong, and what was done."""

from __future__ import annotations

from datetime import timedelta

from dra_spawner import names
from dra_spawner.placeholders.controller.records.decision_text import KINDS_OF_DECISIONS
from dra_spawner.placeholders.lifecycle import IdleAction
from dra_spawner.placeholders.planner.targets.published_shapes import RefusedChoice
from dra_spawner.service.http.pages.today_page import DECISION_WORDS, TodayHandler, TodayPage
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.service.open_service import open_to_all
from tests.service.replica import publish_settings, publish_shapes, replica, server_objects, set_up

GPU = shape(WHOLE)
REFUSED = {"huge": RefusedChoice("profile huge.device_claims.gpu.count", "the node with most devices has 2")}
PAGES = [("today-page", open_to_all(TodayPage)), ("today-json", open_to_all(TodayHandler))]


def test_each_kind_of_decision_has_words() -> None:
    assert DECISION_WORDS.keys() == {*KINDS_OF_DECISIONS, *IdleAction}


async def test_pending_servers_and_users_of_their_devices(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    await publish_shapes(cluster, {"gpu-whole": GPU}, refused=REFUSED)
    await publish_settings(cluster)
    async with replica(cluster, placeholders={"gpu-whole": {"min": 0, "max": 3}}, more=PAGES) as service:
        text = await service.get("today-page")
        assert "No server waits." in text
        for name, user in (("jupyter-ada", "ada"), ("jupyter-bob", "<b>bob</b>")):
            *templates, pod = server_objects(name, GPU, WHOLE)
            pod["metadata"].setdefault("annotations", {})[names.USERNAME] = user
            await cluster.publish(*templates, pod)
            await service.until_running(name)
        await cluster.publish(*server_objects("jupyter-eve", GPU, WHOLE))
        await service.until_pending("jupyter-eve")
        begins = service.controller.now() + timedelta(hours=2)
        entry = {"users": "9 of gpu-whole", "begins": f"{begins:%Y-%m-%d %H:%M}", "name": "Physics <i>"}
        assert (await service.send("POST", "calendar-entries", entry))[0] == 201
        assert (await service.send("PUT", "settings/placeholders/gpu-whole", {"min": 0, "max": 2}))[0] == 200
        found = await service.get_json("today-json")
        (waiting,) = found["waiting"]
        assert (waiting["name"], found["all_waiting"]) == ("jupyter-eve", 1)
        assert waiting["sentence"] == "All devices of this kind are in use. The server starts as soon as one is free."
        assert [(each["user"], each["server"], each["node"]) for each in waiting["holders"]] == [
            ("ada", "jupyter-ada", "node-a"),
            ("<b>bob</b>", "jupyter-bob", "node-a"),
        ]
        assert {each["device"] for each in waiting["holders"]} == {"gpu-0", "gpu-1"}
        assert waiting["holders"][1]["link"] == "/nodes?search=%3Cb%3Ebob%3C/b%3E"
        assert [each["name"] for each in found["expected"]] == ["Physics <i>"]
        runner = service.context.scale_ahead
        assert runner is not None
        await runner.rehearsed.refresh()
        found = await service.get_json("today-json")
        (impossible,) = [each for each in found["wrong"] if "Physics <i>" in each["sentence"]]
        assert impossible["page"] == "calendar", "an entry that is not possible is said once"
        wrong = {each["sentence"]: each for each in found["wrong"]}
        never = wrong["Servers of huge cannot start: the node with most devices has 2."]
        assert (never["severity"], never["page"], never["where"]) == ("error", "doctor", REFUSED["huge"].path)
        assert [each["severity"] for each in found["wrong"]] == sorted(
            (each["severity"] for each in found["wrong"]), key=["error", "warning", "info"].index
        )
        assert {(each["change"], each["subject"]) for each in found["by_people"]} >= {("set numbers of", "gpu-whole")}
        text = await service.get("today-page")
        for said in ("&lt;b&gt;bob&lt;/b&gt;", "Physics &lt;i&gt;", "Servers of huge cannot start", "1 server waits"):
            assert said in text, said
        # A choice that the hub does not publish, as its servers share a claim or its values differ between users.
        *templates, pod = server_objects("jupyter-kim", GPU, WHOLE)
        pod["metadata"]["labels"][names.SHAPE] = "0123456789abcdef"
        await cluster.publish(*templates, pod)
        await service.until_pending("jupyter-kim")
        found = await service.get_json("today-json")
        assert {each["name"]: len(each["holders"]) for each in found["waiting"]} == {"jupyter-eve": 2, "jupyter-kim": 2}
        assert "<b>bob" not in text
        assert "<i>" not in text
