"""What hubs left behind that were stopped in the middle of a start, or missed the end of a server; and its removal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.spawner.objects.api_objects import (
    CLAIMS,
    COMPANION_LABELS,
    STANDING_LABELS,
    TEMPLATE_LABELS,
    TEMPLATES,
    label_selector,
)
from dra_spawner.spawner.objects.standing_objects import forget_users, remove_if_unused, users_of
from dra_spawner.spawner.objects.start_objects import adopt

#: apiVersion and plural of a kind.
Kind = tuple[str, str]

_TEMPLATE_KIND: Kind = (names.RESOURCE_API, TEMPLATES)
_CLAIM_KIND: Kind = (names.RESOURCE_API, CLAIMS)
_OVER_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a sweep does to the starts' own objects.

    Attributes
    ----------
    delete
        Namespace and name of those to delete.
    adopt
        Namespace and name of those to give to a pod that uses them, and the pod's name and uid.
    """

    delete: tuple[tuple[str, str], ...] = ()
    adopt: tuple[tuple[str, str, str, str], ...] = ()


def find_leftovers(
    objects: Sequence[JsonObject], pods: Sequence[JsonObject], now: datetime, older_than: timedelta
) -> Leftovers:
    """Which of the starts' own objects were left behind.

    Those that no pod owns and whose start is over. If there is a pod that names one, or that is of the same start,
    it becomes the owner, as the start would have done; else the object is deleted.

    Parameters
    ----------
    older_than
        For objects that do not say when their start is over.
    """
    users = {}
    for pod in pods:
        metadata = pod["metadata"]
        users[metadata["namespace"], _start(metadata)] = metadata
        for entry in pod["spec"].get("resourceClaims", ()):
            users[metadata["namespace"], entry.get("resourceClaimTemplateName")] = metadata
    delete, adopted = [], []
    for each in objects:
        metadata = each["metadata"]
        if metadata.get("ownerReferences") or now < _end(metadata, older_than):
            continue
        key = (metadata["namespace"], metadata["name"])
        user = users.get(key) or (_start(metadata) and users.get((metadata["namespace"], _start(metadata))))
        if user:
            adopted.append((*key, user["name"], user["uid"]))
        else:
            delete.append(key)
    return Leftovers(tuple(delete), tuple(adopted))


def _start(metadata: JsonObject) -> str:
    return str((metadata.get("annotations") or {}).get(names.START, ""))


def _end(metadata: JsonObject, older_than: timedelta) -> datetime:
    ends = (metadata.get("annotations") or {}).get(names.START_ENDS, "")
    try:
        end = datetime.fromisoformat(ends)
    except ValueError:
        end = None
    if end is not None and end.tzinfo is not None:
        return end
    return datetime.fromisoformat(metadata["creationTimestamp"]) + older_than


def starts_that_are_over(found: JsonObject, pods: Sequence[JsonObject], now: datetime) -> tuple[str, ...]:
    """Starts that are written on an object used by several, are over and have no pod any more."""
    namespace = found["metadata"]["namespace"]
    alive = {
        _start(pod["metadata"])
        for pod in pods
        if pod["metadata"]["namespace"] == namespace and pod.get("status", {}).get("phase") not in _OVER_PHASES
    }
    return tuple(nonce for nonce, end in users_of(found).items() if end < now and nonce not in alive)


class Sweep:
    """One look at a namespace, or at all of them.

    Parameters
    ----------
    namespace
        Where to look; ``None`` means every namespace (``enable_user_namespaces``).
    older_than
        Younger objects that do not say otherwise may belong to a start that is under way.

    Attributes
    ----------
    done, errors
        What was removed or given away, and what could not be, in words.
    """

    def __init__(self, api: KubernetesApi, namespace: str | None, older_than: timedelta, now: datetime) -> None:
        self.done: list[str] = []
        self.errors: list[str] = []
        self._api = api
        self._namespace = namespace
        self._older_than = older_than
        self._now = now
        self._pods: list[JsonObject] | None = None

    async def run(self, companion_kinds: Collection[Kind] = ()) -> None:
        """Remove or give away what was left behind; one thing that cannot be does not keep the others.

        Parameters
        ----------
        companion_kinds
            Kinds of companion objects that profiles of this hub use.
        """
        # Claims that were made from templates belong to their pods; those that a start took over may not.
        own = [(_TEMPLATE_KIND, TEMPLATE_LABELS), (_CLAIM_KIND, TEMPLATE_LABELS)]
        own += [(kind, COMPANION_LABELS) for kind in sorted(companion_kinds)]
        for kind, labels in own:
            await self._sweep_own(kind, await self._list(kind, label_selector(labels)))
        for kind in (_CLAIM_KIND, *sorted(companion_kinds)):
            for found in await self._list(kind, label_selector(STANDING_LABELS)):
                await self._sweep_standing(kind, found)

    async def _list(self, kind: Kind, selector: str) -> list[JsonObject]:
        """The objects; none where they cannot be listed, which is noted."""
        try:
            return list((await self._api.list(resource_path(*kind, self._namespace), label_selector=selector))["items"])
        except KubernetesError as error:
            self.errors.append(str(error))
            return []

    async def _pods_there(self) -> list[JsonObject]:
        """The pods, asked for only if something depends on it, and then once.

        Starts that were over when the sweep began make no pods any more, so these are all that matter.
        """
        if self._pods is None:
            self._pods = (await self._api.list(resource_path("v1", "pods", self._namespace)))["items"]
        return self._pods

    async def _sweep_own(self, kind: Kind, objects: list[JsonObject]) -> None:
        if not find_leftovers(objects, (), self._now, self._older_than).delete:
            return
        try:
            leftovers = find_leftovers(objects, await self._pods_there(), self._now, self._older_than)
        except KubernetesError as error:
            self.errors.append(str(error))
            return
        for namespace, name in leftovers.delete:
            try:
                await self._api.delete(resource_path(*kind, namespace, name), missing_ok=True)
                self.done.append(f"deleted {kind[1]} {namespace}/{name}")
            except KubernetesError as error:
                self.errors.append(str(error))
        for namespace, name, pod_name, pod_uid in leftovers.adopt:
            try:
                await adopt(self._api, resource_path(*kind, namespace, name), pod_name, pod_uid)
                self.done.append(f"gave {kind[1]} {namespace}/{name} to pod {pod_name}")
            except KubernetesError as error:
                self.errors.append(str(error))

    async def _sweep_standing(self, kind: Kind, found: JsonObject) -> None:
        path = resource_path(*kind, found["metadata"]["namespace"], found["metadata"]["name"])
        try:
            if any(end < self._now for end in users_of(found).values()):
                over = starts_that_are_over(found, await self._pods_there(), self._now)
                went = bool(over) and await forget_users(self._api, path, over, self._now)
            else:
                went = await remove_if_unused(self._api, path, found, self._now)
        except KubernetesError as error:
            self.errors.append(str(error))
            return
        except Exception as error:
            # Anybody may write annotations: what is wrong with one object keeps no other.
            self.errors.append(f"{path} makes no sense ({type(error).__name__}: {str(error)[:200]})")
            return
        if went:
            self.done.append(f"deleted {kind[1]} {found['metadata']['namespace']}/{found['metadata']['name']}")
