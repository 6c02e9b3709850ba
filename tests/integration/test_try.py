"""``dra-spawner try`` against the demo: it looks inside real servers, says what is so, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.commands.trying.try_command import TryOptions, run_try
from dra_spawner.devcluster.demo import demo
from dra_spawner.devcluster.demo.profiles import profiles_for_classes
from tests.integration.tried_demo import BROKEN, NOTHING, left
from tests.integration.try_scopes import token_of_the_chart
from tests.polling import PATIENCE_SECONDS, eventually


async def trying(options: TryOptions) -> tuple[int, dict[str, Any], str]:
    """Exit code, report and messages."""
    output, messages = io.StringIO(), io.StringIO()
    code = await asyncio.to_thread(run_try, options, output, messages)
    return code, json.loads(output.getvalue() or "{}"), messages.getvalue()


async def test_choices_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "profiles_for_classes", lambda names: [*profiles_for_classes(names), BROKEN])
    async with demo.demo(demo.DemoOptions(port=0), lambda _: None, asyncio.Event()) as running:
        options: dict[str, Any] = {"hub_url": running.address, "token": running.api_token, "as_json": True}
        choices = ("gpu-slice/memory=15Gi", "cpu", "broken")
        code, report, messages = await trying(TryOptions(profiles=choices, user="trial", **options))
        assert (code, report["not_removed"], messages) == (1, [], "")
        share, plain, broken = report["tried"]
        assert (share["state"], share["sentence"]) == (
            "works",
            "15 GiB of 40 GiB memory of gpu-0 (Example A100 40GB) on shared-gpus",
        )
        assert list(share["phases"]) == ["hub", "scheduling", "container", "server", "kernel", "cell", "removal"]
        assert (plain["state"], plain["sentence"]) == ("works", "It has no device, as it asks for none.")
        assert broken["state"] == "fails"
        assert "none.example.com" in broken["sentence"] or "administrator" in broken["sentence"], broken
        assert await left(running) == NOTHING
        await refusals(running, options)
        await scopes_of_the_chart(running, options)
        await interrupted(running)


async def refusals(running: demo.Running, options: dict[str, Any]) -> None:
    """A hub that cannot be used so is no choice that fails, and nothing is left."""
    for wrong, said in (
        ({"token": "wrong"}, "The token does not allow it"),
        ({}, "The token is that of service demo: name a user for the servers with --user."),
        (
            {"user": "trial", "profiles": ("nothing",)},
            "The hub publishes no choice 'nothing'. It has: broken, cpu, gpu-",
        ),
        ({"user": "trial", "service": "none"}, "The service none does not say which choices the hub has."),
        ({"hub_url": "http://127.0.0.1:1"}, "http://127.0.0.1:1/ cannot be reached"),
    ):
        code, report, messages = await trying(TryOptions(**{**options, **wrong}))
        assert (code, report) == (2, {}), (wrong, messages)
        assert messages.startswith("dra-spawner try: ")
        assert said in messages, (wrong, messages)
        assert "Traceback" not in messages
    # With a limit that no start meets, the choice fails, and its server goes.
    code, report, _ = await trying(TryOptions(**{**options, "timeout_seconds": 1.0}, user="trial", profiles=("cpu",)))
    assert (code, report["fails"], report["not_removed"]) == (1, 1, [])
    assert report["tried"][0]["sentence"].startswith("It was not done within 1 s.")
    assert await left(running) == NOTHING


async def scopes_of_the_chart(running: demo.Running, options: dict[str, Any]) -> None:
    """The scopes that the chart gives to its service for `helm test` are enough, for its user alone."""
    known = {**options, "token": await token_of_the_chart(running, "trial"), "profiles": ("cpu",)}
    code, report, messages = await trying(TryOptions(**known, user="trial"))
    assert (code, report["works"], messages) == (0, 1, ""), report
    code, report, messages = await trying(TryOptions(**known, user="another"))
    assert (code, report) == (2, {})
    assert await left(running) == NOTHING


async def interrupted(running: demo.Running) -> None:
    """Ctrl-C removes server and user before the command ends."""
    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("dra-spawner"), "try", "--hub-url", running.address),
        *("--user", "trial", "gpu-whole"),
        env={**os.environ, "JUPYTERHUB_API_TOKEN": running.api_token},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # A program that a shell starts in the background ignores it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )

    async def has_begun() -> bool:
        return (await left(running))[1] != []

    await eventually(has_begun, "its server has a pod", pause_seconds=0.1)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(PATIENCE_SECONDS):
        output, messages = await process.communicate()
    assert process.returncode == 130, messages
    assert b"removing the server" in messages
    assert b"Traceback" not in messages + output
    assert await left(running) == NOTHING


async def test_a_hub_without_named_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    real = demo.hub_settings
    monkeypatch.setattr(demo, "hub_settings", lambda *given: real(*given) | {"named_servers": False})
    async with demo.demo(demo.DemoOptions(port=0), lambda _: None, asyncio.Event()) as running:
        options: dict[str, Any] = {"hub_url": running.address, "token": running.api_token, "as_json": True}
        options["profiles"] = ("cpu",)
        code, report, messages = await trying(TryOptions(**options, user="admin"))
        assert (code, report) == (2, {})
        assert "The hub has no named servers (JupyterHub.allow_named_servers). Name a new user with --user" in messages
        code, report, messages = await trying(TryOptions(**options, user="trial"))
        assert (code, report["works"], report["not_removed"]) == (0, 1, []), (report, messages)
        assert await left(running) == NOTHING
