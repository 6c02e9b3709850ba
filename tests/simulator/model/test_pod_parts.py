"""What is read of a pod's status."""

from __future__ import annotations

from typing import Any

from dra_spawner.simulator.model.pods import Pod
from tests.all_of_them import all_of_them


@all_of_them("state, why", {
    "an image": ({"waiting": {"reason": "ErrImagePull", "message": "pause:\n  not found"}}, "ErrImagePull: pause: not found"),
    "without a message": ({"waiting": {"reason": "ImagePullBackOff"}}, "ImagePullBackOff"),
    "being made": ({"waiting": {"reason": "ContainerCreating"}}, ""),
    "running": ({"running": {}}, ""),
    "nothing": (None, ""),
    "long": ({"waiting": {"reason": "X", "message": "y" * 10_000}}, f"X: {'y' * 297}"),
})  # fmt: skip
def test_why_a_container_does_not_start(state: dict[str, Any] | None, why: str) -> None:
    status = {"containerStatuses": [{"name": "c", **({"state": state} if state is not None else {})}]}
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": []}, "status": status}
    assert Pod.from_json(pod).waits_because == why
