"""From parsed claims to what the API server gets: claim specs and the pod's part.

A :class:`ClaimPlan` is computed once for a start and is never changed after; the spawner only carries it out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.dra.cel import cel_string_literal
from dra_spawner.profiles.language import DeviceClaim, DeviceRequest, parse_device_claims

#: A JSON object as the API server reads it.
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """One claim that a server gets.

    Attributes
    ----------
    name
        Name of the entry in the pod's ``spec.resourceClaims``.
    spec
        ``ResourceClaimSpec``.
    containers
        Container name and the requests it gets; no request named means all of them.
    """

    name: str
    spec: JsonObject
    containers: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """Everything the chosen profile asks for, compiled and validated."""

    claims: tuple[PlannedClaim, ...] = ()

    @property
    def device_classes(self) -> tuple[str, ...]:
        """The device classes asked for, each once, in order."""
        requests = (request for claim in self.claims for request in claim.spec["devices"]["requests"])
        return tuple(dict.fromkeys(request["exactly"]["deviceClassName"] for request in requests))

    def container_claims(self) -> dict[str, list[JsonObject]]:
        """Each container's ``resources.claims``."""
        claims: dict[str, list[JsonObject]] = {}
        for claim in self.claims:
            every = {request["name"] for request in claim.spec["devices"]["requests"]}
            for container, requests in claim.containers:
                if set(requests) == every:
                    claims.setdefault(container, []).append({"name": claim.name})
                else:
                    claims.setdefault(container, []).extend(
                        {"name": claim.name, "request": request} for request in requests
                    )
        return {container: entries for container, entries in claims.items() if entries}


def compile_device_claims(value: object, path: str = "device_claims") -> ClaimPlan:
    """Parse, validate and compile ``device_claims``.

    Raises
    ------
    ProfileError
        With every problem found.
    """
    return ClaimPlan(tuple(_compile_claim(claim) for claim in parse_device_claims(value, path)))


def template_manifest(
    claim: PlannedClaim,
    *,
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> JsonObject:
    """A ResourceClaimTemplate; its labels and annotations stand on the generated claim too."""
    metadata = {"labels": dict(labels), "annotations": dict(annotations)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"metadata": metadata, "spec": claim.spec},
    }


def _compile_claim(claim: DeviceClaim) -> PlannedClaim:
    spec = {"devices": {"requests": [_compile_request(request) for request in claim.requests]}}
    return PlannedClaim(claim.name, spec, claim.containers)


def _compile_request(request: DeviceRequest) -> JsonObject:
    exactly: JsonObject = {
        "deviceClassName": request.device_class,
        "allocationMode": "ExactCount",
        "count": request.count,
    }
    expressions = list(request.where)
    if request.product is not None:
        expressions.insert(0, product_selector(request.product))
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if request.capacity:
        exactly["capacity"] = {"requests": dict(request.capacity)}
    return {"name": request.name, "exactly": exactly}


def product_selector(pattern: str) -> str:
    """CEL that holds where a device's product name matches ``pattern``, whichever driver publishes it.

    Drivers publish it as ``productName`` (NVIDIA, AMD, HAMi) or ``model`` (Intel, the example driver) in their
    own domain; the vendor's name may stand before it ("NVIDIA A100-SXM4-40GB"). Case does not matter.
    """
    regex = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    literal = cel_string_literal(rf"(?i)^(\S+ )?{regex}$")
    matches = " || ".join(
        f'("{attribute}" in own && own.{attribute}.matches({literal}))' for attribute in ("productName", "model")
    )
    return f"cel.bind(own, device.attributes[device.driver], {matches})"
