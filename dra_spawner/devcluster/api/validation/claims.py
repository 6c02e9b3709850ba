"""Checks of ``resource.k8s.io``: ResourceClaim, ResourceClaimTemplate and DeviceClass specs."""

import json
import re
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from dra_spawner.devcluster.api.validation.metadata import check_annotations, check_labels
from dra_spawner.devcluster.api.validation.names import (
    ANY_CASE_SUBDOMAIN_TEXT,
    SUBDOMAIN_TEXT,
    check_dns_label,
    check_dns_subdomain,
    check_driver_name,
    check_identifier,
    check_label_value,
    check_list,
    check_qualified_name,
    check_unique,
    qualified_name_problems,
)
from dra_spawner.dra.cel import CelCompileError, CelTooComplexError, CelUnsupportedError, compile_selector
from dra_spawner.names import ADMIN_ACCESS, KUBERNETES_PREFIX

MAX_REQUESTS = 32
MAX_ALTERNATIVES = 8
MAX_SELECTORS = 32
MAX_CONSTRAINTS = 32
MAX_CONFIGS = 32
MAX_EXPRESSION_BYTES = 10 * 1024
MAX_PARAMETER_BYTES = 10 * 1024
MAX_IDENTIFIER_CHARACTERS = 32
_QUOTA_PREFIX = "requests."

EFFECTS = ("NoExecute", "NoSchedule", "None")
ADMIN_ACCESS_TEXT = f"admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace"


def check_claim_spec(spec: JsonObject, field: str) -> list[FieldError]:
    """Errors of the spec of a claim, or of a template's claims."""
    devices = spec.get("devices") or {}
    field += ".devices"
    requests = devices.get("requests") or []
    names = _request_names(requests)
    errors = check_list(requests, f"{field}.requests", _check_request, most=MAX_REQUESTS)
    names_of_requests = (request.get("name", "") for request in requests[:MAX_REQUESTS])
    errors += check_unique(names_of_requests, f"{field}.requests", items=requests)
    errors += check_list(
        devices.get("constraints") or [],
        f"{field}.constraints",
        lambda constraint, path: _check_constraint(constraint, path, names),
        most=MAX_CONSTRAINTS,
    )
    return errors + check_list(
        devices.get("config") or [],
        f"{field}.config",
        lambda config, path: _check_claim_config(config, path, names),
        most=MAX_CONFIGS,
    )


def check_template_spec(spec: JsonObject, field: str) -> list[FieldError]:
    """Errors of a template: it may only have a claim's spec, labels and annotations."""
    metadata = spec.get("metadata") or {}
    errors = [
        forbidden_value(f"{field}.metadata.{name}", "cannot be set")
        for name in metadata
        if name not in ("labels", "annotations", "creationTimestamp")
    ]
    errors += check_labels(metadata.get("labels") or {}, f"{field}.metadata.labels")
    errors += check_annotations(metadata.get("annotations") or {}, f"{field}.metadata.annotations")
    return errors + check_claim_spec(spec.get("spec") or {}, f"{field}.spec")


def check_class_spec(spec: JsonObject, field: str) -> list[FieldError]:
    """Errors of a device class."""
    errors = check_selectors(spec.get("selectors") or [], f"{field}.selectors")
    errors += check_list(spec.get("config") or [], f"{field}.config", _check_config, most=MAX_CONFIGS)
    return errors


def check_extended_resource(spec: JsonObject, field: str) -> list[FieldError]:
    """Errors of a device class' extended resource, which kube-apiserver tells last."""
    name, field = spec.get("extendedResourceName"), f"{field}.extendedResourceName"
    if name is None:
        return []
    problems = []
    if "/" not in name:
        problems.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif KUBERNETES_PREFIX in name:
        problems.append(f'must not have "{KUBERNETES_PREFIX}" domain')
    if name.startswith(_QUOTA_PREFIX):
        problems.append(f'must not have "{_QUOTA_PREFIX}" prefix')
    problems += qualified_name_problems(_QUOTA_PREFIX + name)
    return [invalid_value(field, name, problem) for problem in problems]


def wants_admin_access(claim_spec: JsonObject) -> int | None:
    """The index of the first request with admin access; None if there is none."""
    for index, request in enumerate((claim_spec.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return index
    return None


def _request_names(requests: list[JsonObject]) -> frozenset[str]:
    """Names of requests for constraints and configs: ``request`` and ``request/alternative``."""
    names = set()
    for request in requests:
        name = request.get("name", "")
        names.add(name)
        names.update(f"{name}/{alternative.get('name', '')}" for alternative in request.get("firstAvailable") or ())
    return frozenset(names)


def _check_request(request: JsonObject, field: str) -> list[FieldError]:
    errors = check_dns_label(request.get("name", ""), f"{field}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    one_of = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        errors.append(required(field, one_of))
    elif exactly is not None and alternatives:
        errors.append(invalid_value(field, None, f"{one_of}, but multiple fields are set"))
    elif exactly is not None:
        errors += _check_device_request(exactly, f"{field}.exactly")
    else:
        path = f"{field}.firstAvailable"
        errors += check_list(alternatives, path, _check_alternative, most=MAX_ALTERNATIVES)
        names = (entry.get("name", "") for entry in alternatives[:MAX_ALTERNATIVES])
        errors += check_unique(names, path, items=alternatives)
    return errors


def _check_alternative(request: JsonObject, field: str) -> list[FieldError]:
    return check_dns_label(request.get("name", ""), f"{field}.name") + _check_device_request(request, field)


def _check_device_request(request: JsonObject, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    class_name = request.get("deviceClassName", "")
    if class_name:
        errors += check_dns_subdomain(class_name, f"{field}.deviceClassName")
    else:
        errors.append(required(f"{field}.deviceClassName"))
    errors += check_selectors(request.get("selectors") or [], f"{field}.selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            errors.append(invalid_value(f"{field}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount":
        if count <= 0:
            errors.append(invalid_value(f"{field}.count", count, "must be greater than zero"))
    else:
        errors.append(not_supported(f"{field}.allocationMode", mode, ("All", "ExactCount")))
    return errors + check_list(request.get("tolerations") or [], f"{field}.tolerations", _check_toleration)


def check_selectors(selectors: list[JsonObject], field: str) -> list[FieldError]:
    """CEL selectors of a request, an alternative or a class."""
    return check_list(selectors, field, _check_selector, most=MAX_SELECTORS)


def _check_selector(selector: JsonObject, field: str) -> list[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{field}.cel")]
    expression = cel.get("expression", "")
    path = f"{field}.cel.expression"
    if len(expression.encode("utf-8", "replace")) > MAX_EXPRESSION_BYTES:
        return [too_long(path, MAX_EXPRESSION_BYTES)]
    try:
        compile_selector(expression)
    except CelUnsupportedError:
        return []  # valid in Kubernetes; the allocator reports that it cannot evaluate it
    except CelTooComplexError as error:
        return [forbidden_value(path, error.message)]
    except CelCompileError as error:
        return [invalid_value(path, expression, _cel_message(expression, error))]
    return []


def _cel_message(expression: str, error: CelCompileError) -> str:
    message = str(error.message)
    if message.startswith("must evaluate to bool"):
        return message
    message = f"compilation failed: ERROR: <input>:{error.line}:{error.column}: {message}"
    lines = expression.split("\n")
    if 0 < error.line <= len(lines) and lines[error.line - 1]:
        # cel-go shows the place: the line, and a caret below.
        message += f"\n | {lines[error.line - 1]}\n | {'.' * max(0, error.column - 1)}^"
    return message


def _check_toleration(toleration: JsonObject, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if toleration.get("key"):
        errors += check_qualified_name(toleration["key"], f"{field}.key")
    operator, value = toleration.get("operator", "Equal"), toleration.get("value", "")
    if operator == "Exists":
        if value:
            errors.append(invalid_value(f"{field}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += check_label_value(value, f"{field}.value")
    else:
        errors.append(not_supported(f"{field}.operator", operator, ("Equal", "Exists")))
    effect = toleration.get("effect", "")
    if effect and effect not in EFFECTS:
        errors.append(not_supported(f"{field}.effect", effect, EFFECTS))
    return errors


def _check_constraint(constraint: JsonObject, field: str, names: frozenset[str]) -> list[FieldError]:
    errors = _check_references(constraint.get("requests") or [], f"{field}.requests", names)
    if "matchAttribute" in constraint:
        errors += _check_full_name(constraint["matchAttribute"], f"{field}.matchAttribute")
    elif "distinctAttribute" in constraint:
        errors += _check_full_name(constraint["distinctAttribute"], f"{field}.distinctAttribute")
    else:
        errors.append(
            required(
                field,
                'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set',
            )
        )
    return errors


def _check_references(references: list[str], field: str, names: frozenset[str]) -> list[FieldError]:
    return check_list(
        references, field, lambda name, path: check_reference(name, path, names), most=MAX_REQUESTS
    ) + check_unique(references[:MAX_REQUESTS], field)


def check_reference(name: str, field: str, names: frozenset[str]) -> list[FieldError]:
    """Check that a request or an alternative has this name."""
    errors = []
    for part in name.split("/", 1):
        errors += check_dns_label(part, field)
    if name not in names:
        detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
        errors.append(invalid_value(field, name, detail))
    return errors


def request_names(claim_spec: JsonObject) -> frozenset[str]:
    """Names of requests for a claim's allocation."""
    return _request_names((claim_spec.get("devices") or {}).get("requests") or [])


def _check_full_name(name: str, field: str) -> list[FieldError]:
    """An attribute's name with its domain."""
    if not name:
        return [required(field, "name required")]
    if "/" not in name:
        return [invalid_value(field, name, "a fully qualified name must be a domain and a name separated by a slash")]
    return check_qualified_attribute(name, field, f"prefix: {SUBDOMAIN_TEXT}")


def check_qualified_attribute(name: str, field: str, domain_text: str = SUBDOMAIN_TEXT) -> list[FieldError]:
    """The name of an attribute or a capacity: an identifier, with or without a domain before a slash."""
    parts = name.split("/")
    if len(parts) == 1:
        return check_identifier(name, field, MAX_IDENTIFIER_CHARACTERS)
    if len(parts) > 2:
        return []  # the API server allows several slashes
    domain, identifier = parts
    errors = (
        check_driver_name(domain, field, domain_text)
        if domain
        else [invalid_value(field, "", "the domain must not be empty")]
    )
    if identifier:
        return errors + check_identifier(identifier, field, MAX_IDENTIFIER_CHARACTERS)
    return [*errors, invalid_value(field, "", "the name must not be empty")]


def _check_claim_config(config: JsonObject, field: str, names: frozenset[str]) -> list[FieldError]:
    errors = _check_references(config.get("requests") or [], f"{field}.requests", names)
    return errors + _check_config(config, field)


def _check_config(config: JsonObject, field: str) -> list[FieldError]:
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{field}.opaque")]
    errors = check_driver_name(opaque.get("driver", ""), f"{field}.opaque.driver", ANY_CASE_SUBDOMAIN_TEXT)
    return errors + check_raw_object(opaque.get("parameters"), f"{field}.opaque.parameters", MAX_PARAMETER_BYTES)


def check_raw_object(value: Any, field: str, max_bytes: int) -> list[FieldError]:
    """Check opaque parameters: a JSON object up to a size."""
    if value is None:
        return [required(field)]
    if len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")) > max_bytes:
        return [too_long(field, max_bytes)]
    return [] if isinstance(value, dict) else [invalid_value(field, "<value omitted>", "must be a valid JSON object")]


_SHARE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_share_id(text: str) -> bool:
    """Whether the text is a UUID in lower case."""
    return _SHARE_ID.fullmatch(text) is not None
