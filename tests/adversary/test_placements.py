"""Many pods that ask for the same placeholders at once, and hostile questions of authorized callers."""

from __future__ import annotations

import asyncio
from random import Random

from dra_spawner import names
from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.planner.targets.shape_definition import DefinitionError, shape_from
from dra_spawner.placeholders.planner.targets.shapes import definition_of
from tests.adversary.hostile_requests import DEFINITION, hostile_question
from tests.adversary.hostile_values import spoiled
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.service.replica import Replica, publish_shapes, replica


async def test_a_hundred_pods_ask_for_two_placeholders_at_once(embedded_cluster: ClusterUnderTest) -> None:
    """Two pods get one placeholder each; no other pod gets a claim."""
    cluster, gpu = embedded_cluster, shape(WHOLE)
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    await publish_shapes(cluster, {"gpu-whole": gpu})
    async with replica(cluster, placeholders={"gpu-whole": {"min": 2, "max": 2}}) as service:
        await service.until_warm(gpu, 2)
        pods = [f"server-{number}" for number in range(100)]
        answers = await asyncio.gather(*(service.place(gpu, pod) for pod in pods))
        given = [(pod, answer["claims"]["gpu"]) for pod, answer in zip(pods, answers, strict=True) if answer["claims"]]
        assert len(given) == len({claim for _, claim in given}) == 2
        assert all((answer["state"] == "ready") == bool(answer["claims"]) for answer in answers)
        path = resource_path("resource.k8s.io/v1", "resourceclaims", cluster.namespace)
        reserved = {
            each["metadata"]["name"]: each["metadata"]["labels"].get(names.RESERVED_FOR)
            for each in (await cluster.admin.get(path))["items"]
        }
        assert {pod: claim for claim, pod in reserved.items() if pod} == dict(given)
        await check_hostile_questions(service, definition_of(shape({}, cpu="3")), shape({}, cpu="3").id)
        assert len((await service.get_json("decisions?limit=1000"))["items"]) <= 1_000
        for page in ("page", "placeholders-page", "decisions-page"):
            assert "<script>" not in await service.get(page)


def test_hostile_definitions() -> None:
    """A shape, or a sentence, for any value of each part."""
    assert shape_from(DEFINITION).claims == WHOLE
    for changed, what in spoiled(DEFINITION):
        problem = ""
        try:
            shape_from(changed)
        except DefinitionError as error:
            problem = str(error)
        assert len(problem) < 3_000, (what, problem[:300])


async def check_hostile_questions(service: Replica, definition: str, identity: str) -> None:
    """Questions of authorized callers, with any content: an answer or a sentence, and the page still works."""
    random = Random(20261122)
    good = hostile_question(identity, service.cluster.namespace, definition)
    assert (await service.ask(good))[0] == 200
    hostile = [
        "",
        "\ud800",
        "\x00",
        "<script>",
        "a" * 70_000,
        "[" * 30_000,
        '"\\ud800"',
        '{"a":' * 3_000,
        -1,
        1e400,
        None,
        [],
        {},
    ]
    parts = ["\\ud800", "1e999999999", "[[[[", "{}", "null", "-1", "\\u0000", '"<script>"', "9" * 4_500, "true"]
    for _ in range(150):
        question = dict(good)
        if random.random() < 0.5:
            question[random.choice(list(good))] = random.choice(hostile)
        else:
            begin = random.randrange(len(definition))
            end = begin + random.choice((0, 1, 5))
            question["definition"] = definition[:begin] + random.choice(parts) + definition[end:]
        status, answer = await service.ask(question)
        assert status in (200, 400, 404), (question, answer)
        assert status == 200 or answer["detail"].endswith(".")
