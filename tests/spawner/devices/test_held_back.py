"""Why a pod with scheduling gates waits, whatever Kueue answers."""

from __future__ import annotations

from typing import Any, cast

from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.kube.client.api_errors import RequestTarget
from dra_spawner.spawner.devices.held_back import why_held_back
from tests.all_of_them import all_of_them

UID = "1f0e"
QUEUED = "This cluster starts servers in turn, through a queue."
PATH = "/apis/visibility.kueue.x-k8s.io/{}/namespaces/hub/localqueues/students/pendingworkloads"


def workload(uid: str, place: object) -> dict[str, Any]:
    return {"metadata": {"ownerReferences": [{"uid": uid}]}, "positionInClusterQueue": place}


class Answers:
    """Stands in for the API server; what it has no answer for does not exist."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    async def get(self, path: str) -> Any:
        answer = self.answers.get(path, 404)
        if isinstance(answer, int):
            raise KubernetesError(
                RequestTarget("get", path), status=answer, reason="NotFound" if answer == 404 else "", message=""
            )
        return answer


def gated(gate: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": "jupyter-ada", "namespace": "hub", "uid": UID, "labels": labels}
    return {"metadata": metadata, "spec": {"schedulingGates": [{"name": gate}]}}


NEW, OLD = PATH.format("v1beta2"), PATH.format("v1beta1")


@all_of_them(
    "answers, outlook",
    {
        "the next": ({NEW: {"items": [workload("other", 1), workload(UID, 0)]}}, "It is the next."),
        "an older release": ({OLD: {"items": [workload(UID, 7)]}}, "Before it: 7."),
        "not in the list": ({NEW: {"items": [workload("other", 0)]}}, ""),
        "no right": ({NEW: 403, OLD: {"items": [workload(UID, 7)]}}, ""),
        "no such API": ({}, ""),
        "nothing": ({NEW: None}, ""),
        "a list": ({NEW: [1]}, ""),
        "items of another kind": (
            {NEW: {"items": [None, {"metadata": []}, {"metadata": {"ownerReferences": [3]}}]}},
            "",
        ),
        "no number": ({NEW: {"items": [workload(UID, "<b>")]}}, ""),
        "a negative place": ({NEW: {"items": [workload(UID, -1)]}}, ""),
    },
)
async def test_a_place_in_the_queue(answers: dict[str, Any], outlook: str):
    pod = gated("kueue.x-k8s.io/admission", **{"kueue.x-k8s.io/queue-name": "students"})
    found = await why_held_back(cast(KubernetesApi, Answers(answers)), pod)
    assert (found.sentence, found.outlook) == (QUEUED, outlook)


async def test_other_gates_ask_nothing():
    found = await why_held_back(cast(KubernetesApi, None), gated("example.com/<script>"))
    assert found.while_waiting.startswith("Another system of this cluster holds this server back. It starts when")
    assert "example" not in found.while_waiting
    without_queue = await why_held_back(cast(KubernetesApi, None), gated("kueue.x-k8s.io/admission"))
    assert without_queue.while_waiting == QUEUED
