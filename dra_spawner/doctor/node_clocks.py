"""How far clocks of nodes are from the API server's, by the reports of kubelets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.objects import name_of

_READY: Final = "Ready"
_READY_FIELDS: Final = 'k:{"type":"Ready"}'


@dataclass(frozen=True, slots=True)
class NodeClock:
    """The clock of a node when its kubelet last reported.

    Attributes
    ----------
    ahead_seconds
        Difference to the API server's clock; negative where the node's clock is behind.
    reported_at
        The time of the report by the API server's clock, in seconds of the epoch.
    """

    node: str
    ahead_seconds: float
    reported_at: float


def node_clock(node: JsonObject) -> NodeClock | None:
    """The clock of a node; None where its kubelet's report cannot be told from the writes of other programs.

    A report has two times of one request: ``lastHeartbeatTime`` by the node's clock, and that of
    ``metadata.managedFields`` by the API server's. So a node that has stopped, or reports rarely, is no exception. Both
    have whole seconds. The request can take seconds, which make the clock look slower, never faster.
    """
    heartbeat = next((_heartbeat(each) for each in _conditions(node) if each.get("type") == _READY), None)
    reported = next((seconds_of(each.get("time")) for each in _managed(node) if _is_report(each)), None)
    if heartbeat is None or reported is None:
        return None
    return NodeClock(name_of(node), heartbeat - reported, reported)


def written_at(obj: JsonObject) -> float | None:
    """The last write of an object by the API server's clock, in seconds of the epoch; None if it is not known."""
    return max(filter(None, (seconds_of(each.get("time")) for each in _managed(obj))), default=None)


def seconds_of(text: Any) -> float | None:
    """A time of Kubernetes as seconds of the epoch; None if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return None


def _conditions(node: JsonObject) -> list[JsonObject]:
    return (node.get("status") or {}).get("conditions") or []


def _heartbeat(condition: JsonObject) -> float | None:
    return seconds_of(condition.get("lastHeartbeatTime"))


def _managed(obj: JsonObject) -> list[JsonObject]:
    return (obj.get("metadata") or {}).get("managedFields") or []


def _is_report(entry: JsonObject) -> bool:
    """Whether it is of a kubelet alone. A k3s process, for example, has other programs in it that write status, too."""
    status = (entry.get("fieldsV1") or {}).get("f:status") or {}
    ready = (status.get("f:conditions") or {}).get(_READY_FIELDS) or {}
    return entry.get("manager") == "kubelet" and entry.get("subresource") == "status" and "f:lastHeartbeatTime" in ready
