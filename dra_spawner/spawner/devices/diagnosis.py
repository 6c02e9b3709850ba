"""Explains in a sentence why a pod waits for its devices. It makes requests only for unschedulable pods."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.profiles.compiler.extended_resources import of_pod
from dra_spawner.spawner.devices.drain_notes import drain_notes
from dra_spawner.spawner.devices.reader import DeviceObjects, DeviceReader, decoded
from dra_spawner.spawner.objects.shared_objects import MAX_PODS_OF_A_CLAIM

if TYPE_CHECKING:
    from dra_spawner.dra.allocation.explanation import Assessment

#: Limits of the search for an explanation.
_EXPLAIN_SECONDS = 3.0
_EXPLAIN_STEPS: Final = 200_000
#: Drained nodes that are tried one by one.
_MAX_TRIED: Final = 10
NO_SHARED_CLAIMS: Mapping[str, str] = {}
NO_POD: Mapping[str, Any] = {}
#: Name of the simulated claim for a pod's extended resources.
_EXTENDED: Final = "extended-resources"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a pod is not scheduled.

    Attributes
    ----------
    sentence
        Sentence for the user; empty if the reason is not known.
    outlook
        What ends the wait, for the user; true only while the server waits.
    is_permanent
        Whether neither waiting nor a new node helps.
    fits
        Whether some node has all devices free; ``None`` if that is not known.
    detail
        Object and rule, for the log.
    """

    sentence: str = ""
    is_permanent: bool = False
    fits: bool | None = None
    detail: str = ""
    outlook: str = ""

    @property
    def while_waiting(self) -> str:
        """The reason, and what ends the wait."""
        return f"{self.sentence} {self.outlook}".strip()


async def diagnose(
    reader: DeviceReader,
    claims: Mapping[str, JsonObject],
    shared: Mapping[str, str] = NO_SHARED_CLAIMS,
    namespace: str = "",
    pod: Mapping[str, Any] = NO_POD,
    reserved: Collection[str] = (),
    drain_ends: Callable[[], Awaitable[Mapping[str, datetime]]] | None = None,
) -> Diagnosis:
    """Return why claims cannot be allocated now.

    Needs the right to list device classes, slices, claims and nodes. Without it, or without an answer, the diagnosis is
    empty.

    Parameters
    ----------
    claims
        Specs of the pod's claims, by the claim's name in the profile.
    shared
        Names of existing claims in ``namespace``, by the claim's name in the profile.
    reserved
        Claims among `shared` that are reserved for this server alone; other servers share the others.
    pod
        The unschedulable pod from the API, for its extended resources.
    drain_ends
        Returns when drained nodes are back, by node, as far as that is known.
    """
    extended = of_pod(pod)
    if not claims and not extended.names:
        return Diagnosis()  # the claims are not this hub's; Kubernetes' events explain
    try:
        seen = await reader.objects()
    except KubernetesError:
        return Diagnosis()
    allocated = _allocated(seen, shared, namespace)
    if any(len(status.get("reservedFor") or ()) >= MAX_PODS_OF_A_CLAIM for status in allocated.values()):
        return Diagnosis(f"The device is shared with {MAX_PODS_OF_A_CLAIM} other servers, which is the limit.")
    claims = {name: spec for name, spec in claims.items() if name not in allocated}
    nodes = seen.nodes
    if extended.names:
        classes = decoded(DeviceClass.from_json, seen.classes)
        nowhere = [name for name in extended.unknown(classes) if not any(_offers(node, name) for node in nodes)]
        if nowhere:
            detail = f"no node offers {', '.join(nowhere)}, and no DeviceClass provides it"
            return Diagnosis(f"No machine has {', '.join(nowhere)} now.", detail=detail)
        spec = extended.claim_spec(classes)
        if spec is not None:
            # On a node whose device plugin offers the resource, devices do not provide it.
            nodes = [node for node in nodes if not any(_offers(node, name) for name in extended.names)]
            claims = {**claims, _EXTENDED: spec}
        if not nodes or not (claims or allocated):
            return Diagnosis()  # device plugins decide; Kubernetes' events explain
    if not claims and allocated.keys() <= set(reserved):
        return Diagnosis(
            "The device that is reserved for this server is on a machine without enough free memory or processors.",
            fits=True,
            outlook="The server starts when that machine has enough, or with another device.",
        )
    if not claims:
        return Diagnosis(
            "The device is shared with other servers, and this server must run on their machine.",
            fits=True,
            outlook="It starts when that machine has enough free memory and processors.",
        )
    missing = _class_missing(claims, seen)
    if missing is not None:
        return missing
    drained = [node for node in nodes if _is_drained(node)] if _refuses_drained_nodes(pod) else []
    others = [node for node in nodes if not (drained and _is_drained(node))]
    found = await assess_within_limits(claims, seen, others, seen.claims)
    cordoned = [node for node in nodes if _is_cordoned(node)]
    for state, closed in (("drained", drained), ("cordoned", cordoned)):
        if found.fits is not False or not closed:
            continue
        ends = await drain_ends() if state == "drained" and drain_ends is not None else {}
        of_closed = await assess_within_limits(claims, seen, closed, seen.claims, cordoned=True)
        if of_closed.fits:
            until = await _first_end(claims, seen, closed, seen.claims, ends)
            return _closed(closed, state, found, until, are_free=True)
        # With what is in use now: where no other node ever has such devices, it is no use to wait for others.
        if not (await assess_within_limits(claims, seen, others, [])).fits:
            ever = await assess_within_limits(claims, seen, closed, [], cordoned=True)
            if ever.fits:
                until = await _first_end(claims, seen, closed, [], ends)
                return _closed(closed, state, found, until, are_free=False)
    return found


async def _first_end(
    claims: Mapping[str, JsonObject],
    seen: DeviceObjects,
    nodes: list[JsonObject],
    existing: list[JsonObject],
    ends: Mapping[str, datetime],
) -> datetime | None:
    """Return when the first node is back that has the devices, as far as is tried; None if that is not known."""
    back = sorted((ends[name], name, node) for node in nodes if (name := node["metadata"]["name"]) in ends)
    for until, _, node in back[:_MAX_TRIED]:
        if (await assess_within_limits(claims, seen, [node], existing, cordoned=True)).fits:
            return until
    return None


def _closed(
    nodes: list[JsonObject], state: str, otherwise: Diagnosis, until: datetime | None, *, are_free: bool
) -> Diagnosis:
    """Return the diagnosis for devices that are on nodes alone that take no new servers."""
    # Imported here, as in `assess_within_limits`.
    from dra_spawner.simulator.refusal_text import CLOSED, CLOSED_AND_FULL, out_of_use

    cordoned = CLOSED if are_free else CLOSED_AND_FULL
    text = out_of_use(until, is_full=not are_free) if state == "drained" else cordoned
    found = ", ".join(sorted(node["metadata"]["name"] for node in nodes))
    return replace(
        otherwise,
        sentence=text.now,
        outlook=text.ends,
        detail=f"devices are {'free ' if are_free else ''}on {state} nodes only; {state}: {found}",
    )


def _allocated(seen: DeviceObjects, shared: Mapping[str, str], namespace: str) -> dict[str, JsonObject]:
    """Status of allocated existing claims, by the claim's name in the profile."""
    return {
        name: found["status"]
        for found in seen.claims
        for name, obj in shared.items()
        if (found["metadata"]["namespace"], found["metadata"]["name"]) == (namespace, obj)
        and found.get("status", {}).get("allocation")
    }


def _class_missing(claims: Mapping[str, JsonObject], seen: DeviceObjects) -> Diagnosis | None:
    known = {device_class["metadata"]["name"] for device_class in seen.classes}
    missing = next((name for name in _classes(claims) if name not in known), None)
    if missing is None:
        return None
    return Diagnosis(
        "This choice asks for a kind of device that this cluster does not have. Please tell your administrator.",
        is_permanent=True,
        fits=False,
        detail=f"DeviceClass {missing} does not exist; existing: {', '.join(sorted(known)) or 'none'}",
    )


async def assess_within_limits(
    claims: Mapping[str, JsonObject],
    seen: DeviceObjects,
    nodes: list[JsonObject],
    existing: list[JsonObject],
    *,
    cordoned: bool = False,
) -> Diagnosis:
    """Search for devices on some nodes, in addition to existing claims.

    The search runs in a thread and within limits, as it may take exponential time.

    Parameters
    ----------
    cordoned
        Whether cordoned nodes are searched, too.
    """
    # Imported here, as most pods wait for nothing: the allocator and its search.
    from dra_spawner.dra.allocation.explanation import assess
    from dra_spawner.dra.budget import SearchBudget

    def search() -> Assessment:
        # From here: a busy machine may have no thread for it at once.
        end = time.monotonic() + _EXPLAIN_SECONDS
        return assess(
            claims,
            nodes=[node for node in nodes if cordoned or not _is_cordoned(node)],
            slices=seen.slices,
            classes=seen.classes,
            existing=existing,
            taint_rules=seen.rules,
            rules=seen.scheduler_rules,
            budget=SearchBudget(_EXPLAIN_STEPS, lambda: time.monotonic() > end),
        )

    assessment = await asyncio.to_thread(search)
    if (closed := _closed_device(assessment, seen.rules)) is not None:
        return closed
    return Diagnosis(assessment.sentence, fits=assessment.fits, outlook=assessment.outlook)


def _closed_device(assessment: Assessment, rules: list[JsonObject]) -> Diagnosis | None:
    """The diagnosis for devices that are drained; None if others are what the server lacks."""
    from dra_spawner.dra.allocation.cause_text import RefusalKind
    from dra_spawner.simulator.refusal_text import out_of_use

    nearest = assessment.nearest
    if nearest is None or nearest.device is None or not nearest.kind.is_taint:
        return None
    if (note := drain_notes(rules).get(nearest.device)) is None:
        return None
    text = out_of_use(note.until, is_full=nearest.kind is RefusalKind.TAINT_IN_USE)
    return Diagnosis(text.now, fits=False, outlook=text.ends, detail=f"device {nearest.device} is drained")


def _refuses_drained_nodes(pod: Mapping[str, Any]) -> bool:
    """Whether a pod refuses nodes that a person drains. Pods of a hub without a service do not."""
    return names.DRAIN_SPARES_PREFIX in json.dumps((pod.get("spec") or {}).get("affinity") or {})


def _is_drained(node: JsonObject) -> bool:
    return (node["metadata"].get("labels") or {}).get(names.DRAINING) == names.ORDERED


def _is_cordoned(node: JsonObject) -> bool:
    return bool(node.get("spec", {}).get("unschedulable"))


def _offers(node: JsonObject, resource: str) -> bool:
    """Whether a device plugin offers a resource on a node, in use or not."""
    amount = (node.get("status", {}).get("allocatable") or {}).get(resource, "0")
    return str(amount) not in ("", "0")


def _classes(claims: Mapping[str, JsonObject]) -> list[str]:
    """Device classes of the claims, including those of alternatives: the scheduler requires that all exist."""
    requests = (request for spec in claims.values() for request in spec.get("devices", {}).get("requests") or ())
    alternatives = (
        each
        for request in requests
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ()))
        if each
    )
    return [each["deviceClassName"] for each in alternatives if each.get("deviceClassName")]
