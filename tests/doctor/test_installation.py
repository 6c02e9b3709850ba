"""Addresses of an installation: the names of its Services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dra_spawner.doctor.installation import addresses_of
from tests.doctor.objects import HUB_LABELS, SERVICE_LABELS, pod


def service_pod(labels: Mapping[str, str] = SERVICE_LABELS, **environment: str) -> dict[str, Any]:
    entries = [{"name": name, "value": value} for name, value in environment.items()]
    found = pod("gpus-abc-x", {**labels, "pod-template-hash": "abc"}, "10.0.0.9", containers=[{"env": entries}])
    found["metadata"]["ownerReferences"] = [{"name": "gpus-abc"}]
    return found


def test_release_and_base_url_are_in_the_addresses() -> None:
    ours = service_pod(
        JUPYTERHUB_API_URL="http://my-hub:8081/jupyter/hub/api", JUPYTERHUB_SERVICE_PREFIX="/jupyter/services/gpus/"
    )
    found = addresses_of([pod("hub", HUB_LABELS), ours])
    assert found == ("http://my-hub:8081/jupyter/", "http://gpus:8181/jupyter/services/gpus/")


def test_without_a_pod_of_the_service_addresses_are_empty() -> None:
    assert addresses_of([pod("hub", HUB_LABELS), service_pod(), service_pod({}, JUPYTERHUB_API_URL="x/hub/api")]) == (
        "",
        "",
    )
