"""What the removal of a failed start deletes, and what it leaves, without a cluster; tests/integration/test_faults.py has one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesError, resource_path
from dra_spawner.kube.client.api_errors import RequestTarget
from dra_spawner.spawner.objects.start_objects import StartObjects

POD = resource_path("v1", "pods", "ns", "jupyter-ada")


class Api:
    """Holds objects by their paths, and does not answer requests that create a template named "unanswered"."""

    def __init__(self) -> None:
        self.objects: dict[str, JsonObject] = {}

    async def create(self, path: str, body: JsonObject) -> None:
        name = body["metadata"]["name"]
        self.objects[f"{path}/{name}"] = body
        if name == "unanswered":
            raise self._error("create", 0, "no answer")

    async def get(self, path: str) -> JsonObject:
        if path not in self.objects:
            raise self._error("get", 404, "NotFound")
        return self.objects[path]

    async def delete(self, path: str, **_: object) -> None:
        self.objects.pop(path, None)

    def _error(self, verb: str, status: int, reason: str) -> KubernetesError:
        return KubernetesError(RequestTarget(verb, "objects", "ns", ""), status=status, reason=reason, message="")


def start_of(*template_names: str) -> tuple[Any, StartObjects]:
    templates: dict[str, JsonObject] = {
        name: {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name},
            "spec": {},
        }
        for name in template_names
    }
    api: Any = Api()
    return api, StartObjects(api, "ns", "own", datetime(2026, 3, 1, tzinfo=UTC), templates)


async def test_templates_go_also_one_whose_creation_had_no_answer() -> None:
    api, start = start_of("answered", "unanswered")
    with pytest.raises(KubernetesError, match="no answer"):
        await start.ensure({"answered", "unanswered"})
    assert len(api.objects) == 2
    await start.remove("jupyter-ada")
    assert api.objects == {}
    assert start.that_may_appear() is not None, "the API server may carry the request out yet"


async def test_the_pod_of_the_name_goes_only_if_it_is_of_this_start() -> None:
    api, start = start_of()
    for nonce, stays in (("another", True), ("own", False)):
        api.objects[POD] = {"metadata": {"name": "jupyter-ada", "uid": "u", "annotations": {names.START: nonce}}}
        start.pod_requested = True
        await start.remove("jupyter-ada")
        assert (POD in api.objects) is stays, nonce
