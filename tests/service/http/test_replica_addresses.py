"""Where the leader answers: only where a pod like our own is, whatever the Lease says."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.service.http.replica_addresses import ReplicaAddresses
from dra_spawner.simulator.cluster_objects import Kind
from tests.service.http.test_figures import watch_of_nothing

OWN = "http://10.0.0.1:8181/services/dra-spawner/"
OTHER = "http://10.0.0.2:8181/services/dra-spawner/"
LABELS = {"app.kubernetes.io/name": "dra-spawner-service"}


def pod(name: str, address: str, *, account: str = "dra-spawner-service", **changes: Any) -> dict[str, Any]:
    labels = changes.pop("labels", {**LABELS, "pod-template-hash": name})
    metadata = {"name": name, "namespace": changes.pop("namespace", "hub"), "uid": name, "labels": labels}
    spec = {"serviceAccountName": account, "containers": [{"name": "service", "image": "hub:1"}], "nodeName": "n"}
    status = {"phase": changes.pop("phase", "Running"), "podIP": address}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def believed(said: str, *pods: dict[str, Any], own: str = OWN) -> str:
    watch = watch_of_nothing()
    for each in pods:
        watch.put(Kind.POD, each)
    return ReplicaAddresses(watch, "hub", own, said).leader_url


def test_a_pod_like_our_own_is_a_replica() -> None:
    assert believed(OTHER, pod("a", "10.0.0.1"), pod("b", "10.0.0.2")) == OTHER
    six = {"own": "http://[fd00::1]:8181/", "said": "http://[fd00::2]:8181/"}
    assert believed(six["said"], pod("a", "fd00::1"), pod("b", "fd00::2"), own=six["own"]) == six["said"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("b", "10.0.0.2", account="default"), id="another-account"),
        pytest.param(pod("b", "10.0.0.2", labels={"component": "singleuser-server"}), id="a-users-server"),
        pytest.param(pod("b", "10.0.0.2", labels={**LABELS, "app": "evil"}), id="another-label"),
        pytest.param(pod("b", "10.0.0.2", namespace="eve"), id="another-namespace"),
        pytest.param(pod("b", "10.0.0.2", phase="Succeeded"), id="has-ended"),
        pytest.param(pod("b", "10.0.0.3"), id="is-elsewhere"),
        pytest.param(pod("b", ""), id="has-no-address"),
    ],
)
def test_other_pods_are_none(other: dict[str, Any]) -> None:
    assert believed(OTHER, pod("a", "10.0.0.1"), other) == ""


def test_an_administrator_is_told_of_an_address_that_is_none() -> None:
    watch = watch_of_nothing()
    for each in (pod("a", "10.0.0.1"), pod("b", "10.0.0.2")):
        watch.put(Kind.POD, each)
    assert ReplicaAddresses(watch, "hub", OWN, OTHER).problem == ""
    assert ReplicaAddresses(watch, "hub", OWN, "").problem == ""
    assert ReplicaAddresses(watch, "hub", OWN, "http://evil.example/").problem == (
        "The Lease says that the leader answers at 'http://evil.example/', where no pod like this one is: nothing is "
        "passed on to it."
    )
    assert len(ReplicaAddresses(watch, "hub", OWN, "x" * 100_000).problem) < 400


@pytest.mark.parametrize(
    "said",
    [
        "http://10.0.0.2:8182/services/dra-spawner/",
        "http://10.0.0.2:8181/services/other/",
        "http://10.0.0.2:8181/services/dra-spawner/?to=",
        "http://10.0.0.2:8181/services/dra-spawner/#",
        "http://10.0.0.2/services/dra-spawner/",
        "https://10.0.0.2:8181/services/dra-spawner/",
        "file://10.0.0.2:8181/services/dra-spawner/",
        "http://eve@10.0.0.2:8181/services/dra-spawner/",
        "http://eve:x@10.0.0.2:8181/services/dra-spawner/",
        "http://10.0.0.2:8181@evil.example/services/dra-spawner/",
        "http://evil.example:8181/services/dra-spawner/",
        "http://169.254.169.254:8181/services/dra-spawner/",
        "http://127.0.0.1:8181/services/dra-spawner/",
        "http://167772162:8181/services/dra-spawner/",
        "http://10.0.0.02:8181/services/dra-spawner/",
        "http://[::ffff:10.0.0.2]:8181/services/dra-spawner/",
        "http://10.0.0.2:8181/services/dra-spawner/\r\nX: y",
        "HTTP://10.0.0.2:8181/services/dra-spawner/",
        "http://[10.0.0.2:8181/services/dra-spawner/",
        "//10.0.0.2:8181/services/dra-spawner/",
        "10.0.0.2:8181",
        "\ud800",
        " ",
    ],
)
def test_what_is_written_otherwise_is_none(said: str) -> None:
    assert believed(said, pod("a", "10.0.0.1"), pod("b", "10.0.0.2"), pod("c", "127.0.0.1")) == ""


def test_without_our_own_pod_nobody_is_like_it() -> None:
    assert believed(OTHER, pod("b", "10.0.0.2")) == ""
    assert believed(OTHER, pod("a", "10.0.0.1"), pod("a2", "10.0.0.1"), pod("b", "10.0.0.2")) == ""
    assert ReplicaAddresses(None, "hub", OWN, OTHER).leader_url == ""


def test_who_is_no_pod_has_replicas_on_its_own_machine_only() -> None:
    own = "http://127.0.0.1:8181/"
    pods = [pod("a", "127.0.0.1"), pod("b", "10.0.0.2")]
    assert believed("http://127.0.0.1:9191/", *pods, own=own) == "http://127.0.0.1:9191/"
    assert believed("http://10.0.0.2:8181/", *pods, own=own) == ""
    assert believed("http://localhost:9191/", *pods, own=own) == ""
    assert believed("http://127.0.0.1:9191/hub/api/", *pods, own=own) == ""
    assert believed(OTHER, *pods, own="") == ""
    assert believed("", *pods, own=own) == ""
