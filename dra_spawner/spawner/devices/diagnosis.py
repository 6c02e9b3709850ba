"""Why a pod waits for its devices, in a sentence. The API server is asked only when a pod is unschedulable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner.dra.budget import SearchBudget
from dra_spawner.dra.explanation import assess
from dra_spawner.dra.objects import DeviceClass
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesError
from dra_spawner.profiles.extended_resources import of_pod
from dra_spawner.spawner.devices.reader import DeviceObjects, DeviceReader, decoded
from dra_spawner.spawner.objects.standing_objects import MOST_PODS_OF_A_CLAIM

#: What looking for an explanation may cost, in seconds and in steps of the search: there is none after that.
_EXPLAIN_SECONDS = 3.0
_EXPLAIN_STEPS: Final = 200_000
NOTHING_STANDS: Mapping[str, str] = {}
NO_POD: Mapping[str, Any] = {}
#: Name of the claim that stands for a pod's extended resources here.
_EXTENDED: Final = "extended-resources"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What keeps a pod from being scheduled.

    Attributes
    ----------
    sentence
        For the user; empty if nothing could be found out.
    hopeless
        Whether waiting cannot help, not even for a new node.
    fits
        Whether some node has all the devices free; ``None`` if that is not known.
    """

    sentence: str = ""
    hopeless: bool = False
    fits: bool | None = None


async def diagnose(
    reader: DeviceReader,
    claims: Mapping[str, JsonObject],
    standing: Mapping[str, str] = NOTHING_STANDS,
    namespace: str = "",
    pod: Mapping[str, Any] = NO_POD,
    kept: Collection[str] = (),
) -> Diagnosis:
    """Find out why claims cannot be allocated now.

    Needs the right to list device classes, slices, claims and nodes; without it, or if the API server does not answer,
    nothing is said.

    Parameters
    ----------
    claims
        Specs by the claim's name.
    standing
        Names of the objects of those claims that were there before, of ``namespace``, by the claim's name: they are
        shared with other servers.
    kept
        The claims among them that were kept for this server alone.
    pod
        The pod that waits, as the API server has it: its extended resources count, where device classes stand for them.
    """
    extended = of_pod(pod)
    if not claims and not extended.names:
        return Diagnosis()  # others made the claims; Kubernetes' own events tell
    try:
        seen = await reader.objects()
    except KubernetesError:
        return Diagnosis()
    allocated = _allocated(seen, standing, namespace)
    if any(len(status.get("reservedFor") or ()) >= MOST_PODS_OF_A_CLAIM for status in allocated.values()):
        return Diagnosis(
            f"The device is shared with {MOST_PODS_OF_A_CLAIM} other servers, which is the most that Kubernetes allows."
        )
    claims = {name: spec for name, spec in claims.items() if name not in allocated}
    nodes = seen.nodes
    if extended.names:
        classes = decoded(DeviceClass.from_json, seen.classes)
        nowhere = [name for name in extended.unknown(classes) if not any(_offers(node, name) for node in nodes)]
        if nowhere:
            return Diagnosis(f"No node offers {', '.join(nowhere)} now, and no device class stands for it.")
        spec = extended.claim_spec(classes)
        if spec is not None:
            # Where a device plugin offers the resource, devices do not stand for it.
            nodes = [node for node in nodes if not any(_offers(node, name) for name in extended.names)]
            claims = {**claims, _EXTENDED: spec}
        if not nodes or not (claims or allocated):
            return Diagnosis()  # a matter of device plugins; Kubernetes' own events tell
    if not claims and allocated.keys() <= set(kept):
        return Diagnosis(
            "The device that is reserved for this server is on a node that has no room for it at the moment. It "
            "starts as soon as there is room, there or with another device.",
            fits=True,
        )
    if not claims:
        return Diagnosis(
            "The device is shared with other servers, and this server has to run on the same node as they do. It "
            "starts as soon as that node has room.",
            fits=True,
        )
    return _class_missing(claims, seen) or await assess_briefly(claims, seen, nodes, seen.claims)


def _allocated(seen: DeviceObjects, standing: Mapping[str, str], namespace: str) -> dict[str, JsonObject]:
    """Status of those standing claims that have their devices, by the claim's name."""
    return {
        name: found["status"]
        for found in seen.claims
        for name, obj in standing.items()
        if (found["metadata"]["namespace"], found["metadata"]["name"]) == (namespace, obj)
        and found.get("status", {}).get("allocation")
    }


def _class_missing(claims: Mapping[str, JsonObject], seen: DeviceObjects) -> Diagnosis | None:
    known = {device_class["metadata"]["name"] for device_class in seen.classes}
    missing = next((name for name in _classes(claims) if name not in known), None)
    if missing is None:
        return None
    return Diagnosis(
        f"This choice asks for devices of class {missing}, which this cluster does not have. Please tell "
        f"your administrator; the classes are: {', '.join(sorted(known)) or 'none'}.",
        hopeless=True,
        fits=False,
    )


async def assess_briefly(
    claims: Mapping[str, JsonObject], seen: DeviceObjects, nodes: list[JsonObject], existing: list[JsonObject]
) -> Diagnosis:
    """Look for devices on some nodes, beside existing claims.

    In a thread, and not for long: a search may take exponential time, and the hub has other users.
    """
    end = time.monotonic() + _EXPLAIN_SECONDS
    assessment = await asyncio.to_thread(
        assess,
        claims,
        nodes=[node for node in nodes if not node.get("spec", {}).get("unschedulable")],
        slices=seen.slices,
        classes=seen.classes,
        existing=existing,
        budget=SearchBudget(_EXPLAIN_STEPS, lambda: time.monotonic() > end),
    )
    return Diagnosis(assessment.sentence, fits=assessment.fits)


def _offers(node: JsonObject, resource: str) -> bool:
    """Whether a device plugin offers a resource on a node, all of it taken or not."""
    amount = (node.get("status", {}).get("allocatable") or {}).get(resource, "0")
    return str(amount) not in ("", "0")


def _classes(claims: Mapping[str, JsonObject]) -> list[str]:
    """The classes named, those of alternatives too: the scheduler wants all of them to exist."""
    requests = (request for spec in claims.values() for request in spec.get("devices", {}).get("requests") or ())
    wanted = (
        each
        for request in requests
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ()))
        if each
    )
    return [each["deviceClassName"] for each in wanted if each.get("deviceClassName")]
