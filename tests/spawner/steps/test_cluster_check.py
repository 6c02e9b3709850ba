"""Reports of a hub about the cluster when it starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from dra_spawner import __version__
from dra_spawner.spawner.hub_start.profile_check import begin_checking
from dra_spawner.spawner.server_context import parts_of
from tests.cluster.control_plane import write_kubeconfig
from tests.local_server import serving
from tests.polling import eventually
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of


async def test_an_old_kubernetes_is_named_though_it_has_no_devices(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As 1.33, which does not serve ``resource.k8s.io/v1``."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/apis":
            apps = {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}
            return web.json_response({"kind": "APIGroupList", "groups": [apps]})
        if request.path != "/version":
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        return web.json_response({"major": "1", "minor": "33", "gitVersion": "v1.33.4"})

    async with serving(answer) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, "token", "default")
        with kubernetes_of(kubeconfig):
            try:
                spawner = HubSide(kubeconfig, "hub").user("ada").spawner
                spawner.log.addHandler(caplog.handler)
                begin_checking(parts_of(spawner).server)
                sentence = f"Kubernetes 1.33 is not supported: dra-spawner {__version__} needs 1.34 or later."
                await eventually(lambda: sentence in caplog.text, "the version is named", shows=lambda: caplog.text)
            finally:
                await end_hub_side()
