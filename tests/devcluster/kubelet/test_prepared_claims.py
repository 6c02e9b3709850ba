"""Prepared claims: which pods and containers get their devices, by the driver."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.devcluster.kubelet.container_runtime import ContainerStartFailed
from dra_spawner.devcluster.kubelet.prepared_claims import PreparedClaims
from dra_spawner.dra.preparation import PreparedFor

Json = dict[str, Any]
DRIVERS = {"gpu": PreparedFor.CLAIM, "cpu": PreparedFor.CONTAINER, "nic": PreparedFor.POD}


def pod(name: str, *containers: str) -> Json:
    uses = {"claims": [{"name": "devices"}]}
    named = [{"name": each, "resources": uses} for each in containers or ("main",)]
    return {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": "node-a", "containers": named}}


def claim(*drivers: str, pods: tuple[str, ...] = ("first",)) -> Json:
    results = [{"driver": each, "pool": "node-a", "device": "0", "request": each} for each in drivers]
    reserved = [{"resource": "pods", "name": each, "uid": each} for each in pods]
    return {
        "metadata": {"name": "c", "uid": "c"},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    }


def devices(claims: PreparedClaims, of: Json, obj: Json, container: int = 0) -> list[str]:
    """The drivers whose devices a container of a pod gets."""
    claims.prepare(of, obj)
    found = claims.for_container(of, of["spec"]["containers"][container], "devices", obj)
    return [each["driver"] for each in found["status"]["allocation"]["devices"]["results"]]


def test_a_pod_that_joins_gets_what_was_prepared_for_the_claim() -> None:
    claims, both = PreparedClaims(DRIVERS), claim("gpu", "nic", "other", pods=("first", "second"))
    assert devices(claims, pod("first"), both) == ["gpu", "nic", "other"]
    assert devices(claims, pod("second"), both) == ["gpu", "other"]
    claims.unprepare(pod("first"))
    assert devices(claims, pod("second"), claim("nic", pods=("second",))) == [], "it stays prepared for the first"
    claims.unprepare(pod("second"))
    assert devices(claims, pod("second"), claim("nic", pods=("second",))) == ["nic"]


def test_a_claim_is_kept_for_the_first_container_that_names_it() -> None:
    claims, both = PreparedClaims(DRIVERS), claim("cpu", pods=("first", "second"))
    holder = pod("first")
    holder["spec"]["containers"][0]["resources"] = {}
    devices(claims, holder, both)
    second = pod("second", "main", "sidecar")
    assert devices(claims, second, both) == ["cpu"]
    assert devices(claims, second, both) == ["cpu"], "a container that restarts"
    for other, container in ((second, 1), (pod("first"), 0)):
        with pytest.raises(ContainerStartFailed, match='already bound to pod "second" container "main"'):
            devices(claims, other, both, container)
