"""The effect of a DELETE: the object is removed, or marked until its kubelet and its finalizers are done.

Follows ``BeforeDelete`` and ``updateForGracefulDeletionAndFinalizers`` of ``k8s.io/apiserver``, and the pod
strategy's ``CheckGracefulDelete``.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import NAMESPACES, PODS, ResourceType

ORPHAN_FINALIZER = "orphan"
FOREGROUND_FINALIZER = "foregroundDeletion"
DEFAULT_GRACE_PERIOD_SECONDS = 30


class PropagationPolicy(StrEnum):
    """Effect of a deletion on the owned objects."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


def timestamp(moment: datetime) -> str:
    """A point in time as the API writes it: RFC 3339, UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    """The point in time of an API timestamp."""
    return datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The result of a DELETE."""

    object: JsonObject
    """The object's last, or present, state."""
    removed: bool
    """Whether it is removed; False while its kubelet or a finalizer blocks the removal."""


@dataclass(frozen=True, slots=True)
class DeletionStep:
    """The next step of an object's deletion."""

    metadata: JsonObject
    """The object's metadata after the step; unchanged if nothing is marked."""
    remove: bool
    """Whether to remove it after marking."""


def deletion_step(
    resource_type: ResourceType,
    obj: JsonObject,
    now: datetime,
    grace_period_seconds: int | None = None,
    propagation_policy: PropagationPolicy | None = None,
) -> DeletionStep:
    """Decide what a DELETE does to `obj`.

    Parameters
    ----------
    grace_period_seconds
        Grace period of the request; only pods have one.
    """
    metadata = obj["metadata"]
    if resource_type is NAMESPACES:
        return _namespace_step(obj, now)
    period = _grace_period(resource_type, obj, grace_period_seconds)
    marked = dict(metadata)
    graceful = False
    if period is not None and metadata.get("deletionTimestamp"):
        current = metadata.get("deletionGracePeriodSeconds")
        if current is not None:
            if grace_period_seconds is None or period >= current:
                return DeletionStep(metadata, remove=False)  # already terminating; the period only shrinks
            requested_at = parse_timestamp(metadata["deletionTimestamp"]) - timedelta(seconds=current)
            marked |= _marks(requested_at, period)
            graceful = True
    elif period is not None:
        marked |= _marks(now, period)
        if metadata.get("generation"):
            marked["generation"] = metadata["generation"] + 1
        graceful = True
    _set_propagation(marked, propagation_policy)
    if marked.get("finalizers"):
        if not graceful:
            _mark_as_deleting(marked, now)
        return DeletionStep(marked, remove=False)
    if graceful and period:
        return DeletionStep(marked, remove=False)
    return DeletionStep(marked if graceful else metadata, remove=True)


def _marks(requested_at: datetime, period: int) -> JsonObject:
    return {
        "deletionTimestamp": timestamp(requested_at + timedelta(seconds=period)),
        "deletionGracePeriodSeconds": period,
    }


def _grace_period(resource_type: ResourceType, obj: JsonObject, requested: int | None) -> int | None:
    """Grace period in seconds; None for kinds without a grace period."""
    if resource_type is not PODS:
        return None
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    own = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_PERIOD_SECONDS)
    period = own if requested is None else requested
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0  # no kubelet runs it
    return 1 if period < 0 else int(period)


def _set_propagation(metadata: JsonObject, policy: PropagationPolicy | None) -> None:
    """Replace the finalizers that state the policy for the garbage collector."""
    finalizers = list(metadata.get("finalizers") or ())
    if policy is not None:
        finalizers = [name for name in finalizers if name not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)]
    if policy is PropagationPolicy.ORPHAN:
        finalizers.append(ORPHAN_FINALIZER)
    elif policy is PropagationPolicy.FOREGROUND:
        finalizers.append(FOREGROUND_FINALIZER)
    if finalizers != list(metadata.get("finalizers") or ()):
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]


def _mark_as_deleting(metadata: JsonObject, now: datetime) -> None:
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = timestamp(now)
        if metadata.get("generation"):
            metadata["generation"] += 1
    metadata["deletionGracePeriodSeconds"] = 0


def _namespace_step(obj: JsonObject, now: datetime) -> DeletionStep:
    """The first step for a namespace: it terminates, and is removed when it is empty."""
    if obj["metadata"].get("deletionTimestamp"):
        return DeletionStep(obj["metadata"], remove=False)
    return DeletionStep({**obj["metadata"], "deletionTimestamp": timestamp(now)}, remove=False)
