"""A ResourceClaimSpec written by hand: checked only as far as types and sizes go, and that its CEL compiles."""

from __future__ import annotations

from collections.abc import Iterator

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.cel import CelCompileError, CelUnsupportedError, compile_selector
from dra_spawner.dra.model.claim_sizes import SIZE_ALLOWED, wrong_sizes
from dra_spawner.dra.model.objects import ObjectError, ResourceClaim
from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.reading import ValueReader


def read_spec(reader: ValueReader, value: object, path: str) -> JsonObject | None:
    """A copy of the spec; ``None`` if it has problems, which the reader notes."""
    if reader.mapping(value, path, "a ResourceClaimSpec: a mapping with devices") is None:
        return None
    before = len(reader.problems)
    spec = reader.json(value, path)
    if len(reader.problems) > before or not isinstance(spec, dict):
        return None
    for key in spec:
        if key != "devices":
            reader.refuse(f"{path}.{key}", key, "the key of a ResourceClaimSpec: devices")
    try:
        ResourceClaim.from_json({"metadata": {"name": "spec"}, "spec": spec})
    except ObjectError as error:
        reader.problems.append(_problem_of(error, path))
        return None
    for where, _, size in wrong_sizes(spec, path):
        reader.refuse(where, size, SIZE_ALLOWED)
    for where, expression in _expressions(spec, path):
        try:
            compile_selector(expression)
        except CelUnsupportedError:
            continue  # Kubernetes may know it
        except CelCompileError as error:
            allowed = f"a CEL expression that compiles (column {error.column}: {error.message})"
            reader.refuse(where, expression, allowed)
    return spec


def spec_request_names(spec: JsonObject) -> tuple[str, ...]:
    return tuple(request["name"] for request in _devices(spec).get("requests") or ())


def spec_requests(spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Each ``exactly`` and each alternative of a spec, with its path in it."""
    for index, request in enumerate(_devices(spec).get("requests") or ()):
        if request.get("exactly") is not None:
            yield f"devices.requests[{index}].exactly", request["exactly"]
        for place, alternative in enumerate(request.get("firstAvailable") or ()):
            yield f"devices.requests[{index}].firstAvailable[{place}]", alternative


def _devices(spec: JsonObject) -> JsonObject:
    devices: JsonObject = spec.get("devices") or {}
    return devices


def _expressions(spec: JsonObject, path: str) -> Iterator[tuple[str, str]]:
    for where, request in spec_requests(spec):
        for index, selector in enumerate(request.get("selectors") or ()):
            if selector.get("cel") is not None:
                yield f"{path}.{where}.selectors[{index}].cel.expression", selector["cel"].get("expression") or ""


def _problem_of(error: ObjectError, path: str) -> Problem:
    """The decoder's error where the spec stands in the profile."""
    field = error.path.removeprefix("spec")
    return Problem(f"{path}{field}", "another value", f"what resource.k8s.io/v1 has there ({error.problem})")
