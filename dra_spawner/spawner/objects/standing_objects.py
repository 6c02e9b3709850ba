"""Objects that several servers use together: claims of a team, a NetworkAttachmentDefinition of a VLAN.

Each start writes itself on the object, one annotation a start, before it makes its pod; when its server has gone it
takes the annotation off again. Whoever takes off the last one removes the object, on condition that it has not changed
since (``resourceVersion``). So no start can lose the object under its feet, whatever runs at the same time:

- two first starts: one creates the object, the other is told that it exists and writes itself on it;
- a start while the last server stops: either the start's annotation comes first, then the removal's condition fails; or
  the removal does, then the start finds nothing and makes the object anew;
- a hub that is killed in between: its annotation says when that start is over. A sweep takes off those that are over
  and have no pod, then removes the object on the same condition.

Owner references would do without the sweep, but Kubernetes' garbage collector does not ask: between the creation of a
pod and the patch that makes it an owner, the last other pod may go, and the object with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, PatchType
from dra_spawner.spawner.objects.api_objects import STANDING_LABELS, ApiObject

#: Most pods that one claim serves (``ResourceClaimReservedForMaxSize``).
MOST_PODS_OF_A_CLAIM = 256

_TRIES = 4
_MOST_DIGITS = 9  # 31 years


class StandingRefused(Exception):
    """Raised where a start cannot use the object: a sentence for the user, and a detail for the log."""

    def __init__(self, sentence: str, detail: str) -> None:
        super().__init__(sentence)
        self.detail = detail


class StandingGoing(Exception):
    """Raised where the object is on its way out; trying again soon helps."""


@dataclass(frozen=True, slots=True)
class StandingObject:
    """An object that several starts use.

    Attributes
    ----------
    digest
        Of what it is meant to be.
    keep_seconds
        How long it stays without users; ``None`` for ever. Whoever creates it decides.
    may_be_foreign
        Whether an object of this name that others made will do. It is left alone then.
    """

    object: ApiObject
    digest: str
    keep_seconds: int | None = 0
    may_be_foreign: bool = False

    def manifest(self, nonce: str, until: datetime) -> JsonObject:
        """As its first user creates it."""
        metadata = self.object.manifest["metadata"]
        annotations = {
            **metadata.get("annotations", {}),
            names.DIGEST: self.digest,
            names.KEEP_SECONDS: "" if self.keep_seconds is None else str(self.keep_seconds),
            names.START_PREFIX + nonce: until.isoformat(),
        }
        labels = {**metadata.get("labels", {}), **STANDING_LABELS}
        return {**self.object.manifest, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


async def hold(api: KubernetesApi, namespace: str, standing: StandingObject, nonce: str, until: datetime) -> bool:
    """Write a start on the object, which is created if it is not there. May be repeated.

    Parameters
    ----------
    until
        When the start is over: from then on the object is the start's only as long as its pod is there.

    Returns
    -------
    bool
        Whether the object is one of ours, so that `release` is due.

    Raises
    ------
    StandingRefused
        With a sentence why it cannot be used.
    StandingGoing
        If it is being deleted.
    KubernetesError
        As the API server answered.
    """
    path = standing.object.path(namespace)
    for _ in range(_TRIES):
        try:
            found = await api.patch(path, _note(standing, nonce, until), patch_type=PatchType.JSON)
        except KubernetesError as error:
            if error.status == 422:
                return await _foreign(api, path, standing)
            if not error.not_found:
                raise
            try:
                await api.create(standing.object.collection(namespace), standing.manifest(nonce, until))
            except KubernetesError as refusal:
                if not refusal.already_exists:
                    raise
                continue  # another first user; or it is gone again by now
            return True
        if found["metadata"].get("deletionTimestamp"):
            raise StandingGoing(f"{standing.object.description} is being removed")
        if len(_reserved_for(found)) >= MOST_PODS_OF_A_CLAIM:
            raise StandingRefused(
                f"The device of this choice is shared by {MOST_PODS_OF_A_CLAIM} servers, which is the limit. Please "
                "try again when one of them has stopped.",
                f"{path} has {MOST_PODS_OF_A_CLAIM} consumers, the most that Kubernetes allows",
            )
        return True
    raise StandingGoing(f"{standing.object.description} comes and goes")


def _note(standing: StandingObject, nonce: str, until: datetime) -> list[JsonObject]:
    """A patch that adds a start and no more; it fails on an object that is not the one that is meant."""
    labels, annotations = "/metadata/labels/", "/metadata/annotations/"
    component = STANDING_LABELS[names.PART]
    return [
        {"op": "test", "path": labels + _escaped(names.PART), "value": component},
        {"op": "test", "path": annotations + _escaped(names.DIGEST), "value": standing.digest},
        {"op": "add", "path": annotations + _escaped(names.START_PREFIX + nonce), "value": until.isoformat()},
    ]


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


async def _foreign(api: KubernetesApi, path: str, standing: StandingObject) -> bool:
    """Judge an object of this name that is not the one that is meant."""
    metadata = (await api.get(path))["metadata"]
    is_ours = (metadata.get("labels") or {}).get(names.PART) == STANDING_LABELS[names.PART]
    if not is_ours and standing.may_be_foreign:
        return False
    if not is_ours:
        raise StandingRefused(
            "This choice needs a name in the cluster that is taken. Please tell your administrator.",
            f"{path} was created by others; rename {standing.object.description}, as a profile needs its name",
        )
    if (metadata.get("annotations") or {}).get(names.DIGEST) == standing.digest:
        raise StandingGoing(f"{standing.object.description} has just been replaced")
    raise StandingRefused(
        "Other servers still use this choice as it was set up before. Please try again when they have stopped.",
        f"{path} has the content of an earlier profile, and servers use it",
    )


async def forget_users(
    api: KubernetesApi, path: str, nonces: Collection[str], now: datetime, gone_pods: Collection[str] = ()
) -> bool:
    """Take starts off an object, and remove it if none is left and it need not be kept. May be repeated.

    Parameters
    ----------
    nonces
        Of starts that are over and whose pods are gone.
    gone_pods
        Names of those pods; Kubernetes may not have taken note yet.

    Returns
    -------
    bool
        Whether the object went.
    """
    annotations: dict[str, str | None] = {names.START_PREFIX + nonce: None for nonce in nonces}
    annotations[names.UNUSED_SINCE] = now.isoformat()
    try:
        found = await api.patch(path, {"metadata": {"annotations": annotations}})
    except KubernetesError as error:
        if error.not_found:
            return False
        raise
    return await remove_if_unused(api, path, found, now, gone_pods)


async def remove_if_unused(
    api: KubernetesApi, path: str, found: JsonObject, now: datetime, gone_pods: Collection[str] = ()
) -> bool:
    """Remove the object, if it is due and still as it was found; whether it went."""
    if not is_due(found, now, gone_pods):
        return False
    metadata = found["metadata"]
    try:
        await api.delete(path, uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    except KubernetesError as error:
        if error.not_found or error.conflict:  # gone, or in use by now
            return False
        raise
    return True


def users_of(found: JsonObject) -> dict[str, datetime]:
    """The starts that are written on an object, and when each is over."""
    annotations: Mapping[str, str] = found["metadata"].get("annotations") or {}
    return {
        key.removeprefix(names.START_PREFIX): _time(value)
        for key, value in annotations.items()
        if key.startswith(names.START_PREFIX)
    }


def is_due(found: JsonObject, now: datetime, gone_pods: Collection[str] = ()) -> bool:
    """Whether an object is no longer used, and was kept for long enough."""
    metadata = found["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    keep = annotations.get(names.KEEP_SECONDS, "")
    # Text that another program wrote may be a number that no time has.
    is_reserved_by_ever = not (keep.isascii() and keep.isdigit() and len(keep) <= _MOST_DIGITS)
    if metadata.get("deletionTimestamp") or users_of(found) or is_reserved_by_ever:
        return False
    # Pods that are no servers of this hub may name the claim, too; only Kubernetes knows them.
    if any(entry.get("name") not in gone_pods for entry in _reserved_for(found)):
        return False
    unused_since = _time(annotations.get(names.UNUSED_SINCE, ""))
    return now - unused_since >= timedelta(seconds=int(keep))


def _reserved_for(found: JsonObject) -> list[JsonObject]:
    reserved: list[JsonObject] = (found.get("status") or {}).get("reservedFor") or []
    return reserved


def _time(value: str) -> datetime:
    """A time as it stands in an annotation; any other text counts as long ago."""
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return _LONG_AGO
    return time if time.tzinfo else _LONG_AGO


_LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
