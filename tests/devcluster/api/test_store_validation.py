"""Refusals and defaults that users of this project meet; `test_fidelity` compares all of them with a real API server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dra_spawner.devcluster.api import resource_types as types
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.schema import decode_object, unknown_fields
from dra_spawner.devcluster.api.storage.store import Store
from tests.all_of_them import all_of_them

from . import fidelity_cases as cases


def new_store() -> Store:
    return Store(lambda: datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
def store() -> Store:
    return new_store()


@all_of_them("resource_type, body, is_accepted", cases.BODIES)
def test_bodies(resource_type: types.ResourceType, body: dict[str, Any], is_accepted: bool) -> None:
    store, namespace = new_store(), "default" if resource_type.namespaced else None
    if is_accepted:
        created = store.create(resource_type, body, namespace)
        assert store.update(resource_type, created) is created, "it is accepted as an update, too, and changes nothing"
        return
    with pytest.raises(ApiError) as refusal:
        store.create(resource_type, body, namespace)
    assert refusal.value.status_code in (400, 403, 422)
    assert store.find(resource_type, namespace, body["metadata"]["name"]) is None


def test_admin_access_in_a_labelled_namespace(store: Store) -> None:
    labels = {"resource.kubernetes.io/admin-access": "true"}
    store.create(types.NAMESPACES, {"metadata": {"name": "admin", "labels": labels}})
    spec = {"devices": {"requests": [cases.request(adminAccess=True)]}}
    created = store.create(types.RESOURCECLAIMS, {"metadata": {"name": "c"}, "spec": spec}, "admin")
    assert created["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] is True


@pytest.mark.parametrize("resource_type", [types.RESOURCECLAIMS, types.RESOURCECLAIMTEMPLATES], ids=str)
def test_specs_of_claims_and_templates_do_not_change(store: Store, resource_type: types.ResourceType) -> None:
    spec: dict[str, Any] = {"devices": {"requests": [cases.request()]}}
    if resource_type is types.RESOURCECLAIMTEMPLATES:
        spec = {"spec": spec}
    created = store.create(resource_type, {"metadata": {"name": "c"}, "spec": spec}, "default")
    store.patch(resource_type, "default", "c", {"metadata": {"labels": {"a": "b"}}})
    other = {"devices": {"requests": [cases.request(count=2)]}}
    with pytest.raises(ApiError, match="field is immutable"):
        store.patch(
            resource_type,
            "default",
            "c",
            {"spec": {"spec": other} if resource_type is types.RESOURCECLAIMTEMPLATES else other},
        )
    assert store.get(resource_type, "default", "c")["spec"] == created["spec"]


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        pytest.param({"driver": "e.example.com"}, False, id="driver"),
        pytest.param({"pool": {"name": "q"}}, False, id="pool"),
        pytest.param({"nodeName": "n2"}, False, id="node"),
        pytest.param({"pool": {"generation": 2}}, True, id="generation"),
        pytest.param({"devices": []}, True, id="devices"),
    ],
)
def test_only_devices_and_generation_of_a_slice_may_change(store: Store, change: dict[str, Any], allowed: bool) -> None:
    store.create(types.RESOURCESLICES, {"metadata": {"name": "s"}, "spec": cases.slice_spec([cases.device()])})
    if allowed:
        store.patch(types.RESOURCESLICES, None, "s", {"spec": change})
        return
    with pytest.raises(ApiError, match="field is immutable"):
        store.patch(types.RESOURCESLICES, None, "s", {"spec": change})


def test_step_zero_is_refused(store: Store) -> None:
    spec = cases.limits("1Gi", min="1Gi", step="0")  # the real API server fails on it, with a panic
    with pytest.raises(ApiError, match="must be greater than zero"):
        store.create(types.RESOURCESLICES, {"metadata": {"name": "s"}, "spec": spec})


@all_of_them(
    "body, message",
    {
        "name": ({"metadata": {"name": 5}}, "number into Go struct field ObjectMeta.metadata.name"),
        "list": ({"spec": {"containers": {}}}, "object into Go struct field PodSpec.spec.containers"),
        "structure": ({"spec": 5}, "number into Go struct field Pod.spec"),
        "bool": ({"spec": {"hostNetwork": "yes"}}, "string into Go struct field"),
        "int32": ({"spec": {"priority": 2**31}}, "number 2147483648 into Go struct field"),
        "bool-as-int": ({"spec": {"priority": True}}, "bool into Go struct field"),
        "kind": ({"kind": "Job"}, "Job in version"),
        "version": ({"apiVersion": "v2"}, 'registered for version "v2"'),
        "map": ({"metadata": {"labels": {"a": 1}}}, "of type string"),
        "time": ({"metadata": {"creationTimestamp": "now"}}, 'parsing time "now"'),
    },
)
def test_wrong_types_are_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        decode_object(types.PODS, body)
    assert refusal.value.status_code == 400
    assert message in refusal.value.message


def test_decoding_makes_canonical() -> None:
    decoded = decode_object(
        types.PODS,
        {
            "metadata": {"labels": {}, "creationTimestamp": "2030-01-01T02:00:00.5+02:00", "nonsense": 1},
            "spec": {"containers": [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}], "hostname": None},
        },
    )
    assert decoded["metadata"] == {"creationTimestamp": "2030-01-01T00:00:00Z"}
    assert decoded["spec"] == {"containers": [{"resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}]}


def test_unknown_fields_are_found() -> None:
    body = {"spec": {"containers": [{"imagee": "i"}], "nodeSelector": {"any": "key"}}, "x": 1}
    assert unknown_fields(types.PODS, body) == ["spec.containers[0].imagee", "x"]
