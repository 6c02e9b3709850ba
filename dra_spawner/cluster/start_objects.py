"""The objects that one start of a server makes beside its pod, from creation to the last one gone.

Templates come first, then the pod that names them, then the pod becomes their owner. From there on Kubernetes'
own garbage collection removes them with the pod. Names carry a nonce of the start, so that a late clean-up of
an earlier start never touches a fresh object.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dra_spawner.cluster.api import JsonObject, KubernetesApi, KubernetesError, resource_path

RESOURCE_API = "resource.k8s.io/v1"
TEMPLATES = "resourceclaimtemplates"
#: On the pod, its templates and claims: which start they belong to.
START_ANNOTATION = "hub.jupyter.org/dra-start"
#: Finds every template that a DRASpawner made.
TEMPLATE_LABELS: Mapping[str, str] = {
    "app.kubernetes.io/managed-by": "dra-spawner",
    "app.kubernetes.io/component": "device-claim",
}


def new_nonce() -> str:
    """Eight random characters that may stand in an object's name."""
    return secrets.token_hex(4)


def owner_reference(pod_name: str, pod_uid: str) -> JsonObject:
    """Reference that lets a template go with its pod.

    ``blockOwnerDeletion`` is false: true would need the right to update ``pods/finalizers`` where the admission plugin
    OwnerReferencesPermissionEnforcement is on.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod_name,
        "uid": pod_uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }


@dataclass
class StartObjects:
    """Makes, hands over and, if the start fails, removes the templates of one start.

    Attributes
    ----------
    nonce
        Marks everything of this start.
    templates
        Template manifests by the name of the pod's ``resourceClaims`` entry.
    pod_requested
        Whether the pod's creation was tried, so that it may exist even if no answer came.
    """

    api: KubernetesApi
    namespace: str
    nonce: str
    templates: Mapping[str, JsonObject]
    pod_requested: bool = False
    _maybe_made: set[str] = field(default_factory=set)
    _made: set[str] = field(default_factory=set)
    _owned: set[str] = field(default_factory=set)

    async def ensure_templates(self, wanted: Collection[str]) -> None:
        """Create those templates out of ``wanted`` (names) that are ours and not there yet.

        Raises
        ------
        KubernetesError
            As the API server answered. Creation may be tried again: the name tells that a template is this start's.
        """
        for manifest in self.templates.values():
            name = manifest["metadata"]["name"]
            if name not in wanted or name in self._made:
                continue
            self._maybe_made.add(name)
            try:
                await self.api.create(resource_path(RESOURCE_API, TEMPLATES, self.namespace), manifest)
            except KubernetesError as error:
                if not error.already_exists:
                    raise
            self._made.add(name)

    async def give_to_pod(self, pod_name: str, pod_uid: str) -> None:
        """Make the pod the owner of the templates, so that they go when it goes."""
        for name in sorted(self._made - self._owned):
            await adopt(self.api, self.namespace, name, pod_name, pod_uid)
            self._owned.add(name)

    @property
    def all_owned(self) -> bool:
        """Whether every template that may exist goes with the pod."""
        return self._maybe_made <= self._owned

    async def remove(self, pod_name: str) -> None:
        """Remove the pod of this start, if it exists, and its templates. May be repeated.

        A pod of the same name that another start made is left alone.
        """
        if self.pod_requested:
            await self._remove_pod(pod_name)
            self.pod_requested = False
        for name in sorted(self._maybe_made):
            await self.api.delete(resource_path(RESOURCE_API, TEMPLATES, self.namespace, name), missing_ok=True)
            self._maybe_made.discard(name)
            self._made.discard(name)

    async def _remove_pod(self, pod_name: str) -> None:
        path = resource_path("v1", "pods", self.namespace, pod_name)
        try:
            metadata = (await self.api.get(path))["metadata"]
            if metadata.get("annotations", {}).get(START_ANNOTATION) == self.nonce:
                await self.api.delete(path, grace_period_seconds=0, uid=metadata["uid"])
        except KubernetesError as error:
            if not (error.not_found or error.conflict):  # gone, or another pod of that name by now
                raise


async def adopt(api: KubernetesApi, namespace: str, template: str, pod_name: str, pod_uid: str) -> None:
    """Make a pod the owner of a template."""
    body = {"metadata": {"ownerReferences": [owner_reference(pod_name, pod_uid)]}}
    try:
        await api.patch(resource_path(RESOURCE_API, TEMPLATES, namespace, template), body)
    except KubernetesError as error:
        if not error.not_found:  # gone with its pod already
            raise


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a sweep does: templates (namespace, name) to delete, and to give to the pod (name, uid) that uses them."""

    delete: tuple[tuple[str, str], ...] = ()
    adopt: tuple[tuple[str, str, str, str], ...] = ()


def find_leftovers(
    templates: Sequence[JsonObject], pods: Sequence[JsonObject], now: datetime, older_than: timedelta
) -> Leftovers:
    """Which templates a hub left behind that was stopped in the middle of a start.

    A template counts as left behind when no pod owns it and it is older than any start may take. If a pod names
    it, the pod becomes its owner, as the start would have done; else it is deleted.
    """
    users = {
        (pod["metadata"]["namespace"], entry.get("resourceClaimTemplateName")): pod["metadata"]
        for pod in pods
        for entry in pod["spec"].get("resourceClaims", ())
    }
    delete, adopted = [], []
    for template in templates:
        metadata = template["metadata"]
        created = datetime.fromisoformat(metadata["creationTimestamp"])
        if metadata.get("ownerReferences") or now - created < older_than:
            continue
        key = (metadata["namespace"], metadata["name"])
        user = users.get(key)
        if user:
            adopted.append((*key, user["name"], user["uid"]))
        else:
            delete.append(key)
    return Leftovers(tuple(delete), tuple(adopted))


async def sweep(
    api: KubernetesApi,
    namespace: str | None,
    older_than: timedelta,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Leftovers:
    """Remove or give away templates that were left behind; returns what was done.

    Parameters
    ----------
    namespace
        Where to look; ``None`` means every namespace (``enable_user_namespaces``).
    older_than
        Younger templates may belong to a start that is under way.
    """
    selector = ",".join(f"{key}={value}" for key, value in TEMPLATE_LABELS.items())
    templates = (await api.list(resource_path(RESOURCE_API, TEMPLATES, namespace), label_selector=selector))["items"]
    if not find_leftovers(templates, (), now(), older_than).delete:
        return Leftovers()
    pods = (await api.list(resource_path("v1", "pods", namespace)))["items"]
    leftovers = find_leftovers(templates, pods, now(), older_than)
    for where, name in leftovers.delete:
        await api.delete(resource_path(RESOURCE_API, TEMPLATES, where, name), missing_ok=True)
    for where, name, pod_name, pod_uid in leftovers.adopt:
        await adopt(api, where, name, pod_name, pod_uid)
    return leftovers
