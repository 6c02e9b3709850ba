"""Pods and claims of tests on a real node."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from dra_spawner.common.json_types import JsonObject
from tests.polling import eventually_sync

from .images import PAUSE, QUICK_SERVER


def pod(
    name: str, *, claim: str = "", template: str = "", image: str = PAUSE, grace_seconds: int = 1, **spec: Any
) -> JsonObject:
    """A pod with one container; with a claim, or a template of one, that its container uses."""
    container: JsonObject = {"name": "main", "image": image, "resources": {"requests": {"cpu": "10m"}}}
    claims = []
    if claim or template:
        source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
        claims = [{"name": "device", **source}]
        container["resources"]["claims"] = [{"name": "device"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "resourceClaims": claims,
            "terminationGracePeriodSeconds": grace_seconds,
            "restartPolicy": "Never",
            # No account's token is given to pods here.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            **spec,
        },
    }


def server_pod(name: str, **options: Any) -> JsonObject:
    """A pod that answers on port 8888 with its environment."""
    return pod(name, image=QUICK_SERVER, **options)


def claim(name: str, device_class: str, *, cel: str = "", **capacity: str) -> JsonObject:
    """A claim for one device of a class, or for a share of it."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": claim_spec(device_class, cel=cel, **capacity),
    }


def claim_template(name: str, device_class: str, *, cel: str = "", **capacity: str) -> JsonObject:
    """A template of such claims."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": claim_spec(device_class, cel=cel, **capacity)},
    }


def claim_spec(device_class: str, *, cel: str = "", **capacity: str) -> JsonObject:
    exactly: JsonObject = {"deviceClassName": device_class}
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    if cel:
        exactly["selectors"] = [{"cel": {"expression": cel}}]
    return {"devices": {"requests": [{"name": "main", "exactly": exactly}]}}


def is_unschedulable(found: JsonObject) -> bool:
    """Whether the scheduler has found no node for a pod."""
    conditions = found["status"].get("conditions") or []
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)


def environment(running: JsonObject) -> dict[str, str]:
    """Environment of the container of a running `server_pod`, as its answer; it may have started in this moment."""

    def answer() -> dict[str, str] | None:
        try:
            with urllib.request.urlopen(f"http://{running['status']['podIP']}:8888/", timeout=60) as found:
                return dict(json.load(found))
        except urllib.error.URLError:
            return None

    return eventually_sync(answer, f"pod {running['metadata']['name']} answers")


def container_ids(running: JsonObject) -> list[str]:
    return [status["containerID"] for status in running["status"]["containerStatuses"]]
