"""A container's environment and command line by its pod's spec, with all references resolved.

Rules as in the kubelet: ``env`` after ``envFrom``; ``$(NAME)`` stands for a variable defined before, ``$$`` for one
dollar sign, and a reference to an unknown variable stays unchanged (core/v1 ``EnvVar.value``).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.quantity import Quantity

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]+)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class EnvironmentProblem(Exception):
    """Raised if a variable cannot be set; the message is the kubelet's."""


def references(containers: Sequence[JsonObject]) -> set[tuple[str, str]]:
    """The references in the environments of `containers`, as pairs ("configmaps" or "secrets", name)."""
    found = set()
    for container in containers:
        for variable in container.get("env") or []:
            source = variable.get("valueFrom") or {}
            if "configMapKeyRef" in source:
                found.add(("configmaps", source["configMapKeyRef"].get("name", "")))
            if "secretKeyRef" in source:
                found.add(("secrets", source["secretKeyRef"].get("name", "")))
        for source in container.get("envFrom") or []:
            if "configMapRef" in source:
                found.add(("configmaps", source["configMapRef"].get("name", "")))
            if "secretRef" in source:
                found.add(("secrets", source["secretRef"].get("name", "")))
    return found


def container_environment(
    container: JsonObject,
    pod: JsonObject,
    node: JsonObject,
    sources: Mapping[tuple[str, str], JsonObject],
) -> dict[str, str]:
    """The variables that the pod's spec sets.

    Parameters
    ----------
    pod
        The pod, with ``status.podIP`` and ``status.hostIP`` if the spec refers to them.
    node
        The pod's node; its allocatable resources replace limits that are not set.
    sources
        The existing ConfigMaps and Secrets of `references`.

    Raises
    ------
    EnvironmentProblem
        If a reference that is not optional has no object or key.
    """
    environment: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for resource, key in (("configmaps", "configMapRef"), ("secrets", "secretRef")):
            if key in source:
                reference = source[key]
                obj = _source(sources, resource, reference, pod)
                prefix = source.get("prefix", "")
                for name in (obj or {}).get("data") or {}:
                    environment[prefix + name] = _data(resource, obj, name) or ""
    for variable in container.get("env") or []:
        if "valueFrom" in variable:
            value = _value_from(variable["valueFrom"], container, pod, node, sources)
            if value is not None:
                environment[variable["name"]] = value
        else:
            environment[variable["name"]] = expand(variable.get("value") or "", environment)
    return environment


def command_line(container: JsonObject, entrypoint: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The command line: ``command``, or the image's entry point without it, followed by ``args``."""
    command = container.get("command") or list(entrypoint)
    return [expand(word, environment) for word in [*command, *(container.get("args") or [])]]


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace ``$(NAME)``."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return environment.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def _value_from(
    source: JsonObject,
    container: JsonObject,
    pod: JsonObject,
    node: JsonObject,
    sources: Mapping[tuple[str, str], JsonObject],
) -> str | None:
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource_value(source["resourceFieldRef"], container, node)
    for resource, key in (("configmaps", "configMapKeyRef"), ("secrets", "secretKeyRef")):
        if key not in source:
            continue
        reference = source[key]
        obj = _source(sources, resource, reference, pod)
        value = _data(resource, obj, reference["key"]) if obj else None
        if value is None and not reference.get("optional"):
            kind = "ConfigMap" if resource == "configmaps" else "Secret"
            raise EnvironmentProblem(
                f"couldn't find key {reference['key']} in {kind} {pod['metadata']['namespace']}/{reference['name']}"
            )
        return value
    raise EnvironmentProblem(f"unsupported source of a variable: {', '.join(source)}")


def field_value(pod: JsonObject, path: str) -> str:
    """A field of the pod as text (downward API).

    Raises
    ------
    EnvironmentProblem
        If the field is not supported.
    """
    if match := _SUBSCRIPT.fullmatch(path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    if path not in _FIELDS:
        raise EnvironmentProblem(f"unsupported fieldPath: {path}")
    value: Any = pod
    for key in path.split("."):
        value = (value or {}).get(key)
    if isinstance(value, list):  # podIPs, hostIPs
        return ",".join(entry["ip"] for entry in value)
    return "" if value is None else str(value)


_FIELDS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)


def _resource_value(reference: JsonObject, container: JsonObject, node: JsonObject) -> str:
    scope, _, resource = reference["resource"].partition(".")
    amount = ((container.get("resources") or {}).get(scope) or {}).get(resource)
    if amount is None and scope == "limits":
        amount = (node.get("status", {}).get("allocatable") or {}).get(resource)
    divisor = Quantity.parse(reference.get("divisor") or "1")
    if not divisor.nano:
        divisor = Quantity.parse("1")
    quotient = -(-Quantity.parse(amount or "0").nano // divisor.nano)
    return str(quotient)


def _source(
    sources: Mapping[tuple[str, str], JsonObject], resource: str, reference: JsonObject, pod: JsonObject
) -> JsonObject | None:
    name = reference.get("name", "")
    obj = sources.get((resource, name))
    if obj is None and not reference.get("optional"):
        raise EnvironmentProblem(f'{resource.removesuffix("s")} "{name}" not found')
    return obj


def _data(resource: str, obj: JsonObject | None, key: str) -> str | None:
    value = ((obj or {}).get("data") or {}).get(key)
    if value is None or resource == "configmaps":
        return value
    return base64.b64decode(value).decode("utf-8", errors="replace")
