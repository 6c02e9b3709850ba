"""Default values of the API server, set in place."""

from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.quantity import Quantity

_DEFAULT_MODE = 0o644
_DEFAULT_TOLERATION_SECONDS = 300
_EVICTING_TAINTS = (names.NOT_READY, names.UNREACHABLE)
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def default_claim_spec(spec: JsonObject) -> None:
    """Defaults of a claim's spec: ``allocationMode`` ExactCount, ``count`` 1, tolerations' ``operator`` Equal."""
    for request in (spec.setdefault("devices", {})).get("requests") or ():
        if "exactly" in request:
            _default_device_request(request["exactly"])
        for alternative in request.get("firstAvailable") or ():
            _default_device_request(alternative)


def _default_device_request(request: JsonObject) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount":
        request["count"] = request.get("count") or 1
    for toleration in request.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def default_rule_taint(rule: JsonObject, current: JsonObject, now: str) -> None:
    """Set when the effect of a DeviceTaintRule was added: now, if it is new and the client names no new time.

    Parameters
    ----------
    current
        The stored rule; empty for a new one.
    """
    taint = (rule.get("spec") or {}).get("taint")
    if taint is None:
        return
    before = (current.get("spec") or {}).get("taint") or {}
    changed = taint.get("effect") != before.get("effect")
    if not taint.get("timeAdded") or (changed and taint["timeAdded"] == before.get("timeAdded")):
        taint["timeAdded"] = now


def default_pod_template(spec: JsonObject) -> None:
    """Defaults of a pod's spec in templates, which do not depend on the cluster."""
    _fill(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def default_pod_spec(spec: JsonObject) -> None:
    """Defaults of a pod's spec, including those of admission."""
    default_pod_template(spec)
    _fill(spec, enableServiceLinks=True)
    tolerations = spec.get("tolerations") or []
    for taint in _EVICTING_TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _DEFAULT_TOLERATION_SECONDS,
                }
            )
    spec["tolerations"] = tolerations


def _tolerates(toleration: JsonObject, taint: str) -> bool:
    return toleration.get("key", "") in (taint, "") and toleration.get("effect", "") in ("NoExecute", "")


def _fill(target: JsonObject, **values: Any) -> None:
    for key, value in values.items():
        if key not in target or target[key] == "":
            target[key] = value


def _default_container(container: JsonObject) -> None:
    image = container.get("image", "")
    tagged = "@" in image or ":" in image.rpartition("/")[2]
    latest = not tagged or image.endswith(":latest")
    _fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if latest else "IfNotPresent",
    )
    resources = container["resources"]
    if limits := resources.get("limits"):
        resources["requests"] = limits | (resources.get("requests") or {})
    for port in container.get("ports") or ():
        _fill(port, protocol="TCP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            _fill(reference, apiVersion="v1")
    for kind in _PROBES:
        if kind in container:
            probe = container[kind]
            _fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            if "httpGet" in probe:
                _fill(probe["httpGet"], path="/", scheme="HTTP")


def _default_volume(volume: JsonObject) -> None:
    for kind in ("configMap", "secret", "projected", "downwardAPI"):
        if kind in volume:
            _fill(volume[kind], defaultMode=_DEFAULT_MODE)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            _fill(source["serviceAccountToken"], expirationSeconds=3600)
    if len(volume) == 1:
        volume["emptyDir"] = {}


def qos_class(spec: JsonObject) -> str:
    """A pod's quality-of-service class."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    guaranteed = bool(containers)
    any_amount = False
    for container in containers:
        resources = container.get("resources") or {}
        amounts = [
            {
                name: Quantity.parse(amount)
                for name, amount in (resources.get(kind) or {}).items()
                if name in ("cpu", "memory")
            }
            for kind in ("requests", "limits")
        ]
        any_amount = any_amount or any(quantity for each in amounts for quantity in each.values())
        guaranteed = guaranteed and len(amounts[1]) == 2 and amounts[0] == amounts[1]
    if guaranteed:
        return "Guaranteed"
    return "Burstable" if any_amount else "BestEffort"


def default_service_spec(spec: JsonObject) -> None:
    """Defaults of a service's spec."""
    _fill(spec, type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        _fill(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack", internalTrafficPolicy="Cluster")
    for port in spec.get("ports") or ():
        _fill(port, protocol="TCP")
        if "port" in port:
            _fill(port, targetPort=port["port"])
