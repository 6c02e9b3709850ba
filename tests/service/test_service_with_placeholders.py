"""The service with placeholders: it creates them for published shapes, and honours reservations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.service.http.api.placeholder_handlers import placeholders_json, profiles_json
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.example_objects import pod, share_template
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable, whole
from tests.placeholders.controller.objects import SHARE, WHOLE, node, prepare, shape
from tests.service.replica import Replica, publish_shapes, replica, set_up

GPU = shape(WHOLE)
PART = shape(SHARE)
PLAIN = shape({})
SHAPES = {"gpu-whole": GPU, "gpu-slice": PART, "plain": PLAIN}


@pytest.mark.promise("From five lines of configuration to a handover.")
async def test_from_the_configuration_to_a_handover(cluster: ClusterUnderTest) -> None:
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1"), shareable("gpu-2")))
    await publish_shapes(cluster, SHAPES, {"broken": "count must be from 1 to 32"})
    placeholders = {"gpu-whole": {"min": 1, "max": 3}, "plain": {"min": 1}, "tpu": {"min": 1}, "broken": {"min": 1}}
    async with replica(cluster, placeholders=placeholders) as service:
        await service.until_warm(GPU, 1)
        await service.until_warm(PLAIN, 1)
        assert set(service.context.problems()) == {
            "placeholders of tpu: there is no such choice; there are: gpu-slice, gpu-whole, plain.",
            "placeholders of broken: this choice is left out: count must be from 1 to 32.",
        }
        (placeholder,) = [each for each in placeholders_json(service.controller, service.context) if each["claims"]]
        assert (placeholder["profiles"], placeholder["node"], placeholder["state"]) == (["gpu-whole"], "node-a", "warm")
        assert placeholder["reason"] == "target 1, present 0"
        choices = {each["name"]: each for each in await profiles_json(service.context)}
        kinds = {name: (each["availability"] or {}).get("state") for name, each in choices.items()}
        assert kinds == {"gpu-whole": "ready", "gpu-slice": "free", "plain": "free", "broken": None}
        assert choices["broken"]["skipped_because"] == "count must be from 1 to 32"
        assert choices["gpu-whole"]["placeholders"]["warm"] == 1

        asked = datetime.now(UTC)
        answer = await service.place(GPU, "ada")
        assert (answer["state"], answer["node"]) == ("ready", "node-a")
        until = datetime.fromisoformat(answer["until"])
        assert asked + timedelta(seconds=29) <= until <= datetime.now(UTC) + timedelta(seconds=30)
        claim = answer["claims"]["gpu"]
        await service.start(GPU, "ada", WHOLE, answer)
        bound = await service.until_running("ada")
        assert bound["spec"]["nodeName"] == "node-a"
        # A new placeholder comes; the claim that was handed over stays the user's.
        await service.until(
            lambda: ObjectKey(cluster.namespace, claim) not in service.controller.view().holder_of,
            "the claim is handed over",
        )
        await service.until_warm(GPU, 1)
        claims = {
            each: metric_value(service, "dra_spawner_placeholder_claims", state=each) for each in ("free", "in_use")
        }
        assert claims == {"free": 1, "in_use": 1}
        assert metric_value(service, "dra_spawner_servers", profile="gpu-whole") == 1
        assert metric_value(service, "dra_spawner_placeholders_target", profile="gpu-whole", source="configured") == 1
        assert metric_value(service, "dra_spawner_placements_total", state="ready") == 1
        ended = "dra_spawner_evictions_total"
        await service.until(lambda: metric_value(service, ended, reason="handed-over") == 1, "it is counted")
        assert metric_value(service, "dra_spawner_handover_seconds_count") == 1
        waited = "dra_spawner_launch_wait_seconds_count"
        await service.until(
            lambda: metric_value(service, waited, profile="gpu-whole", outcome="hit") == 1, "its wait is counted"
        )
        assert metric_value(service, "dra_spawner_on_hold") == 0


@pytest.mark.promise("While decisions are on hold, no placeholder is reserved.")
async def test_no_placeholder_is_reserved_while_decisions_are_on_hold(
    embedded_cluster: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub goes on as if there were no service."""
    cluster = embedded_cluster
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        await service.until_warm(GPU, 1)
        monkeypatch.setattr(service.controller.watch, "staleness_seconds", lambda: 1200.0)
        body = {"shape": GPU.id, "pod": "ada", "namespace": cluster.namespace}
        status, answer = await service.ask(body)
        assert (status, answer["detail"]) == (
            503,
            "No placeholder is reserved at present: nothing is decided: the view of the cluster is 1200 seconds old.",
        )
        refused = service.context.decisions.newest(1, matches=lambda each: each.kind == "refuse-reservation")
        assert [(each.decision.code, each.decision.reason + ".") for each in refused] == [
            ("on-hold", answer["detail"][0].lower() + answer["detail"][1:])
        ]
        monkeypatch.undo()
        assert (await service.place(GPU, "ada"))["state"] == "ready"


async def test_a_service_that_packs_devices_names_one_and_says_why(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    devices = [{**shareable(f"gpu-{place}"), "attributes": {"uuid": {"string": f"GPU-{place}"}}} for place in range(3)]
    await set_up(cluster, SHAPES, *node("node-a", *devices))
    template = share_template("half", "20Gi")
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    uuid = 'device.attributes["gpu.example.com"].uuid == "GPU-1"'
    request["exactly"] |= {"deviceClassName": "gpu-share.example.com", "selectors": [{"cel": {"expression": uuid}}]}
    await cluster.publish(template, pod("half", ["true"], template="half"))
    await cluster.wait_running("half")

    def is_ready(service: Replica) -> bool:
        return names.IMAGES_READY in service.controller.watch.snapshot.nodes["node-a"].node.labels

    for packs in (False, True):
        async with replica(cluster, placeholders={"plain": {"min": 0, "max": 1}}, pack_devices=packs) as service:
            await service.until(lambda: service.controller.latest is not None, "it leads")
            await service.until(lambda: len(service.controller.watch.snapshot.claims) == 1, "it sees the claim")
            await service.until(lambda: PART.id in service.controller.policy.shapes, "it knows the shape")
            await service.until(partial(is_ready, service), "the node is ready")
            answer = await service.place(PART, "ada")
            decisions = (await service.get_json("decisions?kind=prefer-devices"))["items"]
        mark = {"driver": "gpu.example.com", "attributes": {"gpu.example.com/uuid": "GPU-1"}}
        assert answer["preferences"] == ({"gpu": {"gpu": [[mark]]}} if packs else {})
        why = "gpu-1 is in use already, with the least capacity left over"
        assert answer["reason"] == f"free on node node-a{f': {why}' if packs else ''}"
        assert [(each["reason"], each["node"]) for each in decisions] == ([(why, "node-a")] if packs else [])


def metric_value(service: Any, name: str, **wanted: str) -> float | None:
    value: float | None = service.context.registry.get_sample_value(name, wanted)
    return value


async def test_nothing_is_created_without_placeholders(cluster: ClusterUnderTest) -> None:
    """The service writes nothing, and reports no missing right."""
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    async with replica(cluster) as service:
        await service.until(lambda: service.controller.latest is not None, "it leads")
        assert service.context.decisions.count == 0
        assert service.context.problems() == ()
        status, answer = await service.ask({"shape": GPU.id, "pod": "ada", "namespace": cluster.namespace})
        assert (status, answer["kind"]) == (404, "unknown")
        found = await cluster.admin.get("/api/v1/nodes/node-a")
        assert not [each for each in found["metadata"]["labels"] if each.startswith("hub.jupyter.org/")]


async def test_published_shapes_stay_in_use_until_valid_ones_come(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        missing = f"the hub has not published its profiles yet (ConfigMap {names.SHAPES_CONFIG_MAP})"
        assert service.context.problems() == (f"Placeholders: {missing}.",)
        assert not service.placeholders()
        await publish_shapes(cluster, {"gpu-whole": GPU})
        await service.until_warm(GPU, 1)
        (before,) = service.placeholders()
        # A mishap of the hub ends nothing.
        path = f"/api/v1/namespaces/{cluster.namespace}/configmaps/{names.SHAPES_CONFIG_MAP}"
        await cluster.admin.patch(path, {"data": {"shapes.json": "{"}})
        await service.until(lambda: "is invalid" in service.controller.shapes.problem, "the mishap is seen")
        assert "the shapes before it stay in use" in service.controller.shapes.problem
        await cluster.admin.delete(path)
        await service.until(lambda: "not published" in service.controller.shapes.problem, "it is gone")
        latest = service.controller.latest
        await service.until(lambda: service.controller.latest is not latest, "it was decided anew")
        assert set(service.placeholders()) == {before}
        # A profile has changed: placeholders of its old shape are deleted.
        larger = shape(WHOLE, cpu="2")
        await publish_shapes(cluster, {"gpu-whole": larger})
        await service.until_warm(larger, 1)
        await service.until(lambda: before not in service.placeholders(), "the old one goes")
        await service.until(
            lambda: "outdated" in {each.decision.code for each in service.context.decisions.newest(100)}, "why it went"
        )


async def test_a_new_replica_without_a_hub_leaves_placeholders_alone(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    placeholders = {"gpu-whole": {"min": 1}}
    async with replica(cluster, placeholders=placeholders) as service:
        await service.until_warm(GPU, 1)
        before = set(service.placeholders())
    await cluster.admin.delete(f"/api/v1/namespaces/{cluster.namespace}/configmaps/{names.SHAPES_CONFIG_MAP}")
    async with replica(cluster, placeholders=placeholders) as service:
        await service.until(lambda: service.controller.latest is not None, "it leads")
        assert set(service.placeholders()) == before
        assert service.context.decisions.count == 0
        # Why it was made is on the pod: this replica decided nothing.
        (placeholder,) = placeholders_json(service.controller, service.context)
        assert (placeholder["reason"], placeholder["decided_at"], placeholder["profiles"]) == (
            "target 1, present 0",
            None,
            [],
        )
    # The first may have ended before the claim was its placeholder's.
    async with replica(cluster, orphan_seconds=1.0) as service:
        await service.until(lambda: not service.placeholders(), "without the setting, placeholders are deleted")
        await service.until(lambda: not list(service.controller.view().warm_claims), "their claims are deleted")


async def test_questions_that_make_no_sense(embedded_cluster: ClusterUnderTest) -> None:
    whole_question = {"shape": "0" * 16, "pod": "x", "namespace": "n"}
    definition = "definition: allowed: JSON as text, 32768 bytes at most."
    questions: list[tuple[Any, str]] = [
        (b"{", "The body must be JSON."),
        ([], "The body must be a JSON object."),
        ({}, "shape: nothing found; allowed: 16 hexadecimal digits."),
        ({"shape": 3}, "shape: found 3; allowed: 16 hexadecimal digits."),
        ({**whole_question, "pod": "../x"}, "pod: found '../x'; allowed: a name of a Kubernetes object."),
        (
            {**whole_question, "namespace": "n" * 300},
            f"namespace: found '{'n' * 59}; allowed: a name of a Kubernetes object.",
        ),
        ({"shape": "0" * 16, "node": "x"}, "pod: nothing found; allowed: a name of a Kubernetes object."),
        ({**whole_question, "definition": {}}, definition),
        ({**whole_question, "definition": " " * 40_000}, definition),
    ]
    async with replica(embedded_cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        found = [await service.ask(body) for body, _ in questions]
    assert [(status, answer["detail"]) for status, answer in found] == [(400, message) for _, message in questions]


@pytest.mark.promise("Only the hub may ask for placements.")
async def test_only_the_hub_may_ask_for_placements(embedded_cluster: ClusterUnderTest) -> None:
    question = {"shape": "0" * 16, "pod": "ada", "namespace": "default"}
    async with replica(embedded_cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        await service.until(lambda: service.controller.latest is not None, "it leads")
        assert (await service.ask(question))[0] == 404
        assert (await service.ask(question, token=""))[0] == 401
        # The service would ask a hub for the owner of the token (tests/integration/test_service.py); here is none.
        assert (await service.ask(question, token="wrong"))[0] == 503
        # A login is not enough: a page of another site would send the cookie, too.
        assert (await service.ask(question, token="", Cookie="service-dra-spawner=x"))[0] == 401


async def test_servers_in_namespaces_of_their_own_get_no_claims(embedded_cluster: ClusterUnderTest) -> None:
    """But placeholders are preempted for them."""
    cluster = embedded_cluster
    await set_up(cluster, SHAPES, *node("node-a", whole("gpu-0")))
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}, user_namespaces=True) as service:
        await service.until_warm(GPU, 1)
        status, answer = await service.ask({"shape": GPU.id, "pod": "ada", "namespace": "user-ada"})
        assert (status, answer["state"], answer["claims"], answer["until"]) == (200, "after-preemption", {}, None)


async def test_a_pending_placeholder_shows_its_cause(cluster: ClusterUnderTest) -> None:
    await set_up(cluster, SHAPES, *node("node-a"))
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        await service.until(
            lambda: any(each["pending_because"] for each in placeholders_json(service.controller, service.context)),
            "the placeholder is pending",
        )
        (placeholder,) = placeholders_json(service.controller, service.context)
        assert placeholder["state"] == "pending"
        assert "cannot allocate all claims" in placeholder["pending_because"]
        assert (await profiles_json(service.context))[1]["availability"]["state"] == "waits", "there is no device"
        await cluster.wait_for(
            "/api/v1/nodes/node-a", lambda found: found["metadata"]["labels"].get(names.IMAGES_READY) == "true"
        )
