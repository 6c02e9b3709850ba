"""The service as its image and the chart run it: user 1000, no rights, a read-only root, and two folders to write to."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.images import read_only_root
from tests.images.containerfile import IMAGES, read_containerfile
from tests.polling import eventually
from tests.ports import free_port

pytestmark = pytest.mark.skipif(bool(read_only_root.unavailable()), reason=read_only_root.unavailable() or "can run")

_PROBE = """
import os, pathlib
for path in ("/usr/x", "/x", "/etc-x", "/proc/sys/x"):
    try:
        pathlib.Path(path).write_text("")
    except OSError as error:
        print(path, error.errno)
print(os.getuid(), os.getgid(), os.getgroups())
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")))
"""


def variables_of_the_image() -> dict[str, str]:
    """The ENV of the Containerfile, but for the path of its programs."""
    stage = read_containerfile(IMAGES / "service.Containerfile").stages[-1]
    found = dict(each.split("=", 1) for text in stage.texts("ENV") for each in text.split())
    assert found.pop("PATH")
    return found


def test_nothing_else_can_be_written(tmp_path: Path) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    root.mkdir()
    with log.open("wb") as file:
        assert read_only_root.start(root, {}, [], ["python", "-c", _PROBE], {}, file).wait(60) == 0, log.read_text()
    *refused, identity, rights = log.read_text().splitlines()
    assert [line.split()[0] for line in refused] == ["/usr/x", "/x", "/etc-x", "/proc/sys/x"]
    assert (identity, rights) == ("1000 1000 []", "0" * 16)


async def test_the_service_needs_no_more(embedded_cluster: ClusterUnderTest, tmp_path: Path) -> None:
    cluster = embedded_cluster
    directories = {name: tmp_path / name for name in ("root", "history", "tmp", "config")}
    for path in directories.values():
        path.mkdir()
    (directories["config"] / "kubeconfig").write_text(cluster.admin_kubeconfig.read_text())
    settings = (
        f"c.DRASpawnerService.namespace = {cluster.namespace!r}\nc.DRASpawnerService.history = {{'keep_days': 3}}\n"
    )
    (directories["config"] / "dra_spawner_service_config.py").write_text(settings)
    for path in directories["config"].iterdir():
        path.chmod(0o644)
    url, log = f"http://127.0.0.1:{free_port()}", tmp_path / "log"
    writable = {
        directories["history"]: "/var/lib/dra-spawner",
        directories["tmp"]: "/tmp",
        directories["config"]: "/etc/dra-spawner",
    }
    environment = {
        **variables_of_the_image(),
        "JUPYTERHUB_SERVICE_URL": url,
        "KUBECONFIG": "/etc/dra-spawner/kubeconfig",
    }
    command = ["sh", "-c", "cd /etc/dra-spawner && exec dra-spawner service"]
    with log.open("wb") as file:
        process = read_only_root.start(directories["root"], writable, [], command, environment, file)
    try:

        async def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as answer:
                    return answer.status == 200 and json.loads(await answer.text())["role"] == "leader"
            except aiohttp.ClientConnectionError:
                return False

        await eventually(is_ready, "the service leads and is ready")

        async def has_history() -> bool:
            return any(directories["history"].iterdir())

        await eventually(has_history, "it records its history")
    finally:
        code = read_only_root.stop(process)
    assert code == 0, log.read_text()
    text = log.read_text()
    assert "in memory" not in text
    assert "Read-only" not in text
    assert "Permission denied" not in text
    assert {path.name for path in directories["history"].iterdir()} >= {"history.sqlite"}
    assert sorted(path.name for path in directories["config"].iterdir()) == [
        "dra_spawner_service_config.py",
        "kubeconfig",
    ]
