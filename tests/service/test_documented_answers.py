"""Requests that are made from the OpenAPI document, right and wrong ones: each answer is a documented one."""

from __future__ import annotations

import asyncio
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dra_spawner.service.http.openapi import openapi_document
from dra_spawner.service.http.web_application import ADDRESSES
from tests.cluster.under_test import ClusterUnderTest
from tests.examples import example_count
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.polling import PATIENCE_SECONDS
from tests.service.open_service import open_to_all
from tests.service.replica import replica, set_up

CHECKS: Any = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
NOT_HERE = {"api/events": "a stream", "api/servers/{user}": "needs a hub", "oauth_callback": "needs a hub"}
OPEN = [(f"open/{address}", open_to_all(handler)) for address, handler in ADDRESSES if address not in NOT_HERE]
GPU = shape(WHOLE)


async def test_each_answer_is_documented(embedded_cluster: ClusterUnderTest) -> None:
    await set_up(embedded_cluster, {"gpu-slice": GPU}, *node("n1", whole("gpu-0"), whole("gpu-1")))
    async with replica(embedded_cluster, placeholders={"gpu-slice": {"min": 1}}, more=OPEN) as service:
        await service.until_warm(GPU, 1)
        document = openapi_document([each for each in ADDRESSES if each[0] not in NOT_HERE], "/open/")
        statuses, problems = await asyncio.to_thread(ask_all, document, service.url)
        assert {200, 201, 400, 404} <= statuses
        assert problems == [], "\n".join(problems)


def ask_all(document: Any, url: str) -> tuple[set[int], list[str]]:
    """Ask each endpoint some questions; the statuses of all answers, and the problems."""
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=f"{url}/open")
    statuses: set[int] = set()
    problems = []
    for result in schema.get_all_operations():
        operation = result.ok()  # type: ignore[union-attr]  # or it raises

        right, wrong = (operation.as_strategy(generation_mode=each) for each in GenerationMode)

        @given(case=right | wrong if has_input(operation) else right)
        @settings(
            max_examples=example_count(100),
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Case) -> None:
            answer = case.call(timeout=PATIENCE_SECONDS)
            statuses.add(answer.status_code)
            case.validate_response(answer, checks=CHECKS)
            assert answer.status_code < 500, answer.text

        try:
            ask()
        except Exception as error:
            causes = getattr(error, "exceptions", (error,))  # of one that did not come again
            problems.append(f"{operation.label}: {error} {[repr(each) for each in causes]}")
    return statuses, problems


def has_input(operation: Any) -> bool:
    """Whether a request can be wrong."""
    return bool(list(operation.query) or list(operation.body))
