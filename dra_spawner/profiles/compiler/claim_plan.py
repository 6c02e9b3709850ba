"""Compilation of parsed claims to claim specs and the pod's part.

A :class:`ClaimPlan` is computed once for a start and is never changed after; the spawner only carries it out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.compiler.claims import (
    Companion,
    ContainerRequests,
    DeviceClaim,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    Sharing,
)
from dra_spawner.profiles.compiler.extended_resources import ExtendedResources, of_settings
from dra_spawner.profiles.compiler.language import parse_device_claims
from dra_spawner.profiles.compiler.optional_devices import without_optional
from dra_spawner.profiles.compiler.vlan_attachments import vlan_companions, vlan_configs
from dra_spawner.profiles.syntax.properties import product_selector
from dra_spawner.profiles.syntax.raw_spec import spec_request_names, spec_requests

#: Of the one kind of companion whose content is text.
NETWORK = "NetworkAttachmentDefinition"

__all__ = [
    "ClaimPlan",
    "PlannedClaim",
    "compile_claims",
    "compile_device_claims",
    "product_selector",
    "template_manifest",
    "with_extended_resources",
]


_NO_SETTINGS: Mapping[str, Any] = {}
_NO_RESOURCES = ExtendedResources()


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """One claim that a server gets.

    Attributes
    ----------
    name
        Name of the entry in the pod's ``spec.resourceClaims``.
    spec
        ``ResourceClaimSpec`` of the claim that is made for the server, or for several; ``None`` if it comes from
        elsewhere.
    containers
        Container name and the requests it gets; ``None`` instead of requests is the claim as a whole.
    template
        Name of an existing ResourceClaimTemplate, made by others, from which the claim comes.
    claim
        Name of an existing ResourceClaim, made by others.
    sharing
        Whether one claim, made once, serves several servers.
    """

    name: str
    spec: JsonObject | None
    containers: tuple[ContainerRequests, ...]
    template: str = ""
    claim: str = ""
    sharing: Sharing | None = None

    def pod_entry(self, made: str = "") -> JsonObject:
        """The entry of the pod's ``spec.resourceClaims``.

        Parameters
        ----------
        made
            Name of the template that was made for this start, where the claim has a spec; of the claim, if it is
            shared.
        """
        if self.claim or self.sharing:
            return {"name": self.name, "resourceClaimName": self.claim or made}
        return {"name": self.name, "resourceClaimTemplateName": self.template or made}


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """Everything the chosen profile asks for, compiled and validated.

    Attributes
    ----------
    companions
        Objects that are there before the pod: those without a name are the start's own and go with its pod.
    fallback
        What is left without the optional devices; ``None`` if none are optional.
    extended_resources
        Extended resources of the pod, such as ``nvidia.com/gpu``: on clusters where a DeviceClass stands for one,
        `ExtendedResources.claim_spec` is the claim that kube-scheduler makes for them.
    """

    claims: tuple[PlannedClaim, ...] = ()
    companions: tuple[Companion, ...] = ()
    fallback: ClaimPlan | None = None
    extended_resources: ExtendedResources = _NO_RESOURCES

    @property
    def specs(self) -> dict[str, JsonObject]:
        """The specs of the claims that are made for the server, by the claim's name."""
        return {claim.name: claim.spec for claim in self.claims if claim.spec is not None}

    @property
    def device_classes(self) -> tuple[str, ...]:
        """The device classes asked for, alternatives included, each once, in order."""
        requests = (request for spec in self.specs.values() for _, request in spec_requests(spec))
        return tuple(dict.fromkeys(request["deviceClassName"] for request in requests if "deviceClassName" in request))

    def container_claims(self) -> dict[str, list[JsonObject]]:
        """Each container's ``resources.claims``."""
        claims: dict[str, list[JsonObject]] = {}
        for claim in self.claims:
            every = set(spec_request_names(claim.spec)) if claim.spec is not None else None
            for container, requests in claim.containers:
                if requests is None or set(requests) == every:
                    claims.setdefault(container, []).append({"name": claim.name})
                else:
                    claims.setdefault(container, []).extend(
                        {"name": claim.name, "request": request} for request in requests
                    )
        return {container: entries for container, entries in claims.items() if entries}


def compile_device_claims(value: object, path: str = "device_claims", *, admin_access: bool = False) -> ClaimPlan:
    """Parse, validate and compile ``device_claims``.

    Parameters
    ----------
    value, path
        As for `parse_device_claims`.
    admin_access
        Whether access for administration may be asked for: only for administrators of the hub.

    Raises
    ------
    ProfileError
        With every problem found; an `AdminAccessRefused` if that is all.
    """
    return compile_claims(parse_device_claims(value, path, admin_access=admin_access))


def compile_claims(claims: Iterable[DeviceClaim], settings: Mapping[str, Any] = _NO_SETTINGS) -> ClaimPlan:
    """Compile claims that were parsed before.

    Parameters
    ----------
    settings
        The spawner's traits, for the extended resources among them (see `EXTENDED_TRAITS`).
    """
    claims = tuple(claims)
    least = tuple(left for claim in claims if (left := without_optional(claim)) is not None)
    plan = _plan(claims)
    if least != claims:
        plan = replace(plan, fallback=_plan(least))
    return with_extended_resources(plan, settings)


def with_extended_resources(plan: ClaimPlan, settings: Mapping[str, Any]) -> ClaimPlan:
    """A plan of claims alone, with the extended resources that the spawner's traits ask for."""
    extended = of_settings(settings)
    if not extended.containers:
        return plan
    fallback = replace(plan.fallback, extended_resources=extended) if plan.fallback is not None else None
    return replace(plan, fallback=fallback, extended_resources=extended)


def _plan(claims: tuple[DeviceClaim, ...]) -> ClaimPlan:
    companions = (
        replace(companion, name=f"{claim.name}-{companion.name}", manifest=_in_api_form(companion.manifest))
        for claim in claims
        for companion in (*claim.companions, *vlan_companions(claim.requests))
    )
    return ClaimPlan(tuple(map(_compile_claim, claims)), tuple(companions))


def _in_api_form(manifest: JsonObject) -> JsonObject:
    """A companion object for the API, where a network's CNI configuration is text; profiles have a mapping."""
    spec = manifest.get("spec")
    if manifest.get("kind") != NETWORK or not isinstance(spec, Mapping) or not isinstance(spec.get("config"), Mapping):
        return manifest
    return {**manifest, "spec": {**spec, "config": json.dumps(spec["config"])}}


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
        "apiVersion": names.RESOURCE_API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"metadata": metadata, "spec": claim.spec},
    }


def _compile_claim(claim: DeviceClaim) -> PlannedClaim:
    if claim.template or claim.claim:
        return PlannedClaim(claim.name, None, claim.containers, claim.template, claim.claim)
    if claim.spec is not None:
        return PlannedClaim(claim.name, claim.spec, claim.containers, sharing=claim.sharing)
    devices: JsonObject = {"requests": [_compile_request(request) for request in claim.requests]}
    if claim.constraints:
        devices["constraints"] = [_compile_constraint(constraint) for constraint in claim.constraints]
    if configs := (*claim.config, *vlan_configs(claim.requests)):
        devices["config"] = [_compile_config(config) for config in configs]
    return PlannedClaim(claim.name, {"devices": devices}, claim.containers, sharing=claim.sharing)


def _compile_request(request: DeviceRequest) -> JsonObject:
    if request.first_available:
        alternatives = [{"name": each.name, **_compile_devices(each)} for each in request.first_available]
        return {"name": request.name, "firstAvailable": alternatives}
    return {"name": request.name, "exactly": _compile_devices(request)}


def _compile_devices(request: DeviceRequest) -> JsonObject:
    """``exactly``, or an alternative without its name."""
    devices: JsonObject = {"deviceClassName": request.device_class}
    if request.count is None:
        devices["allocationMode"] = "All"
    else:
        devices |= {"allocationMode": "ExactCount", "count": request.count}
    if expressions := request.expressions:
        devices["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if request.capacity:
        devices["capacity"] = {"requests": dict(request.capacity)}
    if request.tolerations:
        devices["tolerations"] = [dict(toleration) for toleration in request.tolerations]
    if request.admin_access:
        devices["adminAccess"] = True
    return devices


def _compile_constraint(constraint: DeviceConstraint) -> JsonObject:
    kind = "distinctAttribute" if constraint.distinct else "matchAttribute"
    requests = {"requests": list(constraint.requests)} if constraint.requests else {}
    return {**requests, kind: constraint.attribute}


def _compile_config(config: DeviceConfig) -> JsonObject:
    requests = {"requests": list(config.requests)} if config.requests else {}
    return {**requests, "opaque": {"driver": config.driver, "parameters": config.parameters}}
