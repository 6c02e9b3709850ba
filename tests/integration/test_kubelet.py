"""The kubelet stand-in on both clusters: pods that are processes, with their devices, from creation to nothing left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dra_spawner.cluster.api import JsonObject, KubernetesApi, KubernetesError, resource_path
from dra_spawner.devcluster.clock import ScaledClock
from dra_spawner.devcluster.container_runtime import FakeRuntime
from dra_spawner.devcluster.example_nodes import example_nodes, example_objects
from dra_spawner.devcluster.images import PullFailed
from dra_spawner.devcluster.kubelet import Kubelet
from dra_spawner.devcluster.node_agent import node_manifest
from tests.cluster.example_objects import gpu_class, gpu_slice, pod, share_template
from tests.cluster.fault_proxy import Fault, FaultProxy
from tests.cluster.under_test import ClusterUnderTest

# Writes its environment to a file and waits to be ended.
REPORT = (
    "import json, os, pathlib, signal\n"
    "seen = dict(os.environ, CWD=os.getcwd(), PID=str(os.getpid()))\n"
    "pathlib.Path(os.environ['REPORT']).write_text(json.dumps(seen))\n"
    "while True: signal.pause()\n"
)
NODE = node_manifest("node-a")


def reporting_pod(name: str, directory: Path, **options: object) -> JsonObject:
    body = pod(name, [sys.executable, "-c", REPORT], **options)
    body["spec"]["containers"][0]["env"] = [{"name": "REPORT", "value": str(directory / f"{name}.json")}]
    return body


async def report(directory: Path, name: str) -> dict[str, str]:
    """What the pod's process has seen."""
    async with asyncio.timeout(20):
        while True:
            try:
                return json.loads((directory / f"{name}.json").read_text())
            except (FileNotFoundError, ValueError):
                await asyncio.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def container_status(obj: JsonObject) -> JsonObject:
    """Of the pod's only container; empty as long as there is none."""
    return (obj["status"].get("containerStatuses") or [{}])[0]


def waiting_reason(obj: JsonObject) -> str:
    return container_status(obj).get("state", {}).get("waiting", {}).get("reason", "")


async def until(condition, *, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


async def test_share_reaches_the_process_and_everything_goes_with_the_pod(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE, gpu_class(), gpu_slice("node-a"), share_template("share", "12Gi"))
    await cluster.publish(reporting_pod("user", tmp_path, template="share"))
    running = await cluster.wait_running("user")
    seen = await report(tmp_path, "user")
    status = running["status"]
    claim_name = status["resourceClaimStatuses"][0]["resourceClaimName"]

    assert seen["DRA_DEVICE_0"] == "gpu.example.com/node-a/gpu-0"
    assert seen["DRA_CLAIM_GPU_DEVICE"] == "node-a/gpu-0"
    assert seen["DRA_CLAIM_GPU_MEMORY"] == "15Gi"  # 12Gi, rounded up to the device's step
    [device] = json.loads(seen["DRA_DEVICES"])
    assert device.pop("shareID")
    assert device == {
        "claim": "gpu",
        "resourceClaim": claim_name,
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": "node-a",
        "device": "gpu-0",
        "consumedCapacity": {"memory": "15Gi"},
    }
    assert status["podIP"].startswith("127.")
    assert status["containerStatuses"][0]["ready"] is True
    assert "running" in status["containerStatuses"][0]["state"]
    reasons = [event["reason"] for event in await cluster.events("user")]
    assert {"Scheduled", "Pulled", "Created", "Started"} <= set(reasons)

    await cluster.admin.delete(cluster.path("pods", "user"))
    await cluster.wait_gone(cluster.path("pods", "user"))
    await until(lambda: not is_running(int(seen["PID"])))
    await cluster.wait_gone(cluster.path("resourceclaims", claim_name))
    await cluster.wait_event("user", "Killing", text="Stopping container main")
    assert not list((cluster.directory / "kubelet" / "pods").iterdir())


async def test_two_pods_share_one_device_and_a_third_waits(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE, gpu_class(), gpu_slice("node-a"), share_template("share", "20Gi"))
    for name in ("one", "two"):
        await cluster.publish(reporting_pod(name, tmp_path, template="share"))
        await cluster.wait_running(name)
    await cluster.publish(reporting_pod("three", tmp_path, template="share"))
    await cluster.wait_event("three", "FailedScheduling")
    seen = [await report(tmp_path, name) for name in ("one", "two")]
    assert [each["DRA_CLAIM_GPU_MEMORY"] for each in seen] == ["20Gi", "20Gi"]
    devices = [json.loads(each["DRA_DEVICES"])[0] for each in seen]
    assert devices[0]["shareID"] != devices[1]["shareID"]

    await cluster.admin.delete(cluster.path("pods", "one"))
    await cluster.wait_running("three")
    assert (await report(tmp_path, "three"))["DRA_CLAIM_GPU_DEVICE"] == "node-a/gpu-0"


async def test_only_the_named_container_sees_the_device(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE, gpu_class(), gpu_slice("node-a"), share_template("share", "5Gi"))
    body = reporting_pod("user", tmp_path, template="share")
    side = {
        "name": "side",
        "image": "example.com/image:1",
        "command": [sys.executable, "-c", REPORT],
        "env": [{"name": "REPORT", "value": str(tmp_path / "side.json")}],
    }
    body["spec"]["containers"].append(side)
    await cluster.publish(body)
    await cluster.wait_running("user")
    assert "DRA_DEVICES" in await report(tmp_path, "user")
    assert not [name for name in await report(tmp_path, "side") if name.startswith("DRA_")]


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
    if cluster.kind == "real":
        await provide_volume(cluster, "home-user")
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


async def provide_volume(cluster: ClusterUnderTest, claim: str) -> None:
    """What a provisioner would do: a volume for one claim."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{cluster.namespace}-{claim}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": cluster.namespace, "name": claim},
            "storageClassName": "",
        },
    }
    await cluster.admin.create("/api/v1/persistentvolumes", volume)


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


async def test_crash_loop_backs_off(cluster: ClusterUnderTest):
    await cluster.publish(NODE)
    await cluster.publish(pod("loop", [sys.executable, "-c", "raise SystemExit(1)"], restartPolicy="Always"))
    body = await cluster.wait_for(
        cluster.path("pods", "loop"),
        lambda obj: waiting_reason(obj) == "CrashLoopBackOff",
    )
    status = body["status"]["containerStatuses"][0]
    assert "back-off 10s restarting failed container=main" in status["state"]["waiting"]["message"]
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert body["status"]["phase"] == "Running"
    await cluster.wait_event("loop", "BackOff", text="Back-off restarting failed container main in pod loop_")


async def test_back_off_doubles_and_runs_on_the_clusters_clock(cluster: ClusterUnderTest):
    """A minute and more of back-off in under a second."""
    await cluster.start_kubelet(fake=True, clock=ScaledClock(speed=200))
    assert cluster.fake_runtime is not None
    await cluster.publish(NODE)
    await cluster.publish(pod("loop", [], restartPolicy="Always"))
    waited = []
    async with asyncio.timeout(30):
        async for _, obj in cluster.admin.watch(cluster.path("pods")):
            state = container_status(obj).get("state", {})
            if "waiting" in state and state["waiting"]["reason"] == "CrashLoopBackOff":
                waited.append(state["waiting"]["message"].partition(" restarting")[0])
            if "running" in state:
                if container_status(obj)["restartCount"] == 4:
                    break
                cluster.fake_runtime.exit(cluster.namespace, "loop", "main", 1)
    # The first restart is at once.
    assert list(dict.fromkeys(waited)) == ["back-off 10s", "back-off 20s", "back-off 40s"]


async def test_kubelet_gets_over_an_ailing_api_server(cluster: ClusterUnderTest):
    async with cluster.fault_proxy() as proxy, api_through(cluster, proxy) as api:
        proxy.fail(Fault.answer(500), verb="patch", resource="pods/status", times=2)
        proxy.fail(Fault.lose_answer(), verb="patch", resource="pods/status", nth=4)
        proxy.fail(Fault.answer(503), verb="list", resource="pods", nth=2)
        kubelet = Kubelet(api, [node_manifest("node-a")], runtime=FakeRuntime())
        await kubelet.start()
        try:
            await kubelet.wait_schedulable()
            await cluster.publish(pod("one", []))
            await cluster.wait_running("one")
            proxy.fail(Fault.refuse(), verb="delete", resource="pods", times=3)
            await cluster.admin.delete(cluster.path("pods", "one"))
            await cluster.wait_gone(cluster.path("pods", "one"))
            assert proxy.count("patch", "pods/status") >= 3
        finally:
            await kubelet.stop()


async def test_new_kubelet_takes_over_pods_and_a_broken_watch_is_begun_again(cluster: ClusterUnderTest):
    async with cluster.fault_proxy() as proxy, api_through(cluster, proxy) as api:
        proxy.fail(Fault.refuse(), verb="watch", resource="pods", times=4)
        first = Kubelet(api, [node_manifest("node-a")], runtime=FakeRuntime())
        await first.start()
        await first.wait_schedulable()
        await cluster.publish(pod("one", []), pod("two", []))
        await cluster.wait_running("one")
        await cluster.wait_running("two")
        await first.stop()
        await cluster.admin.delete(cluster.path("pods", "one"))
        second = Kubelet(api, [node_manifest("node-a")], runtime=FakeRuntime())
        await second.start()
        try:
            await cluster.wait_gone(cluster.path("pods", "one"))
            await cluster.admin.delete(cluster.path("pods", "two"))
            await cluster.wait_gone(cluster.path("pods", "two"))
        finally:
            await second.stop()


@contextlib.asynccontextmanager
async def api_through(cluster: ClusterUnderTest, proxy: FaultProxy) -> AsyncIterator[KubernetesApi]:
    """An administrator's API through the proxy."""
    kubeconfig = cluster.admin_kubeconfig_for(proxy.url)
    async with await KubernetesApi.from_kubeconfig(kubeconfig, timeout_seconds=2.0) as api:
        yield api


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
    assert 0.9 < time.monotonic() - began < 6
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
    await until(lambda: not is_running(child_pid))


async def test_force_deletion_ends_the_process(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE)
    await cluster.publish(reporting_pod("user", tmp_path))
    await cluster.wait_running("user")
    pid = int((await report(tmp_path, "user"))["PID"])
    await cluster.admin.delete(cluster.path("pods", "user"), grace_period_seconds=0)
    await until(lambda: not is_running(pid))


async def test_missing_program_is_told_in_status_and_event(cluster: ClusterUnderTest):
    await cluster.publish(NODE)
    await cluster.publish(pod("user", ["/no/such/program"]))
    await cluster.wait_event("user", "Failed", text='Error: exec: "/no/such/program"')
    body = await cluster.wait_for(
        cluster.path("pods", "user"),
        lambda obj: waiting_reason(obj) == "CreateContainerError",
    )
    assert body["status"]["phase"] == "Pending"


async def test_image_pull_takes_its_time_and_may_fail(cluster: ClusterUnderTest):
    def pull_seconds(node: str, image: str) -> float:
        if "missing" in image:
            raise PullFailed("not found")
        return 0.5

    await cluster.start_kubelet(fake=True, pull_seconds=pull_seconds)
    await cluster.publish(NODE)
    await cluster.publish(pod("first", []))
    await cluster.wait_running("first")
    await cluster.publish(pod("second", []))
    await cluster.wait_running("second")
    reasons = {name: {each["reason"] for each in await cluster.events(name)} for name in ("first", "second")}
    assert "Pulling" in reasons["first"]
    assert "Pulling" not in reasons["second"]
    node = await cluster.admin.get("/api/v1/nodes/node-a")
    assert [image["names"] for image in node["status"]["images"]] == [["example.com/image:1"]]

    body = pod("third", [])
    body["spec"]["containers"][0]["image"] = "example.com/missing:1"
    await cluster.publish(body)
    await cluster.wait_event("third", "Failed", text='Failed to pull image "example.com/missing:1"')
    await cluster.wait_for(
        cluster.path("pods", "third"),
        lambda obj: waiting_reason(obj) == "ImagePullBackOff",
    )


async def test_node_that_goes_takes_its_pods_along(cluster: ClusterUnderTest, tmp_path: Path):
    await cluster.publish(NODE)
    await cluster.publish(reporting_pod("user", tmp_path))
    await cluster.wait_running("user")
    pid = int((await report(tmp_path, "user"))["PID"])
    await cluster.remove_node("node-a")
    assert not is_running(pid)
    await cluster.wait_gone("/api/v1/nodes/node-a")
    await cluster.wait_gone(cluster.path("pods", "user"))


async def test_several_hundred_fake_pods_start_quickly(cluster: ClusterUnderTest):
    await cluster.start_kubelet(fake=True, events=False)
    await cluster.publish(*(node_manifest(f"node-{number}") for number in range(4)))
    began = time.monotonic()
    bodies = [pod(f"pod-{number}", [], nodeName=f"node-{number % 4}") for number in range(300)]
    await asyncio.gather(*(cluster.admin.create(cluster.path("pods"), body) for body in bodies))
    await cluster.wait_for(
        cluster.path("pods"),
        lambda answer: sum(each["status"]["phase"] == "Running" for each in answer["items"]) == len(bodies),
    )
    took = time.monotonic() - began
    addresses = {each["status"]["podIP"] for each in (await cluster.admin.list(cluster.path("pods")))["items"]}
    assert len(addresses) == len(bodies)
    assert took < 20


async def test_examples_of_the_demo_are_accepted(cluster: ClusterUnderTest):
    await cluster.start_kubelet(fake=True)
    created = await cluster.publish(*example_objects())
    nodes = (await cluster.admin.list(resource_path("v1", "nodes")))["items"]
    assert {node["metadata"]["name"] for node in nodes} == {node["metadata"]["name"] for node in example_nodes()}
    assert {obj["kind"] for obj in created} == {"DeviceClass", "ResourceSlice"}


async def test_logs_are_kept(embedded_cluster: ClusterUnderTest):
    """On the embedded cluster, where the API server asks the kubelet stand-in for them."""
    await embedded_cluster.publish(NODE)
    script = "import signal; print('hello', flush=True); signal.pause()"
    await embedded_cluster.publish(pod("user", [sys.executable, "-c", script]))
    await embedded_cluster.wait_running("user")
    async with asyncio.timeout(10):
        while True:
            if await embedded_cluster.admin.get_text(embedded_cluster.path("pods", "user", "log")) == "hello\n":
                return
            await asyncio.sleep(0.02)


async def test_hub_account_may_do_what_is_shipped_and_no_more(real_cluster: ClusterUnderTest):
    cluster = real_cluster
    async with await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig) as hub:
        await hub.list(cluster.path("pods"))
        await hub.list(cluster.path("resourceclaimtemplates"))
        for request in (
            hub.list(cluster.path("configmaps")),
            hub.list(resource_path("v1", "pods", "kube-system")),
            hub.patch(cluster.path("pods", "any"), {"metadata": {"labels": {"a": "b"}}}),
            hub.delete(resource_path("v1", "nodes", name="any")),
        ):
            with pytest.raises(KubernetesError) as refused:
                await request
            assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_synchronous_tests_can_use_the_cluster(cluster: ClusterUnderTest, tmp_path: Path):
    cluster.run(cluster.publish(NODE, reporting_pod("user", tmp_path)))
    running = cluster.run(cluster.wait_running("user"))
    assert running["spec"]["nodeName"] == "node-a"
