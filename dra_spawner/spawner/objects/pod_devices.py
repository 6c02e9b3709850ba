"""Adds claims to a pod, and reads its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dra_spawner.profiles import ClaimPlan
from dra_spawner.profiles.compiler.extended_resources import extended_resource_names

_CRASHES_ENOUGH = 3


class NoSuchContainer(ValueError):
    """Raised if a profile gives devices to a container that the pod lacks."""

    def __init__(self, name: str, containers: Iterable[str]) -> None:
        super().__init__(f"It gives devices to container {name}; the pod has: {', '.join(containers)}.")


def attach_claims(pod: Any, plan: ClaimPlan, made: Mapping[str, str]) -> None:
    """Add the plan's claims to a pod (a model of the Kubernetes client) and its containers.

    Parameters
    ----------
    made
        Name of the start's template or shared claim, by the claim's name in the profile.

    Raises
    ------
    NoSuchContainer
        If the pod has no container, init container or sidecar of a name.
    """
    pod.spec.resource_claims = [
        *(pod.spec.resource_claims or []),
        *(claim.pod_entry(made.get(claim.name, "")) for claim in plan.claims),
    ]
    containers = {container.name: container for container in [*pod.spec.containers, *(pod.spec.init_containers or [])]}
    for name, claims in plan.container_claims().items():
        if name not in containers:
            raise NoSuchContainer(name, containers)
        _attach(containers[name], claims)


def _attach(container: Any, claims: list[dict[str, Any]]) -> None:
    """Add claims to a container's resources, which may be a dict if it is an extra container."""
    resources = container.resources
    if isinstance(resources, dict):
        resources["claims"] = [*resources.get("claims", ()), *claims]
    elif resources is None:
        container.resources = {"claims": claims}
    else:
        resources.claims = [*(resources.claims or ()), *claims]


def asks_for_extended_resources(pod: Any) -> bool:
    """Whether a pod (a model of the Kubernetes client) asks for extended resources."""
    for container in [*pod.spec.containers, *(pod.spec.init_containers or [])]:
        resources = container.get("resources") if isinstance(container, dict) else container.resources
        for kind in ("limits", "requests"):
            amounts = resources.get(kind) if isinstance(resources, dict) else getattr(resources, kind, None)
            if extended_resource_names(amounts or ()):
                return True
    return False


def named_templates_and_claims(pod: Any) -> set[str]:
    """Names of a pod's templates and claims; entries may be dicts or models."""
    names: set[str] = set()
    for entry in pod.spec.resource_claims or []:
        if isinstance(entry, dict):
            names |= {entry.get("resourceClaimTemplateName") or "", entry.get("resourceClaimName") or ""}
        else:
            names |= {entry.resource_claim_template_name or "", entry.resource_claim_name or ""}
    return names - {""}


def unschedulable_message(pod: Mapping[str, Any]) -> str | None:
    """The scheduler's message about an unschedulable pod; ``None`` for other pods, including gated pods."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            if condition.get("reason") == "SchedulingGated":
                return None
            return str(condition.get("message") or "")
    return None


def terminal_problem(pod: Mapping[str, Any]) -> str | None:
    """Sentence for the user about a pod that cannot run any more; ``None`` if it can."""
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        why = ": ".join(filter(None, (status.get("reason"), status.get("message")))) or "Kubernetes does not say why"
        return f"The server's pod has failed: {why.rstrip('.')}."
    if status.get("phase") == "Succeeded":
        return "The server ended by itself while it started, without an error. Its log may tell why."
    for each in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waits = (each.get("state") or {}).get("waiting") or {}
        if waits.get("reason") == "CrashLoopBackOff" and each.get("restartCount", 0) >= _CRASHES_ENOUGH:
            code = ((each.get("lastState") or {}).get("terminated") or {}).get("exitCode")
            ended = f" (exit code {code})" if code is not None else ""
            return f"Container {each['name']} of this server ends repeatedly{ended}. Its log has the cause."
    return None
