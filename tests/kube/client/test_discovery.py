"""A kind is absent only where discovery says so."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.kube.client.discovery import is_absent
from tests.local_server import serving

Json = dict[str, Any]


def _resources(*plurals: str, version: str = "resource.k8s.io/v1") -> Json:
    return {"kind": "APIResourceList", "groupVersion": version, "resources": [{"name": each} for each in plurals]}


def _groups(**versions: str) -> Json:
    return {
        "kind": "APIGroupList",
        "groups": [
            {"name": f"{name}.k8s.io", "versions": [{"groupVersion": f"{name}.k8s.io/{each}", "version": each}]}
            for name, each in versions.items()
        ],
    }


#: By case: the documents of the version and of all groups (a number is a status), and the answer; None is an error.
CASES: dict[str, tuple[Json | int, Json | int, bool | None]] = {
    "served": (_resources("resourceclaims"), _groups(resource="v1"), False),
    "a version without the kind": (_resources("deviceclasses"), _groups(resource="v1"), True),
    "an older cluster": (404, _groups(resource="v1beta1", apps="v1"), True),
    "a cluster without the group": (404, _groups(apps="v1"), True),
    "replicas that differ": (404, _groups(resource="v1"), False),
    "no route": (404, 404, None),
    "a server that begins": (404, 503, None),
    "an error": (500, _groups(apps="v1"), None),
    "a proxy": ({"status": "ok"}, {"status": "ok"}, None),
    "a proxy beside a 404": (404, {"kind": "APIGroupList", "groups": []}, None),
    "nothing in it": (_resources(), _groups(apps="v1"), None),
    "another version": (_resources("pods", version="v1"), _groups(apps="v1"), False),
    "nonsense": ({"kind": "APIResourceList", "resources": 5}, {"kind": "APIGroupList", "groups": [3, {}]}, None),
}


async def test_only_discovery_says_that_a_kind_is_absent() -> None:
    documents: dict[str, Json | int] = {}

    async def answer(request: web.Request) -> web.Response:
        found = documents.get(request.path, 404)
        return web.json_response(status=found) if isinstance(found, int) else web.json_response(found)

    async with serving(answer) as url:
        client = ApiClient(Configuration(host=url))
        async with KubernetesApi(client, owns_client=True) as api:
            found: dict[str, bool | None] = {}
            for case, (of_version, of_groups, _) in CASES.items():
                documents |= {"/apis/resource.k8s.io/v1": of_version, "/apis": of_groups}
                try:
                    found[case] = await is_absent(api, "resource.k8s.io/v1", "resourceclaims")
                except KubernetesError:
                    found[case] = None
    assert found == {case: expected for case, (*_, expected) in CASES.items()}
