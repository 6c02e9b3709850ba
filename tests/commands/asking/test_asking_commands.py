"""``status``, ``classes``, ``idle`` and ``drain`` at a service at work, and at what is no service."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dra_spawner.cli import main
from dra_spawner.commands.asking.service_client import NotAnswered, client_of
from dra_spawner.service.http.web_application import ADDRESSES
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.local_server import serving
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.polling import eventually
from tests.service.open_service import open_to_all
from tests.service.replica import publish_settings, replica, server_objects, set_up

GPU = shape(WHOLE)
PREFIX = "/services/dra-spawner/"
#: All of the API, as an operator of the hub may use it.
API = [(f"open/{address}", open_to_all(handler)) for address, handler in ADDRESSES if address.startswith("api/")]


class Terminal:
    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, url: str) -> None:
        monkeypatch.setenv("DRA_SPAWNER_URL", url)
        monkeypatch.setenv("DRA_SPAWNER_TOKEN", "0123456789abcdef")
        self._capsys = capsys

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, arguments)
        return (code, *self._capsys.readouterr())


async def test_an_on_call_engineer_asks_and_drains(
    embedded_cluster: ClusterUnderTest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_up(embedded_cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0")))
    await publish_settings(embedded_cluster)
    async with replica(embedded_cluster, placeholders={"gpu-whole": {"min": 1}}, prefix=PREFIX, more=API) as service:
        await service.until_warm(GPU, 1)
        terminal = Terminal(capsys, monkeypatch, f"{service.url}/open")

        code, out, _ = await terminal.run("status")
        assert code == 0
        assert "No problems." in out
        assert ["gpu-whole", "ready", "1", "of", "1", "0", "0"] in [line.split() for line in out.splitlines()]
        assert await terminal.run("classes") == (
            0,
            "No class is announced here; calendars of the configuration are on the page Calendar.\n",
            "",
        )
        assert await terminal.run("drain") == (0, "Nothing is drained.\n", "")

        code, out, _ = await terminal.run(
            "drain", "node-a", "--reason", "new driver", "--until", "2027-01-01T10:00:00Z"
        )
        assert code == 0
        assert out.startswith("node-a is drained until 2027-01-01 10:00 UTC: it gets no placeholder")
        assert re.search(
            r" user ada  \d{4}-\d\d-\d\d \d\d:\d\d UTC  2027-01-01 10:00 UTC  new driver$",
            (await terminal.run("drain"))[1],
            re.M,
        )
        code, out, _ = await terminal.run("drain", "--format", "json")
        (drained,) = json.loads(out)["items"]
        assert (drained["name"], drained["by"], drained["reason"]) == ("node-a", "user ada", "new driver")
        assert await terminal.run("drain", "node-b") == (1, "", "dra-spawner: There is no node of this name.\n")

        # Without a placeholder on the node its device is free, and no machine has as many processors.
        await embedded_cluster.publish(*server_objects("jupyter-eve", GPU, WHOLE, cpu="10000"))
        await service.until_pending("jupyter-eve")

        async def is_out_of_use() -> str:
            """The placeholder goes, and the node is labelled, after the order."""
            _, out, _ = await terminal.run("status")
            return out if re.search(r"^gpu-whole +out of use ", out, re.M) else ""

        out = await eventually(is_out_of_use, "the choice is out of use")
        assert (await terminal.run("status"))[0] == 1
        assert "jupyter-eve" in out
        assert (
            "- out of use: it would fit on node node-a, which takes no new server: it is drained, set by user ada "
            in out
        )

        async def is_said() -> bool:
            today = await service.get_json("open/api/today")
            said = [each["sentence"] for each in today["wrong"] if each["page"] == "nodes"]
            sentence = "Servers of gpu-whole cannot start: it would fit on node node-a, which takes no"
            return any(each.startswith(sentence) for each in said)

        await eventually(is_said, "Today says it")
        soon = f"{service.controller.now() + timedelta(hours=2):%Y-%m-%d %H:%M}"
        _, verdict, _ = await service.send("POST", "open/api/rehearsals", {"line": f"1 of gpu-whole at {soon}"})
        assert "taken out of use by an administrator until 2027-01-01 10:00 UTC." in verdict["verdict"]
        assert await terminal.run("drain", "node-a", "--end") == (0, "node-a is not drained any more.\n", "")
        assert (await terminal.run("drain", "node-a", "--end"))[0] == 1

        service.controller.watch.staleness_seconds = lambda: 40.0  # type: ignore[method-assign]
        code, out, _ = await terminal.run("status")
        assert "- The data about the cluster are 40 s old." in out
        code, out, _ = await terminal.run("status", "--format", "json")
        assert set(json.loads(out)) == {"status", "profiles", "pending_servers"}


ENTRY = {
    "id": "1",
    "users": "60 of gpu-slice",
    "begins": "2026-11-24 17:00",
    "minutes": 90,
    "timezone": "Europe/Berlin",
}
VERDICT = "calendar entry 'Lab' at 2026-11-24 17:00 CET: No: 12 of 60 users cannot start.\u001b[31m"


async def test_a_base_url_in_another_alphabet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/übung/services/dra-spawner/api/settings"
        return web.json_response({"items": []})

    async with serving(answer) as url:
        for path in ("übung/", "%C3%BCbung/hub"):
            assert (await Terminal(capsys, monkeypatch, f"{url}/{path}").run("drain"))[0] == 0


async def test_classes_with_a_verdict(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "token 0123456789abcdef"
        if request.path == "/jupyter/services/dra-spawner/api/status":
            return web.json_response({"problems": [f"Scale-ahead: {VERDICT}", "Another one."]})
        assert request.path == "/jupyter/services/dra-spawner/api/calendar-entries"
        return web.json_response({"items": [ENTRY]})

    async with serving(answer) as url:
        terminal = Terminal(capsys, monkeypatch, f"{url}/jupyter/hub/")
        code, out, _ = await terminal.run("classes")
        assert code == 1
        assert "2026-11-24 17:00  60 of gpu-slice  90 min" in out
        assert out.endswith("\n- 'Lab' at 2026-11-24 17:00 CET: No: 12 of 60 users cannot start.\ufffd[31m\n")
        code, out, _ = await terminal.run("classes", "--format", "json")
        assert json.loads(out)["items"] == [ENTRY]


IDLE = {
    "user": "ada",
    "server": "",
    "pod": "jupyter-ada",
    "choice": "gpu-slice",
    "node": "n1",
    "devices": ["gpu-0\u001b[31m"],
    "held": 0.25,
    "use": "idle",
    "reason": "No kernel computes, and its devices are not used.",
    "idle_since": "2026-11-24T17:00:00+00:00",
    "idle_device_hours": 1.5,
    "unused_since": None,
    "connections": 0,
    "has_policy": True,
    "warned_at": None,
    "stops_at": None,
    "kept_until": None,
    "kept": 0,
}


async def test_servers_that_hold_idle_devices(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = {**IDLE, "user": "", "use": "busy", "reason": "A kernel computes.", "idle_since": None, "has_policy": False}
    items: list[dict[str, Any]] = [IDLE, {**busy, "idle_device_hours": 0.0}]

    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/services/dra-spawner/api/idle-servers"
        return web.json_response({"items": items, "problems": ["Prometheus is away."], "incomplete_because": ""})

    async with serving(answer) as url:
        terminal = Terminal(capsys, monkeypatch, url)
        code, out, _ = await terminal.run("idle")
        assert code == 1
        assert out.startswith("- Prometheus is away.\n")
        assert "ada       gpu-slice  gpu-0\ufffd[31m  idle  2026-11-24 17:00 UTC  1.50" in out
        assert "(hidden)" in out
        assert "A kernel computes. no policy" in out
        assert out.endswith("1 of 2 servers with devices are idle, with 1.5 device-hours.\n")
        code, out, _ = await terminal.run("idle", "--format", "json")
        assert json.loads(out)["items"] == items
        items.clear()
        code, out, _ = await terminal.run("idle")
        assert (code, out) == (0, "- Prometheus is away.\nNo server with devices was seen.\n")


async def test_what_is_no_service_is_said_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem: dict[str, Any] = {"status": 403, "detail": "user eve has none of the scopes that this address needs: x."}
    answers: dict[str, tuple[int, Callable[[], web.Response]]] = {
        "There is no service at ": (2, lambda: web.Response(status=302, headers={"Location": "/hub/login"})),
        "is not the service: its answer is no JSON.": (2, lambda: web.Response(text="<html>")),
        "The answer of api/profiles is no list of the API.": (2, lambda: web.json_response({"items": 3})),
        "user eve has none of the scopes": (1, lambda: web.json_response(problem, status=403)),
        "The service answers with status 503.": (1, lambda: web.Response(status=503)),
    }
    for said, (code, make) in answers.items():

        async def answer(request: web.Request, make: Callable[[], web.Response] = make) -> web.Response:
            return make()

        async with serving(answer) as url:
            found = await Terminal(capsys, monkeypatch, url).run("status")
        assert (found[0], found[1]) == (code, ""), said
        assert said in found[2]
        assert "0123456789abcdef" not in found[2]
    terminal = Terminal(capsys, monkeypatch, "http://127.0.0.1:9")
    assert "127.0.0.1 cannot be asked: " in (await terminal.run("status"))[2]
    assert (await terminal.run("drain", "--end"))[0] == 2


async def test_answers_of_another_version_are_no_defect(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [[], {}, None, "x", {"items": [{}]}, {"items": [], "problems": None}, {"items": [{"use": 1}]}]
    for found in answers:

        async def answer(request: web.Request, found: Any = found) -> web.Response:
            return web.json_response(found)

        async with serving(answer) as url:
            terminal = Terminal(capsys, monkeypatch, url)
            for command in ("status", "classes", "idle", "drain"):
                code, _, said = await terminal.run(command)
                assert code in (0, 2), (command, found, said)
                assert "defect" not in said, (command, found)
            assert (await terminal.run("idle"))[0] == 2, found
            assert (await terminal.run("drain", "\udcff"))[0] in (0, 2), "no valid text"


def test_address_and_token_are_needed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("two words\n")
    url, token = {"DRA_SPAWNER_URL": "http://127.0.0.1:9"}, {"JUPYTERHUB_API_TOKEN": "x"}
    for environment, file, said in (
        (token | {"DRA_SPAWNER_URL": "ftp://x"}, "", "no address"),
        (token | {"DRA_SPAWNER_URL": "http://["}, "", "no address"),
        (token | {"DRA_SPAWNER_URL": "https://hub..example.org/"}, "", "no address"),
        (token | {"DRA_SPAWNER_URL": f"https://{'a' * 64}.example.org/"}, "", "no address"),
        (token | {"DRA_SPAWNER_URL": "https://hub.example.org/\udcff"}, "", "no address"),
        (token, "", "DRA_SPAWNER_URL"),
        (url, "", "There is no token"),
        (url | token, str(tmp_path / "token"), "characters"),
        (url | token, str(tmp_path / "none"), "cannot be read"),
    ):
        with pytest.raises(NotAnswered, match=said):
            client_of("", file, environment)
    client_of("", "", url | token)
