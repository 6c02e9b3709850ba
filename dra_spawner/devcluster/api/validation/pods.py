"""Checks of pods: names, containers, volume mounts, resources, and everything about resource claims."""

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import (
    FieldError,
    duplicate,
    forbidden_value,
    invalid_value,
    not_found_value,
    not_supported,
    required,
)
from dra_spawner.devcluster.api.validation.names import check_dns_label, check_dns_subdomain
from dra_spawner.dra.quantity import Quantity

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_ONLY_THESE_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod_spec(spec: JsonObject, field: str) -> list[FieldError]:
    """Errors of a pod's spec."""
    volumes = _names(spec.get("volumes"))
    claims = _names(spec.get("resourceClaims"))
    errors = _check_volumes(spec.get("volumes") or [], f"{field}.volumes")
    errors += _check_claims(spec.get("resourceClaims") or [], f"{field}.resourceClaims")
    containers, init_containers = spec.get("containers") or [], spec.get("initContainers") or []
    if not containers:
        errors.append(required(f"{field}.containers"))
    seen: set[str] = set()
    for kind, entries in (("containers", containers), ("initContainers", init_containers)):
        for index, container in enumerate(entries):
            path = f"{field}.{kind}[{index}]"
            errors += _check_container_name(container, path, seen)
            errors += _check_mounts(container.get("volumeMounts") or [], f"{path}.volumeMounts", volumes)
            if not container.get("image"):
                errors.append(required(f"{path}.image"))
            errors += _check_resources(container.get("resources") or {}, f"{path}.resources", claims)
    policy = spec.get("restartPolicy", "")
    if policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{field}.restartPolicy", policy, _RESTART_POLICIES))
    if node := spec.get("nodeName"):
        errors += check_dns_subdomain(node, f"{field}.nodeName")
    return errors


def check_pod_update(spec: JsonObject, old: JsonObject, field: str) -> list[FieldError]:
    """Errors of a pod's update: forbidden changes."""
    if spec == old:
        return []
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(old.get(kind) or ()):
            return [forbidden_value(f"{field}.{kind}", "pod updates may not add or remove containers")]
    errors: list[FieldError] = []
    known = old.get("tolerations") or []
    if any(entry not in (spec.get("tolerations") or []) for entry in known):
        errors.append(
            forbidden_value(
                f"{field}.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
        )
    gates = _names(old.get("schedulingGates"))
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate["name"] not in gates:
            errors.append(
                forbidden_value(f"{field}.schedulingGates[{index}].name", "only deletion is allowed, but found new one")
            )
    if _fixed_part(spec, gated=bool(gates)) != _fixed_part(old, gated=bool(gates)):
        errors.append(forbidden_value(field, _ONLY_THESE_MAY_CHANGE))
    return errors


def _fixed_part(spec: JsonObject, *, gated: bool) -> JsonObject:
    """The spec without its mutable parts; for a gated pod, node selector and affinity are mutable, too."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"} | (
        {"nodeSelector", "affinity"} if gated else set()
    )
    fixed = {key: value for key, value in spec.items() if key not in free}
    for kind in ("containers", "initContainers"):
        fixed[kind] = [
            {key: value for key, value in container.items() if key != "image"} for container in spec.get(kind) or ()
        ]
    return fixed


def _names(entries: list[JsonObject] | None) -> frozenset[str]:
    return frozenset(entry.get("name", "") for entry in entries or ())


def _check_volumes(volumes: list[JsonObject], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        path, name = f"{field}[{index}].name", volume.get("name", "")
        if not name:
            errors.append(required(path))
        elif name in seen:
            errors.append(duplicate(path, name))
        else:
            errors += check_dns_label(name, path)
        seen.add(name)
        if len(volume) < 2:
            errors.append(required(f"{field}[{index}]", "must specify a volume type"))
    return errors


def _check_claims(claims: list[JsonObject], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        path, name = f"{field}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{path}.name"))
        elif name in seen:
            errors.append(duplicate(f"{path}.name", name))
        else:
            errors += check_dns_label(name, f"{path}.name")
            seen.add(name)
        sources = {source: claim.get(source) for source in ("resourceClaimName", "resourceClaimTemplateName")}
        given = [value for value in sources.values() if value is not None]
        if len(given) != 1:
            rule = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                if given
                else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
            shown = {"Name": name} | {f"R{source[1:]}": value for source, value in sources.items()}
            errors.append(invalid_value(path, shown, rule))
        for source, value in sources.items():
            if value is not None:
                errors += check_dns_subdomain(value, f"{path}.{source}")
    return errors


def _check_container_name(container: JsonObject, field: str, seen: set[str]) -> list[FieldError]:
    name = container.get("name", "")
    if not name:
        return [required(f"{field}.name")]
    if name in seen:
        return [duplicate(f"{field}.name", name)]
    seen.add(name)
    return check_dns_label(name, f"{field}.name")


def _check_mounts(mounts: list[JsonObject], field: str, volumes: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        name, path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{field}[{index}].name"))
        elif name not in volumes:
            errors.append(not_found_value(f"{field}[{index}].name", name))
        if not path:
            errors.append(required(f"{field}[{index}].mountPath"))
        elif path in paths:
            errors.append(invalid_value(f"{field}[{index}].mountPath", path, "must be unique"))
        paths.add(path)
    return errors


def _check_resources(resources: JsonObject, field: str, claims: frozenset[str]) -> list[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: list[FieldError] = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            quantity = Quantity.parse(amount)
            limit = limits.get(name)
            if quantity.nano < 0:
                errors.append(invalid_value(f"{field}.{kind}[{name}]", amount, "must be greater than or equal to 0"))
            elif kind == "requests" and limit is not None and quantity > Quantity.parse(limit):
                detail = f"must be less than or equal to {name} limit of {limit}"
                errors.append(invalid_value(f"{field}.requests", amount, detail))
    return errors + _check_claim_names(resources.get("claims") or [], f"{field}.claims", claims)


def _check_claim_names(used: list[JsonObject], field: str, claims: frozenset[str]) -> list[FieldError]:
    """Check a container's claims: a whole claim, or its requests, each once."""
    errors: list[FieldError] = []
    seen: dict[str, set[str]] = {}
    for index, entry in enumerate(used):
        path, name, request = f"{field}[{index}]", entry.get("name", ""), entry.get("request", "")
        if not name:
            errors.append(required(path))
            continue
        requests = seen.setdefault(name, set())
        if "" in requests or (requests and not request):  # "" stands for the whole claim
            errors.append(duplicate(path, name))
        else:
            if request:
                errors += check_dns_label(request, f"{path}.request")
            if request in requests:
                errors.append(duplicate(path, f"{name}/{request}"))
        requests.add(request)
        if name not in claims:
            known = ": " + ", ".join(sorted(claims)) if claims else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{known}"
            errors.append(not_found_value(path, name, detail))
    return errors
