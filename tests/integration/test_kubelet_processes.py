"""The start conditions of a pod's processes, and their ends."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.cluster.example_objects import pod
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually
from tests.running import is_running

from .kubelet_pods import NODE, REPORT, container_status, report, reporting_pod, waiting_reason


@pytest.fixture
def cluster(embedded_cluster: ClusterUnderTest) -> ClusterUnderTest:
    """The processes are the stand-in's own, whichever API server it serves."""
    return embedded_cluster


async def test_environment_is_the_pods_alone(
    cluster: ClusterUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECRET_OF_THE_MACHINE", "x")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": {"token": "czNjcmV0"}}
    await cluster.publish(NODE, secret)
    body = reporting_pod("user", tmp_path)
    body["spec"]["containers"][0]["env"] += [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "URL", "value": "http://0.0.0.0:8888/$(NAME)/$(MISSING)/$$(NAME)"},
    ]
    await cluster.publish(body)
    running = await cluster.wait_running("user")
    seen = await report(tmp_path, "user")
    address = running["status"]["podIP"]
    assert {key: seen[key] for key in ("NAME", "IP", "NODE", "TOKEN", "URL")} == {
        "NAME": "user",
        "IP": address,
        "NODE": "node-a",
        "TOKEN": "s3cret",
        "URL": f"http://{address}:8888/user/$(MISSING)/$(NAME)",
    }
    assert "SECRET_OF_THE_MACHINE" not in seen
    assert seen["CWD"] == seen["HOME"] != str(Path.home())


async def test_files_on_a_claim_outlive_the_pod(cluster: ClusterUnderTest, tmp_path: Path):
    """The directory behind the claim is where the pod works; paths in its arguments lead there, too."""
    await cluster.publish(NODE)
    home = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "home-user"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    }
    await cluster.publish(home)
    volumes = [{"name": "home", "persistentVolumeClaim": {"claimName": "home-user"}}]
    for script in ("open(sys.argv[1], 'x').write('kept')", "assert open('notes.txt').read() == 'kept'"):
        command = [sys.executable, "-c", f"import sys; {script}", "/home/jovyan/notes.txt"]
        body = pod("user", command, volumes=volumes)
        body["spec"]["containers"][0]["volumeMounts"] = [{"name": "home", "mountPath": "/home/jovyan"}]
        await cluster.publish(body)
        ended = await cluster.wait_for(
            cluster.path("pods", "user"), lambda obj: obj["status"]["phase"] in ("Succeeded", "Failed")
        )
        assert ended["status"]["phase"] == "Succeeded"
        await cluster.admin.delete(cluster.path("pods", "user"))
        await cluster.wait_gone(cluster.path("pods", "user"))


async def test_exit_codes_decide_phase_and_restarts(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE)
    await cluster.publish(pod("well", [sys.executable, "-c", "pass"], restartPolicy="OnFailure"))
    await cluster.publish(pod("badly", [sys.executable, "-c", "raise SystemExit(3)"], restartPolicy="Never"))
    well = await cluster.wait_for(cluster.path("pods", "well"), lambda obj: obj["status"]["phase"] == "Succeeded")
    badly = await cluster.wait_for(cluster.path("pods", "badly"), lambda obj: obj["status"]["phase"] == "Failed")
    assert well["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
    terminated = badly["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (3, "Error")
    assert all(terminated[key] for key in ("startedAt", "finishedAt"))

    # Fails the first time only.
    script = (
        "import pathlib,signal; p=pathlib.Path('again'); p.exists() and signal.pause(); p.touch(); raise SystemExit(1)"
    )
    await cluster.publish(pod("again", [sys.executable, "-c", script], restartPolicy="OnFailure"))
    again = await cluster.wait_for(
        cluster.path("pods", "again"),
        lambda obj: container_status(obj).get("restartCount") == 1 and "running" in container_status(obj)["state"],
    )
    assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


async def test_term_is_followed_by_kill_after_the_grace(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE)
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{REPORT}"
    body = reporting_pod("stubborn", tmp_path, terminationGracePeriodSeconds=1)
    body["spec"]["containers"][0]["command"][2] = stubborn
    await cluster.publish(body)
    await cluster.wait_running("stubborn")
    pid = int((await report(tmp_path, "stubborn"))["PID"])
    began = time.monotonic()
    await cluster.admin.delete(cluster.path("pods", "stubborn"))
    await cluster.wait_gone(cluster.path("pods", "stubborn"))
    assert time.monotonic() - began > 0.9
    assert not is_running(pid)


async def test_nothing_outlives_the_container(cluster: ClusterUnderTest, tmp_path: Path):
    """A child in a session of its own, like a notebook's kernel, ends with its pod."""
    await cluster.publish(NODE)
    child = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    script = (
        "import os, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        f"os.environ['CHILD'] = str(child.pid)\n{REPORT}"
    )
    body = reporting_pod("parent", tmp_path)
    body["spec"]["containers"][0]["command"][2] = script
    await cluster.publish(body)
    await cluster.wait_running("parent")
    child_pid = int((await report(tmp_path, "parent"))["CHILD"])
    assert is_running(child_pid)
    await cluster.admin.delete(cluster.path("pods", "parent"))
    await cluster.wait_gone(cluster.path("pods", "parent"))
    await eventually(lambda: not is_running(child_pid), "the child ends")


async def test_force_deletion_ends_the_process(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE)
    await cluster.publish(reporting_pod("user", tmp_path))
    await cluster.wait_running("user")
    pid = int((await report(tmp_path, "user"))["PID"])
    await cluster.admin.delete(cluster.path("pods", "user"), grace_period_seconds=0)
    await eventually(lambda: not is_running(pid), "the process ends")


async def test_missing_program_is_shown_in_status_and_event(cluster: ClusterUnderTest):
    await cluster.publish(NODE)
    await cluster.publish(pod("user", ["/no/such/program"]))
    await cluster.wait_event("user", "Failed", text='Error: exec: "/no/such/program"')
    body = await cluster.wait_for(
        cluster.path("pods", "user"),
        lambda obj: waiting_reason(obj) == "CreateContainerError",
    )
    assert body["status"]["phase"] == "Pending"


async def test_logs_are_kept(embedded_cluster: ClusterUnderTest):
    """On the embedded cluster, where the API server asks the kubelet stand-in for them."""
    await embedded_cluster.publish(NODE)
    script = "import signal; print('hello', flush=True); signal.pause()"
    await embedded_cluster.publish(pod("user", [sys.executable, "-c", script]))
    await embedded_cluster.wait_running("user")
    path = embedded_cluster.path("pods", "user", "log")

    async def log_is_there() -> bool:
        return await embedded_cluster.admin.get_text(path) == "hello\n"

    await eventually(log_is_there, "the log has the output")
