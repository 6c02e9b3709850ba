"""Defaults and checks of the API server, before an object is stored."""

import base64
from datetime import datetime
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import FieldError, forbidden, forbidden_value, invalid_value
from dra_spawner.devcluster.api.resource_types import (
    CONFIGMAPS,
    DAEMONSETS,
    DEPLOYMENTS,
    DEVICECLASSES,
    DEVICETAINTRULES,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODDISRUPTIONBUDGETS,
    PODS,
    PRIORITYCLASSES,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
    SECRETS,
    SERVICES,
    STATEFULSETS,
    ResourceType,
)
from dra_spawner.devcluster.api.storage import defaults
from dra_spawner.devcluster.api.storage.deletion import timestamp
from dra_spawner.devcluster.api.storage.versioned_objects import VersionedObjects
from dra_spawner.devcluster.api.validation.claim_status import check_claim_status
from dra_spawner.devcluster.api.validation.claims import (
    ADMIN_ACCESS_TEXT,
    check_claim_spec,
    check_class_spec,
    check_extended_resource,
    check_template_spec,
    wants_admin_access,
)
from dra_spawner.devcluster.api.validation.events import check_changed_event, check_new_event
from dra_spawner.devcluster.api.validation.metadata import check_common_metadata, check_metadata
from dra_spawner.devcluster.api.validation.names import check_config_key
from dra_spawner.devcluster.api.validation.pods import check_pod_spec, check_pod_update
from dra_spawner.devcluster.api.validation.slices import check_slice_spec, check_slice_update, check_taint_rule_spec

_NEW_STATUS: dict[ResourceType, JsonObject] = {
    NAMESPACES: {"phase": "Active"},
    PODS: {"phase": "Pending"},
    PERSISTENTVOLUMECLAIMS: {"phase": "Pending"},
    SERVICES: {"loadBalancer": {}},
    PODDISRUPTIONBUDGETS: dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0),
    DAEMONSETS: dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
}


def admit_create(resource_type: ResourceType, obj: JsonObject, objects: VersionedObjects, now: datetime) -> None:
    """Set the server's fields of a new object, in place.

    Raises
    ------
    ApiError
        ``Forbidden`` if the object names another one that does not exist.
    """
    if resource_type is NODES:  # a kubelet registers its node together with the status
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if "allocatable" not in status and "capacity" in status:
            status["allocatable"] = status["capacity"]
    elif resource_type.status:
        obj["status"] = dict(_NEW_STATUS.get(resource_type, {}))
    _default(resource_type, obj)
    if resource_type is PODS:
        _admit_pod(obj, objects, now)
    elif resource_type is DEVICETAINTRULES:
        defaults.default_rule_taint(obj, {}, timestamp(now))
    elif resource_type is NAMESPACES:
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        labels = obj["metadata"].setdefault("labels", {})
        if "name" in obj["metadata"]:
            labels[names.NAMESPACE_NAME] = obj["metadata"]["name"]


def _default(resource_type: ResourceType, obj: JsonObject) -> None:
    """Set the API's defaults, on creation and on update."""
    if resource_type is PODS:
        defaults.default_pod_spec(obj.setdefault("spec", {}))
    elif resource_type is RESOURCECLAIMS:
        defaults.default_claim_spec(obj.setdefault("spec", {}))
    elif resource_type is RESOURCECLAIMTEMPLATES:
        defaults.default_claim_spec(obj.setdefault("spec", {}).setdefault("spec", {}))
    elif resource_type is DEVICECLASSES:
        obj.setdefault("spec", {})
    elif resource_type is SERVICES:
        defaults.default_service_spec(obj.setdefault("spec", {}))
    elif resource_type is PERSISTENTVOLUMECLAIMS:
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    elif resource_type is PRIORITYCLASSES:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    elif resource_type is SECRETS:
        _default_secret(obj)
    elif resource_type.storage is EVENTS:
        obj.setdefault("involvedObject", {})
        obj.setdefault("source", {})
        for field in ("reportingComponent", "reportingInstance"):
            obj.setdefault(field, "")
        for field in ("firstTimestamp", "lastTimestamp", "eventTime"):  # readers expect them
            obj.setdefault(field, None)
    elif resource_type in (DAEMONSETS, DEPLOYMENTS, STATEFULSETS):
        pod_spec = obj.get("spec", {}).get("template", {}).get("spec")
        if pod_spec is not None:
            defaults.default_pod_template(pod_spec)


def _default_secret(secret: JsonObject) -> None:
    secret.setdefault("type", "Opaque")
    texts = secret.pop("stringData", None) or {}
    if texts:
        encoded = {key: base64.b64encode(text.encode("utf-8", "replace")).decode() for key, text in texts.items()}
        secret["data"] = (secret.get("data") or {}) | encoded


def _admit_pod(pod: JsonObject, objects: VersionedObjects, now: datetime) -> None:
    spec, status = pod["spec"], pod["status"]
    _set_priority(pod, objects)
    status["qosClass"] = defaults.qos_class(spec)
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastTransitionTime": timestamp(now),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _set_priority(pod: JsonObject, objects: VersionedObjects) -> None:
    """Resolve the pod's priority class as the Priority admission plugin does."""
    spec, metadata = pod["spec"], pod["metadata"]
    name = spec.get("priorityClassName", "")
    value, policy = 0, "PreemptLowerPriority"
    if name:
        found = objects.find(PRIORITYCLASSES, "", name)
        if found is None:
            raise forbidden(PODS, metadata.get("name", ""), f"no PriorityClass with name {name} was found")
    else:
        found = _default_priority_class(objects)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    if found is not None:
        value = found.get("value", 0)
        policy = found.get("preemptionPolicy", policy)
    if spec.get("priority", value) != value:
        raise forbidden(
            PODS,
            metadata.get("name", ""),
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _default_priority_class(objects: VersionedObjects) -> JsonObject | None:
    """The global default; of several, the class with the lowest value."""
    candidates = [entry for entry in objects.values(PRIORITYCLASSES) if entry.get("globalDefault")]
    return min(candidates, key=lambda entry: int(entry["value"]), default=None)


def admit_update(
    resource_type: ResourceType, current: JsonObject, new: JsonObject, subresource: str, now: datetime
) -> None:
    """Set the server's fields of an updated object, in place."""
    if subresource:
        return
    _default(resource_type, new)
    if resource_type is DEVICETAINTRULES:
        defaults.default_rule_taint(new, current, timestamp(now))
    if resource_type is PODS:  # resolved when the pod was created
        for field in ("priority", "priorityClassName", "preemptionPolicy"):
            if field in current["spec"]:
                new["spec"].setdefault(field, current["spec"][field])
    elif resource_type is NODES:
        new.setdefault("spec", {})


def validate_create(resource_type: ResourceType, obj: JsonObject, objects: VersionedObjects) -> list[FieldError]:
    """Errors of a new object."""
    errors = check_metadata(resource_type, obj["metadata"])
    spec: JsonObject = obj.get("spec") or {}
    if resource_type is PODS:
        errors += check_pod_spec(spec, "spec")
    elif resource_type is RESOURCECLAIMS:
        errors += check_claim_spec(spec, "spec") + _check_admin_access(obj, spec, objects)
    elif resource_type is RESOURCECLAIMTEMPLATES:
        errors += check_template_spec(spec, "spec") + _check_admin_access(obj, spec["spec"], objects)
    elif resource_type is DEVICECLASSES:
        errors = [*check_class_spec(spec, "spec"), *errors, *check_extended_resource(spec, "spec")]
    elif resource_type is RESOURCESLICES:
        errors += check_slice_spec(spec, "spec")
    elif resource_type is DEVICETAINTRULES:
        errors += check_taint_rule_spec(spec, "spec")
    elif resource_type in (CONFIGMAPS, SECRETS):
        for field in ("data", "binaryData"):
            for key in obj.get(field) or ():
                errors += check_config_key(key, f"{field}[{key}]")
    elif resource_type.storage is EVENTS:
        errors += check_new_event(obj, strict=resource_type is not EVENTS)
    return errors


def _check_admin_access(obj: JsonObject, claim_spec: JsonObject, objects: VersionedObjects) -> list[FieldError]:
    """Errors of admin access, which needs a label of the namespace."""
    index = wants_admin_access(claim_spec)
    if index is None:
        return []
    namespace = objects.find(NAMESPACES, "", obj["metadata"]["namespace"])
    labels = (namespace["metadata"].get("labels") or {}) if namespace is not None else {}
    if labels.get(names.ADMIN_ACCESS) == "true":
        return []
    return [forbidden_value(f"spec.devices.requests[{index}].adminAccess", ADMIN_ACCESS_TEXT)]


def validate_update(
    resource_type: ResourceType, current: JsonObject, new: JsonObject, subresource: str
) -> list[FieldError]:
    """Errors of an updated object."""
    errors = check_common_metadata(new["metadata"], "metadata")
    if subresource == "status":
        return errors + (check_claim_status(new, current) if resource_type is RESOURCECLAIMS else [])
    if subresource:
        return errors
    spec: JsonObject = new.get("spec") or {}
    old: JsonObject = current.get("spec") or {}
    if resource_type is PODS:
        errors += check_pod_spec(spec, "spec") + check_pod_update(spec, old, "spec")
    elif resource_type in (RESOURCECLAIMS, RESOURCECLAIMTEMPLATES):
        errors += _check_immutable(spec, old, "spec")
    elif resource_type is DEVICECLASSES:
        errors += check_class_spec(spec, "spec") + check_extended_resource(spec, "spec")
    elif resource_type is RESOURCESLICES:
        errors += check_slice_spec(spec, "spec") + check_slice_update(spec, old, "spec")
    elif resource_type is DEVICETAINTRULES:
        errors += check_taint_rule_spec(spec, "spec")
    elif resource_type in (CONFIGMAPS, SECRETS) and current.get("immutable"):
        for field in ("data", "binaryData"):
            errors += _check_unchanged(new.get(field), current.get(field), field)
    elif resource_type.storage is EVENTS:
        errors += check_changed_event(new, current, strict=resource_type is not EVENTS)
    elif resource_type is PRIORITYCLASSES:
        errors += _check_unchanged(new.get("value"), current.get("value"), "value", "may not be changed in an update.")
    return errors


def _check_immutable(value: Any, old: Any, field: str) -> list[FieldError]:
    return [] if value == old else [invalid_value(field, value, "field is immutable")]


def _check_unchanged(
    value: Any, old: Any, field: str, rule: str = "field is immutable when `immutable` is set"
) -> list[FieldError]:
    return [] if value == old else [forbidden_value(field, rule)]
