"""Availability is computed again only after a change, or after a second."""

from __future__ import annotations

import asyncio
from typing import Any

from kubernetes_asyncio.client import ApiClient

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.controller.settings import ControllerSettings
from dra_spawner.service.profile_answers import ProfileAnswers
from dra_spawner.simulator.cluster_objects import Kind
from tests.service.unstarted_watch import UnstartedWatch


async def test_answers_are_remembered_until_something_changes() -> None:
    clock = [0.0]
    watch, answers, computed = UnstartedWatch(), ProfileAnswers(lambda: clock[0]), list[str]()
    api = KubernetesApi(ApiClient.__new__(ApiClient))
    controller = PlaceholderController(api, watch, DecisionLog(), ControllerSettings("hub"))

    async def ask(name: str = "") -> Any:
        async def compute() -> list[dict[str, Any]]:
            await asyncio.sleep(0)
            computed.append(name)
            return [{"number": len(computed)}]

        return await answers.items(controller, name, compute)

    found = await asyncio.gather(*(ask() for _ in range(5)))
    assert (found, computed) == ([[{"number": 1}]] * 5, [""]), "callers at the same time share one"
    await ask("gpu")
    assert computed == ["", "gpu"]
    watch.put(Kind.NODE, {"kind": "Node", "metadata": {"name": "n1"}})
    assert await ask() == [{"number": 3}]
    assert await ask() == [{"number": 3}]
    clock[0] = 1.5
    assert await ask() == [{"number": 4}]
