"""Containers that are processes."""

import asyncio
import sys
from pathlib import Path

import pytest

from dra_spawner.devcluster.kubelet.container_runtime import ContainerLaunch, ContainerStartFailed, ProcessRuntime
from tests.cluster.fake_runtime import FakeRuntime


def launch(
    directory: Path, script: str = "", *, command: list[str] | None = None, image: str = "i:1"
) -> ContainerLaunch:
    command = [sys.executable, "-c", script] if command is None else command
    return ContainerLaunch("hub/user", "main", image, command, {"A": "1"}, directory, directory / "logs" / "0.log")


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [
        pytest.param("pass", 0, id="well"),
        pytest.param("raise SystemExit(3)", 3, id="badly"),
        pytest.param("import os; os.kill(os.getpid(), 9)", 137, id="killed"),
        pytest.param("import os; os.kill(os.getpid(), 15)", 143, id="terminated"),
    ],
)
async def test_exit_code(tmp_path: Path, script: str, exit_code: int):
    container = await ProcessRuntime().start(launch(tmp_path, script))
    assert await container.wait() == exit_code


async def test_output_environment_and_directory(tmp_path: Path):
    script = "import os, sys; print(os.getcwd(), os.environ, flush=True); print('bad', file=sys.stderr)"
    plan = launch(tmp_path, script)
    await (await ProcessRuntime().start(plan)).wait()
    text = plan.log.read_text()
    assert text.startswith(f"{tmp_path} ")
    assert "'A': '1'" in text
    assert "PATH" not in text
    assert text.endswith("bad\n")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param(["/no/such/program"], 'exec: "/no/such/program": No such file or directory', id="no program"),
        pytest.param(["/etc/passwd"], 'exec: "/etc/passwd": Permission denied', id="not executable"),
        pytest.param([], "no command specified: image 'i:1' is not pulled here", id="nothing to run"),
    ],
)
async def test_commands_that_cannot_be_started(tmp_path: Path, command: list[str], message: str):
    with pytest.raises(ContainerStartFailed) as raised:
        await ProcessRuntime().start(launch(tmp_path, command=command))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("image", ["registry.k8s.io/pause:3.10", "pause", "local:5000/x/pause@sha256:0"])
async def test_pause_needs_no_process(tmp_path: Path, image: str):
    container = await ProcessRuntime().start(launch(tmp_path, command=[], image=image))
    assert container.container_id.startswith("fake://")
    waiting = asyncio.ensure_future(container.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    container.terminate()
    assert await waiting == 143


async def test_fake_container_ends_as_requested(tmp_path: Path):
    runtime = FakeRuntime()
    container = await runtime.start(launch(tmp_path))
    runtime.exit("hub", "user", "main", 5)
    assert await container.wait() == 5
    container.kill()  # too late to matter
    assert await container.wait() == 5
