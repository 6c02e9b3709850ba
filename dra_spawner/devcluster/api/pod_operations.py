"""The subresources of pods that are operations: binding and eviction."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError, conflict
from dra_spawner.devcluster.api.resource_types import PODDISRUPTIONBUDGETS, PODS
from dra_spawner.devcluster.api.selectors import structured_label_selector
from dra_spawner.devcluster.api.storage.deletion import Deletion, timestamp
from dra_spawner.devcluster.api.storage.store import Store


def bind_pod(
    store: Store,
    namespace: str,
    name: str,
    node_name: str,
    *,
    uid: str | None = None,
    annotations: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> JsonObject:
    """Assign a pod to a node, as the scheduler's POST to ``pods/<name>/binding`` does.

    Parameters
    ----------
    uid
        If given, only the pod with this uid is bound.

    Raises
    ------
    ApiError
        ``NotFound``, or ``Conflict`` when the pod is bound, being deleted or gated, or has another uid.
    """
    pod = store.get(PODS, namespace, name)
    metadata, spec = pod["metadata"], pod["spec"]
    why = ""
    if uid and uid != metadata["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
    elif metadata.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(PODS, name, why, subresource="binding")
    moment = timestamp(store.now())
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": moment}
    # A nomination ends with the binding.
    status = {key: value for key, value in pod.get("status", {}).items() if key != "nominatedNodeName"}
    others = [entry for entry in status.get("conditions", ()) if entry["type"] != "PodScheduled"]
    bound: JsonObject = {
        **pod,
        "spec": {**spec, "nodeName": node_name},
        "status": {**status, "conditions": [*others, scheduled]},
    }
    if annotations:
        merged = {**metadata.get("annotations", {}), **annotations}
        bound["metadata"] = {**metadata, "annotations": merged}
    return store.replace(PODS, pod, bound, dry_run=dry_run)


def evict_pod(store: Store, namespace: str, name: str, **options: Any) -> Deletion:
    """Delete a pod unless a PodDisruptionBudget forbids it: POST to ``pods/<name>/eviction``.

    A pod that does not run may always be evicted.

    Parameters
    ----------
    options
        Of `Store.delete`.

    Raises
    ------
    ApiError
        ``NotFound``, ``TooManyRequests`` (429) when a budget is used up.
    """
    pod = store.get(PODS, namespace, name)
    phase = pod.get("status", {}).get("phase")
    if phase == "Running" and not pod["metadata"].get("deletionTimestamp"):
        _check_budgets(store, pod)
    return store.delete(PODS, namespace, name, **options)


def _check_budgets(store: Store, pod: JsonObject) -> None:
    namespace = pod["metadata"]["namespace"]
    budgets = [
        budget
        for budget in store.objects(PODDISRUPTIONBUDGETS, namespace)
        if structured_label_selector(budget["spec"].get("selector") or {}).matches(pod["metadata"].get("labels"))
    ]
    if len(budgets) > 1:
        raise ApiError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    for budget in budgets:
        pods = _selected_pods(store, budget)
        healthy = sum(map(_is_ready, pods))
        needed = _healthy_needed(budget["spec"], len(pods))
        # The eviction of a pod that is not ready does not change the number of healthy pods.
        if healthy - 1 < needed if _is_ready(pod) else healthy < needed:
            raise _budget_used_up(budget["metadata"]["name"], needed, healthy)


def _selected_pods(store: Store, budget: JsonObject) -> list[JsonObject]:
    selector = structured_label_selector(budget["spec"].get("selector") or {})
    return [
        pod
        for pod in store.objects(PODS, budget["metadata"]["namespace"])
        if selector.matches(pod["metadata"].get("labels"))
        and not pod["metadata"].get("deletionTimestamp")
        and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]


def _is_ready(pod: JsonObject) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def _healthy_needed(spec: JsonObject, expected: int) -> int:
    """Number of pods that must stay ready; percentages round up, as in the disruption controller."""
    if "maxUnavailable" in spec:
        return max(0, expected - _scaled(spec["maxUnavailable"], expected))
    return _scaled(spec.get("minAvailable", 1), expected)


def _scaled(value: Any, total: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return -(-int(value[:-1]) * total // 100)
    return int(value)


def _budget_used_up(name: str, needed: int, healthy: int) -> ApiError:
    cause = {
        "reason": "DisruptionBudget",
        "message": f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently",
    }
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {"causes": [cause]},
    )
