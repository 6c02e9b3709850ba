"""Objects that several servers share: claims of a team, a NetworkAttachmentDefinition of a VLAN.

Each start adds an annotation to the object before it creates its pod, and removes the annotation when its server is
gone. The start that removes the last annotation deletes the object, on condition that the object has not changed since
(``resourceVersion``). So no start can lose the object, whatever runs at the same time:

- Two first starts: one creates the object; the other gets the error that it exists, and adds its annotation.
- A start while the last server stops: if the annotation comes first, the condition of the deletion fails. If the
  deletion comes first, the start finds no object and creates it again.
- A hub that is killed: the annotation states when its start is over. A sweep removes annotations of starts that are
  over and have no pod, and then deletes the object on the same condition.

Owner references would need no sweep, but Kubernetes' garbage collector has no such condition: between the creation of a
pod and the patch that makes it an owner, the last other pod may end, and the object be deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, PatchType
from dra_spawner.spawner.objects.api_objects import SHARED_LABELS, ApiObject

#: Maximum number of pods that share a claim (``ResourceClaimReservedForMaxSize``).
MAX_PODS_OF_A_CLAIM = 256

_TRIES = 4
_MAX_DIGITS = 9  # 31 years


class SharedRefused(Exception):
    """Raised if a start cannot use the object, with a sentence for the user and a detail for the log."""

    def __init__(self, sentence: str, detail: str) -> None:
        super().__init__(sentence)
        self.detail = detail


class ForeignObject(SharedRefused):
    """Raised if the object of this name is another program's, which is never changed."""


class SharedTerminating(Exception):
    """Raised if the object is being deleted; a later try helps."""


@dataclass(frozen=True, slots=True)
class SharedObject:
    """An object that several starts use.

    Attributes
    ----------
    digest
        Digest of its desired content.
    keep_seconds
        Time for which it stays without users; ``None`` for ever. The start that creates it decides.
    may_be_foreign
        Whether starts may use an object of this name that another program created; it is never changed then.
    """

    object: ApiObject
    digest: str
    keep_seconds: int | None = 0
    may_be_foreign: bool = False

    def manifest(self, nonce: str, until: datetime) -> JsonObject:
        """The manifest with which its first user creates it."""
        metadata = self.object.manifest["metadata"]
        annotations = {
            **metadata.get("annotations", {}),
            names.DIGEST: self.digest,
            names.KEEP_SECONDS: "" if self.keep_seconds is None else str(self.keep_seconds),
            names.START_PREFIX + nonce: until.isoformat(),
        }
        labels = {**metadata.get("labels", {}), **SHARED_LABELS}
        return {**self.object.manifest, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


async def add_user(api: KubernetesApi, namespace: str, shared: SharedObject, nonce: str, until: datetime) -> bool:
    """Add a start's annotation to the object, which is created if it does not exist. Idempotent.

    Parameters
    ----------
    until
        End of the start; after it, the annotation counts only while the start's pod exists.

    Returns
    -------
    bool
        Whether the object is this project's, so that `remove_users` must follow.

    Raises
    ------
    SharedRefused
        If the start cannot use the object, with a sentence for the user.
    SharedTerminating
        If the object is being deleted.
    KubernetesError
        If the API server refuses, or does not answer.
    """
    path = shared.object.path(namespace)
    for _ in range(_TRIES):
        try:
            found = await api.patch(path, _add_user_patch(shared, nonce, until), patch_type=PatchType.JSON)
        except KubernetesError as error:
            if error.status == 422:
                return await _foreign(api, namespace, shared)
            if not error.not_found:
                raise
            try:
                await api.create(shared.object.collection(namespace), shared.manifest(nonce, until))
            except KubernetesError as refusal:
                if not refusal.already_exists:
                    raise
                continue  # another start has created it, and it may be gone again
            return True
        if found["metadata"].get("deletionTimestamp"):
            raise SharedTerminating(f"{shared.object.description} is being removed")
        if len(_reserved_for(found)) >= MAX_PODS_OF_A_CLAIM:
            raise SharedRefused(
                f"The device of this choice is shared by {MAX_PODS_OF_A_CLAIM} servers, which is the limit. Please "
                "try again when one of them has stopped.",
                f"{path} has {MAX_PODS_OF_A_CLAIM} consumers, the most that Kubernetes allows",
            )
        return True
    raise SharedTerminating(f"{shared.object.description} is created and deleted repeatedly")


def _add_user_patch(shared: SharedObject, nonce: str, until: datetime) -> list[JsonObject]:
    """A patch that only adds a start's annotation; it fails on an object with another digest."""
    labels, annotations = "/metadata/labels/", "/metadata/annotations/"
    component = SHARED_LABELS[names.PART]
    return [
        {"op": "test", "path": labels + _escaped(names.PART), "value": component},
        {"op": "test", "path": annotations + _escaped(names.DIGEST), "value": shared.digest},
        {"op": "add", "path": annotations + _escaped(names.START_PREFIX + nonce), "value": until.isoformat()},
    ]


def _escaped(key: str) -> str:
    """A key escaped for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


async def _foreign(api: KubernetesApi, namespace: str, shared: SharedObject) -> bool:
    """Handle an existing object of this name with another digest: whether it is this project's.

    Raises
    ------
    SharedRefused, SharedTerminating
        If the start cannot use it.
    """
    path = shared.object.path(namespace)
    # The hub's account may list claims, not get them.
    selector = f"metadata.name={shared.object.name}"
    found = (await api.list(shared.object.collection(namespace), field_selector=selector))["items"]
    if not found:
        raise SharedTerminating(f"{shared.object.description} has just been removed")
    metadata = found[0]["metadata"]
    is_ours = (metadata.get("labels") or {}).get(names.PART) == SHARED_LABELS[names.PART]
    if not is_ours and shared.may_be_foreign:
        return False
    if not is_ours:
        raise ForeignObject(
            "This choice needs a name in the cluster that is taken. Please tell your administrator.",
            f"{path} was created by another program; rename {shared.object.description}, as a profile needs its name",
        )
    if (metadata.get("annotations") or {}).get(names.DIGEST) == shared.digest:
        raise SharedTerminating(f"{shared.object.description} has just been replaced")
    raise SharedRefused(
        "Other servers still use this choice as it was set up before. Please try again when they have stopped.",
        f"{path} has the content of an earlier profile, and servers use it",
    )


async def remove_users(
    api: KubernetesApi, path: str, nonces: Collection[str], now: datetime, gone_pods: Collection[str] = ()
) -> bool:
    """Remove annotations of starts, and delete the object if it has no users and need not be kept. Idempotent.

    Parameters
    ----------
    nonces
        Nonces of starts that are over and whose pods are gone.
    gone_pods
        Names of these pods; the claim may still list them as consumers.

    Returns
    -------
    bool
        Whether the object was deleted.
    """
    annotations: dict[str, str | None] = {names.START_PREFIX + nonce: None for nonce in nonces}
    annotations[names.UNUSED_SINCE] = now.isoformat()
    for _ in range(_TRIES):
        try:
            found = await api.patch(path, {"metadata": {"annotations": annotations}})
            if not is_due(found, now, gone_pods):
                return False
            await _delete(api, path, found)
        except KubernetesError as error:
            if error.not_found:
                return False
            if not error.conflict:
                raise
            # Somebody has written it in between: a start that uses it, or Kubernetes, which removes ended consumers.
        else:
            return True
    return False  # a sweep looks again


async def remove_if_unused(
    api: KubernetesApi, path: str, found: JsonObject, now: datetime, gone_pods: Collection[str] = ()
) -> bool:
    """Delete the object if it is due and unchanged; return whether it was deleted."""
    if not is_due(found, now, gone_pods):
        return False
    try:
        await _delete(api, path, found)
    except KubernetesError as error:
        if error.not_found or error.conflict:  # gone, or used again
            return False
        raise
    return True


async def _delete(api: KubernetesApi, path: str, found: JsonObject) -> None:
    """Delete the object if it is unchanged."""
    metadata = found["metadata"]
    await api.delete(path, uid=metadata["uid"], resource_version=metadata["resourceVersion"])


def users_of(found: JsonObject) -> dict[str, datetime]:
    """Nonces of the starts in an object's annotations, and the end of each."""
    annotations: Mapping[str, str] = found["metadata"].get("annotations") or {}
    return {
        key.removeprefix(names.START_PREFIX): _time(value)
        for key, value in annotations.items()
        if key.startswith(names.START_PREFIX)
    }


def is_due(found: JsonObject, now: datetime, gone_pods: Collection[str] = ()) -> bool:
    """Whether an object is unused, and the time for which it is kept is over."""
    metadata = found["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    keep = annotations.get(names.KEEP_SECONDS, "")
    # Another program may have written a number that is too large for a time.
    is_kept_for_ever = not (keep.isascii() and keep.isdigit() and len(keep) <= _MAX_DIGITS)
    if metadata.get("deletionTimestamp") or users_of(found) or is_kept_for_ever:
        return False
    # Other pods than this hub's servers may use the claim, too; only Kubernetes lists them.
    if any(entry.get("name") not in gone_pods for entry in _reserved_for(found)):
        return False
    unused_since = _time(annotations.get(names.UNUSED_SINCE, ""))
    return now - unused_since >= timedelta(seconds=int(keep))


def _reserved_for(found: JsonObject) -> list[JsonObject]:
    reserved: list[JsonObject] = (found.get("status") or {}).get("reservedFor") or []
    return reserved


def _time(value: str) -> datetime:
    """A time in an annotation; any other text counts as long ago."""
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return _LONG_AGO
    return time if time.tzinfo else _LONG_AGO


_LONG_AGO = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
