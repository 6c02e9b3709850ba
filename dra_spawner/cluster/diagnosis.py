"""Why a pod waits for its devices, in a sentence. The API server is asked only when a pod is unschedulable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from dra_spawner.cluster.api import JsonObject, KubernetesApi, KubernetesError, resource_path
from dra_spawner.cluster.start_objects import RESOURCE_API
from dra_spawner.dra.explanation import explain_waiting

#: How long an explanation may be looked for; none is given after that.
_EXPLAIN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What keeps a pod from being scheduled.

    Attributes
    ----------
    sentence
        For the user; empty if nothing could be found out.
    hopeless
        Whether waiting cannot help, not even for a new node.
    """

    sentence: str = ""
    hopeless: bool = False


async def diagnose(api: KubernetesApi, claims: Mapping[str, JsonObject]) -> Diagnosis:
    """Find out why claims of these specs (by name) cannot be allocated now.

    Needs the right to list device classes, slices, claims and nodes; without it, or if the API server does not answer,
    nothing is said.
    """
    if not claims:
        return Diagnosis()  # others made the claims; Kubernetes' own events tell
    lists = (
        (RESOURCE_API, "deviceclasses"),
        (RESOURCE_API, "resourceslices"),
        (RESOURCE_API, "resourceclaims"),
        ("v1", "nodes"),
    )
    try:
        classes, slices, existing, nodes = await asyncio.gather(*(_list(api, *what) for what in lists))
    except KubernetesError:
        return Diagnosis()
    known = {device_class["metadata"]["name"] for device_class in classes}
    for name in _classes(claims):
        if name not in known:
            return Diagnosis(
                f"This choice asks for devices of class {name}, which this cluster does not have. An administrator "
                f"has to mend it; the classes are: {', '.join(sorted(known)) or 'none'}.",
                hopeless=True,
            )
    # In a thread, and not for long: a search may take exponential time, and the hub has other users.
    end = time.monotonic() + _EXPLAIN_SECONDS
    sentence = await asyncio.to_thread(
        explain_waiting,
        claims,
        nodes=nodes,
        slices=slices,
        classes=classes,
        existing=existing,
        cancelled=lambda: time.monotonic() > end,
    )
    return Diagnosis(sentence)


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


async def _list(api: KubernetesApi, group_version: str, plural: str) -> list[JsonObject]:
    return list((await api.list(resource_path(group_version, plural)))["items"])
