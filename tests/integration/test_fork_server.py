"""Forked programs are processes of their own: environment, directory, log, session, exit code and signals."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.fork_server import ForkedProcess, fork_program

_SAYS = """
import os, sys
print(os.environ.get("GREETING"), os.getcwd(), sys.argv[1:], os.getsid(0) == os.getpid(), flush=True)
print("kubeconfig", __import__("kubernetes_asyncio").config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION, flush=True)
if sys.argv[1] == "wait":
    print(sys.stdin.read(), "waits", flush=True)
    __import__("signal").pause()
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    (tmp_path / "says_what_it_is.py").write_text(_SAYS)
    return "says_what_it_is"


def forked(tmp_path: Path, module: str, argument: str, *, new_session: bool = True) -> ForkedProcess:
    environment = {"GREETING": "hello", "KUBECONFIG": "/of/this/one"}
    log = tmp_path / "log"
    return fork_program(
        module, [argument], directory=tmp_path, log=log, environment=environment, new_session=new_session
    )


def test_inputs_of_a_program(tmp_path: Path, module: str) -> None:
    (tmp_path / "log").write_text("before\n")
    process = forked(tmp_path, module, "7")
    assert process.wait(120) == process.poll() == process.returncode == 7
    assert (tmp_path / "log").read_text().splitlines() == [
        "before",
        f"hello {tmp_path} ['7'] True",
        "kubeconfig /of/this/one",
    ]


def test_signals_and_ends(tmp_path: Path, module: str) -> None:
    first, second = forked(tmp_path, module, "wait"), forked(tmp_path, module, "wait", new_session=False)
    assert first.pid != second.pid
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0.5)
    assert first.poll() is None
    first.kill()
    assert first.wait(120) == -signal.SIGKILL
    second.send_signal(signal.SIGTERM)
    assert second.wait(120) == -signal.SIGTERM
    first.kill()  # of one that has ended nothing happens


def test_a_module_that_does_not_exist(tmp_path: Path) -> None:
    process = forked(tmp_path, "there_is_no_such_module", "0")
    assert process.wait(120) == 1
    assert "No module named there_is_no_such_module" in (tmp_path / "log").read_text()
