"""Finds and removes leftovers of hubs that were stopped during a start or missed a server's end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.spawner.hub_parts.own_namespaces import own_namespaces
from dra_spawner.spawner.objects.api_objects import (
    CLAIMS,
    COMPANION_LABELS,
    SHARED_LABELS,
    TEMPLATE_LABELS,
    TEMPLATES,
    label_selector,
)
from dra_spawner.spawner.objects.shared_objects import remove_if_unused, remove_users, users_of
from dra_spawner.spawner.objects.start_objects import adopt

#: apiVersion and plural of a kind.
Kind = tuple[str, str]

_TEMPLATE_KIND: Kind = (names.RESOURCE_API, TEMPLATES)
_CLAIM_KIND: Kind = (names.RESOURCE_API, CLAIMS)
_OVER_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Actions of a sweep on objects of single starts.

    Attributes
    ----------
    delete
        Namespace and name of objects to delete.
    adopt
        Namespace and name of objects that a pod uses and shall own, and the pod's name and uid.
    """

    delete: tuple[tuple[str, str], ...] = ()
    adopt: tuple[tuple[str, str, str, str], ...] = ()


def find_leftovers(
    objects: Sequence[JsonObject], pods: Sequence[JsonObject], now: datetime, older_than: timedelta
) -> Leftovers:
    """Find objects of single starts that were left behind.

    Leftovers have no owner, and their start is over. If a pod names the object, or is of the same start, it becomes the
    object's owner; else the object is deleted.

    Parameters
    ----------
    older_than
        Minimum age of objects that do not state the end of their start.
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


def finished_starts(found: JsonObject, pods: Sequence[JsonObject], now: datetime) -> tuple[str, ...]:
    """Starts that use a shared object but are over and have no pod."""
    namespace = found["metadata"]["namespace"]
    alive = {
        _start(pod["metadata"])
        for pod in pods
        if pod["metadata"]["namespace"] == namespace and pod.get("status", {}).get("phase") not in _OVER_PHASES
    }
    return tuple(nonce for nonce, end in users_of(found).items() if end < now and nonce not in alive)


class Sweep:
    """One sweep of a namespace, or of all.

    Parameters
    ----------
    namespace
        Namespace of the sweep; ``None`` means every namespace (``enable_user_namespaces``).
    older_than
        Minimum age of objects that do not state the end of their start; younger objects may belong to a running start.
    hub_namespace
        Namespace of the hub: of all namespaces, those with its label are swept. Empty: all are.

    Attributes
    ----------
    done, errors
        Sentences about what was done, and about errors.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str | None,
        older_than: timedelta,
        now: datetime,
        *,
        hub_namespace: str = "",
    ) -> None:
        self.done: list[str] = []
        self.errors: list[str] = []
        self._api = api
        self._namespace = namespace
        self._older_than = older_than
        self._now = now
        self._hub_namespace = hub_namespace
        self._own: frozenset[str] | None = None
        self._pods: list[JsonObject] | None = None

    async def run(self, companion_kinds: Collection[Kind] = ()) -> None:
        """Delete leftovers or give them to their pods; errors do not stop the sweep.

        Parameters
        ----------
        companion_kinds
            Kinds of companion objects that profiles of this hub use.
        """
        if self._namespace is None and self._hub_namespace:
            try:
                self._own = await own_namespaces(self._api, self._hub_namespace)
            except KubernetesError as error:
                self.errors.append(str(error))
                return
        # Pods own claims from templates, but a claim after a handover may have no owner yet.
        own = [(_TEMPLATE_KIND, TEMPLATE_LABELS), (_CLAIM_KIND, TEMPLATE_LABELS)]
        own += [(kind, COMPANION_LABELS) for kind in sorted(companion_kinds)]
        for kind, labels in own:
            await self._sweep_own(kind, await self._list(kind, label_selector(labels)))
        for kind in (_CLAIM_KIND, *sorted(companion_kinds)):
            for found in await self._list(kind, label_selector(SHARED_LABELS)):
                await self._sweep_shared(kind, found)

    async def _list(self, kind: Kind, selector: str) -> list[JsonObject]:
        """The objects of a kind; after an error an empty list, and the error is recorded."""
        try:
            found = await self._api.list(resource_path(*kind, self._namespace), label_selector=selector)
        except KubernetesError as error:
            self.errors.append(str(error))
            return []
        return [each for each in found["items"] if self._own is None or each["metadata"]["namespace"] in self._own]

    async def _list_all_pods(self) -> list[JsonObject]:
        """All pods; they are listed once, at the first call.

        Starts that were over at the beginning of the sweep create no further pods.
        """
        if self._pods is None:
            self._pods = (await self._api.list(resource_path("v1", "pods", self._namespace)))["items"]
        return self._pods

    async def _sweep_own(self, kind: Kind, objects: list[JsonObject]) -> None:
        if not find_leftovers(objects, (), self._now, self._older_than).delete:
            return
        try:
            leftovers = find_leftovers(objects, await self._list_all_pods(), self._now, self._older_than)
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

    async def _sweep_shared(self, kind: Kind, found: JsonObject) -> None:
        path = resource_path(*kind, found["metadata"]["namespace"], found["metadata"]["name"])
        try:
            if any(end < self._now for end in users_of(found).values()):
                over = finished_starts(found, await self._list_all_pods(), self._now)
                is_removed = bool(over) and await remove_users(self._api, path, over, self._now)
            else:
                is_removed = await remove_if_unused(self._api, path, found, self._now)
        except KubernetesError as error:
            self.errors.append(str(error))
            return
        except Exception as error:
            # Users may write annotations, so an invalid object must not stop the sweep.
            self.errors.append(f"{path} is invalid ({type(error).__name__}: {str(error)[:200]})")
            return
        if is_removed:
            self.done.append(f"deleted {kind[1]} {found['metadata']['namespace']}/{found['metadata']['name']}")
