"""The demo's ports, and what it does when its hub does not start."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from dra_spawner.devcluster.demo import demo
from tests.integration.hub_with_service import log_in
from tests.polling import eventually


def test_ports_differ_and_are_none_that_outgoing_connections_get(tmp_path: Path) -> None:
    settings = demo.hub_settings(demo.DemoOptions(), tmp_path, 8000)
    ports = {settings[each] for each in ("port", "hub_port", "proxy_api_port", "service_port")}
    assert len(ports) == 4
    assert max(ports) < 32_768


async def test_the_reason_is_told_when_the_hub_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here another program's outgoing connection has the hub's port."""
    real_settings = demo.hub_settings
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as other:
        port = other.getsockname()[1]

        def hub_settings(*arguments: Any) -> dict[str, Any]:
            return real_settings(*arguments) | {"hub_port": port}

        monkeypatch.setattr(demo, "hub_settings", hub_settings)
        with pytest.raises(demo.DemoError) as refused:
            async with demo.demo(demo.DemoOptions(port=0), lambda _: None, asyncio.Event()):
                pass
    told = str(refused.value)
    assert told.startswith("JupyterHub ended with exit code 1.\nThe end of its log:\n")
    assert f"Failed to bind hub to http://127.0.0.1:{port}" in told
    assert "Address already in use" in told
    assert "/hub/health" not in told


@pytest.mark.promise("The demo starts by one command, serves its form, and keeps two placeholders warm.")
async def test_the_demo_serves_a_form_and_has_warm_placeholders() -> None:
    async with (
        demo.demo(demo.DemoOptions(port=0), lambda _: None, asyncio.Event()) as running,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        await log_in(session, running.address, running.admin, running.password)

        async def form() -> str:
            async with session.get(f"{running.address}/hub/spawn") as answer:
                assert answer.status == 200
                return await answer.text()

        async def has_ready_choice() -> bool:
            return re.search(r"GPU slice.*?>ready", await form(), re.DOTALL) is not None

        await eventually(has_ready_choice, "a choice is ready", shows=form)
        assert "Whole GPU" in await form()
        await can_do_what_the_pages_show(session, f"{running.address}/services/dra-spawner/")


async def can_do_what_the_pages_show(session: aiohttp.ClientSession, service: str) -> None:
    """Check that the demo's administrator has every level of access, and may stop servers and drain devices."""
    async with session.get(f"{service}nodes") as answer:
        page = await answer.text()
    allowed, xsrf = (re.search(f'{each}="([^"]*)"', page) for each in ("data-allowed", "data-xsrf"))
    assert allowed is not None
    assert allowed[1] == "announce read operate admin"
    assert 'data-action="stop-server"' in page
    assert xsrf is not None
    headers = {"X-XSRFToken": xsrf[1]}
    for path in (
        "api/settings/observing",
        "api/settings/draining/whole-gpus",
        "api/settings/placeholders/gpu-slice%2Fmemory%3D5Gi",
        "api/devices/gpu.example.com%2Fwhole-gpus%2Fgpu-0/drain",
    ):
        for method, status in (("PUT", 200), ("DELETE", 204)):
            numbers = {"min": 0, "max": 1} if "placeholders" in path else {}
            body = numbers if method == "PUT" else None
            url = URL(service + path, encoded=True)
            async with session.request(method, url, headers=headers, json=body) as answer:
                assert answer.status == status, (method, path, await answer.text())


#: Python runs it at the start of each process: the first proxy waits until JupyterHub ends it.
SLOW_PROXY = """
import os, signal, sys
if "dra_spawner.devcluster.demo.streaming_proxy" in sys.orig_argv:
    try:
        os.mkdir({marker!r})
    except FileExistsError:
        pass
    else:
        signal.pause()
"""


async def test_a_hub_whose_proxy_is_late_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "first"
    (tmp_path / "sitecustomize.py").write_text(SLOW_PROXY.format(marker=str(marker)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with demo.demo(demo.DemoOptions(port=0), lambda _: None, asyncio.Event()) as running:
        assert marker.is_dir(), "the first proxy must be late"
        async with aiohttp.ClientSession() as session, session.get(f"{running.address}/hub/login") as answer:
            assert answer.status == 200
