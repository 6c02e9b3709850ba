"""The objects that one start of a server creates in addition to its pod, from their creation to their removal.

The start creates its own templates and companions, then the pod that names them. Then the pod becomes their owner, so
that Kubernetes' garbage collection removes them with the pod. Names have a nonce of the start, so that a late clean-up
of an earlier start never removes a new object. For objects that several servers share, see `shared_objects`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.claim_sizes import SIZE_ALLOWED, wrong_sizes
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.kube.owner_references import owner_reference
from dra_spawner.spawner.objects.api_objects import CLAIMS, TEMPLATES, ApiObject
from dra_spawner.spawner.objects.shared_objects import ForeignObject, SharedObject, add_user, remove_users

if TYPE_CHECKING:
    from dra_spawner.dra.preferences import Preferences


def new_nonce() -> str:
    """Eight random characters that an object's name may have."""
    return secrets.token_hex(4)


def utc_now() -> datetime:
    """The present time, with its zone."""
    return datetime.now(UTC)


class NotReserved(Exception):
    """Raised for a warm claim that is not, or no longer, reserved for this start."""

    def __init__(self, name: str) -> None:
        super().__init__(f"claim {name} is not reserved for this server")


class WrongSize(Exception):
    """Raised for a claim with a size that kube-scheduler would miscount.

    Attributes
    ----------
    size
        The size in the claim.
    """

    def __init__(self, description: str, where: str, size: object) -> None:
        self.size = str(size)[:80]
        super().__init__(f"{description}: {where}: found {self.size!r}, allowed: {SIZE_ALLOWED}")


@dataclass
class StartObjects:
    """Creates the objects of one start, makes the pod their owner, and removes them if the start fails.

    Attributes
    ----------
    nonce
        Identifies the start in names and annotations.
    ends
        Latest end of the start.
    templates
        Template manifests by the name of the pod's ``resourceClaims`` entry.
    companions
        Other objects of this start alone.
    shared
        Objects that it shares with other starts, by the name of the pod's entry or of the companion.
    pod_requested
        Whether the pod's creation was tried, so that it may exist even without a response.
    pod_unanswered
        Whether the last request that creates the pod had no answer, so that the pod may appear later.
    """

    api: KubernetesApi
    namespace: str
    nonce: str
    ends: datetime
    templates: dict[str, JsonObject]
    companions: Sequence[ApiObject] = ()
    shared: Mapping[str, SharedObject] = field(default_factory=dict)
    pod_requested: bool = False
    pod_unanswered: bool = False
    now: Callable[[], datetime] = utc_now
    _maybe_created: dict[str, ApiObject] = field(default_factory=dict)
    _unanswered: dict[str, ApiObject] = field(default_factory=dict)
    _created: set[str] = field(default_factory=set)
    _owned: set[str] = field(default_factory=set)
    _maybe_used: dict[str, SharedObject] = field(default_factory=dict)
    _acquired: dict[str, ApiObject] = field(default_factory=dict)
    _maybe_acquired: dict[str, list[JsonObject]] = field(default_factory=dict)
    _before_preferences: dict[str, JsonObject] = field(default_factory=dict)

    def prefer(self, preferences: Mapping[str, Preferences]) -> None:
        """Let claims prefer devices, by the pod's entry; for templates that are not created yet."""
        from dra_spawner.dra.preferences import with_preferences  # few hubs pack devices

        for entry, of_claim in preferences.items():
            template = self.templates.get(entry)
            if template is None or ApiObject(TEMPLATES, template).path(self.namespace) in self._maybe_created:
                continue
            spec = template["spec"]["spec"]
            changed = with_preferences(spec, of_claim)
            if changed is not spec:
                self._before_preferences[entry] = template
                self.templates[entry] = {**template, "spec": {**template["spec"], "spec": changed}}

    async def ensure(self, named_by_pod: Collection[str]) -> None:
        """Create the missing objects that the pod needs. Idempotent.

        Parameters
        ----------
        named_by_pod
            Names of the templates and claims that the pod names; only these are created. Companions are always created.

        Raises
        ------
        KubernetesError
            If the API server refuses, or does not answer. A repeated creation is safe, as names have the nonce.
        SharedRefused, SharedTerminating
            If a shared object cannot be used.
        WrongSize
            If a claim has a wrong size; then nothing was created.
        """
        self.check_sizes()
        for entry, manifest in tuple(self.templates.items()):
            if manifest["metadata"]["name"] in named_by_pod:
                await self._create_template(entry, manifest)
        for own in self.companions:
            await self._create(own)
        await self.ensure_shared(named_by_pod)

    async def _create_template(self, entry: str, manifest: JsonObject) -> None:
        """Create a template; without preferences if the API server refuses it with them."""
        try:
            await self._create(ApiObject(TEMPLATES, manifest))
        except KubernetesError as error:
            plain = self._before_preferences.pop(entry, None)
            if error.retryable or plain is None:
                raise
            self.templates[entry] = plain
            await self._create(ApiObject(TEMPLATES, plain))

    def check_sizes(self) -> None:
        """Check the sizes in all claims.

        Raises
        ------
        WrongSize
            For the first size that is not allowed.
        """
        templates = [ApiObject(TEMPLATES, manifest) for manifest in self.templates.values()]
        for each in (*templates, *self.companions, *(shared.object for shared in self.shared.values())):
            for where, _, size in wrong_sizes(each.manifest):
                raise WrongSize(each.description, where, size)

    async def ensure_shared(self, named_by_pod: Collection[str]) -> None:
        """Create missing shared objects, and add this start's annotation to all of them. Idempotent."""
        for shared in self.shared.values():
            path = shared.object.path(self.namespace)
            if shared.object.plural == CLAIMS and shared.object.name not in named_by_pod:
                continue
            self._maybe_used[path] = shared
            try:
                is_ours = await add_user(self.api, self.namespace, shared, self.nonce, self.ends)
            except ForeignObject:
                del self._maybe_used[path]
                raise
            if not is_ours:
                del self._maybe_used[path]

    async def _create(self, own: ApiObject) -> None:
        path = own.path(self.namespace)
        if path in self._created:
            return
        self._maybe_created[path] = self._unanswered[path] = own
        metadata = own.manifest["metadata"]
        marks = {names.START: self.nonce, names.START_ENDS: self.ends.isoformat()}
        annotations = {**metadata.get("annotations", {}), **marks}
        manifest = {**own.manifest, "metadata": {**metadata, "annotations": annotations}}
        try:
            await self.api.create(own.collection(self.namespace), manifest)
        except KubernetesError as error:
            if not error.already_exists:
                if not error.retryable:
                    del self._unanswered[path]
                raise
        del self._unanswered[path]
        self._created.add(path)

    async def acquire_warm_claims(self, claims: Mapping[str, str], reserved_by: Mapping[str, str]) -> list[JsonObject]:
        """Acquire warm claims for this start, if they are reserved for it.

        They get the labels and annotations of claims from the templates, and are removed with the start's pod, or when
        the start fails.

        Parameters
        ----------
        claims
            Name of the claim by the pod's entry that will name it.
        reserved_by
            Labels that the reservation for this start has.

        Returns
        -------
        list of dict
            The claims, in the order of `claims`.

        Raises
        ------
        NotReserved, KubernetesError
            If a claim cannot be acquired. Others may have been acquired before; see `release_warm_claims`.
        """
        found = []
        for entry, name in claims.items():
            claim = ApiObject(
                CLAIMS, {"apiVersion": names.RESOURCE_API, "kind": "ResourceClaim", "metadata": {"name": name}}
            )
            path = claim.path(self.namespace)
            self._maybe_acquired[path] = self._acquisition_patch(self.templates[entry]["spec"]["metadata"], reserved_by)
            acquired = await self._acquire(path)
            if acquired is None:
                raise NotReserved(name)
            found.append(acquired)
            self._acquired[entry] = self._maybe_created[path] = claim
            self._created.add(path)
        return found

    def _acquisition_patch(self, marks: JsonObject, reserved_by: Mapping[str, str]) -> list[JsonObject]:
        """JSON patch (RFC 6902) that acquires a reserved claim."""
        ends = {names.START: self.nonce, names.START_ENDS: self.ends.isoformat()}
        return [
            *({"op": "test", "path": _label_path(key), "value": value} for key, value in reserved_by.items()),
            *({"op": "add", "path": _label_path(key), "value": value} for key, value in marks["labels"].items()),
            {"op": "add", "path": "/metadata/annotations", "value": {**marks["annotations"], **ends}},
        ]

    async def _acquire(self, path: str) -> JsonObject | None:
        """Acquire a claim; None if that failed. After an error that can be retried, the result is unknown."""
        try:
            acquired = await self.api.patch(path, self._maybe_acquired[path], patch_type=PatchType.JSON)
        except KubernetesError as error:
            if error.retryable or error.conflict:
                raise
            del self._maybe_acquired[path]
            if error.not_found or error.status == 422:  # gone, or not reserved for this start
                return None
            raise
        del self._maybe_acquired[path]
        return acquired

    @property
    def warm_claims(self) -> dict[str, str]:
        """Names of the acquired claims, by the pod's entry."""
        return {entry: claim.name for entry, claim in self._acquired.items()}

    def release_warm_claims(self) -> StartObjects | None:
        """Give up the acquired claims; return an object that removes them, or None if there are none."""
        if not self._acquired and not self._maybe_acquired:
            return None
        paths = {claim.path(self.namespace): claim for claim in self._acquired.values()}
        uncertain, self._maybe_acquired, self._acquired = self._maybe_acquired, {}, {}
        for path in paths:
            self._maybe_created.pop(path, None)
        self._created -= paths.keys()
        return StartObjects(
            self.api, self.namespace, self.nonce, self.ends, {}, _maybe_created=paths, _maybe_acquired=uncertain
        )

    async def give_to_pod(self, pod_name: str, pod_uid: str) -> None:
        """Make the pod the owner of the start's own objects, so that they are deleted with it."""
        for path in sorted(self._created - self._owned):
            await adopt(self.api, path, pod_name, pod_uid)
            self._owned.add(path)

    @property
    def all_owned(self) -> bool:
        """Whether all objects that may exist are deleted with the pod."""
        return self._maybe_created.keys() <= self._owned and not self._maybe_used and not self._maybe_acquired

    async def remove(self, pod_name: str) -> None:
        """Remove the pod of this start, if it exists, and its objects. Idempotent.

        A pod of the same name that another start created stays.
        """
        if self.pod_requested:
            await self._remove_pod(pod_name)
            self.pod_requested = False
        for path in sorted(self._maybe_acquired):
            if await self._acquire(path) is not None:
                self._maybe_created[path] = ApiObject(CLAIMS, {})
        for path in sorted(self._maybe_created):
            await self.api.delete(path, missing_ok=True)
            del self._maybe_created[path]
            self._created.discard(path)
        for path in sorted(self._maybe_used):
            await remove_users(self.api, path, (self.nonce,), self.now(), (pod_name,))
            del self._maybe_used[path]

    def that_may_appear(self) -> StartObjects | None:
        """What a request without an answer may create after `remove`, as an object that removes it; None if nothing.

        The API server may carry out such a request, of a start that was cancelled for example, after the removal.
        """
        if not self._unanswered and not self.pod_unanswered:
            return None
        return StartObjects(
            self.api,
            self.namespace,
            self.nonce,
            self.ends,
            {},
            pod_requested=self.pod_unanswered,
            _maybe_created=dict(self._unanswered),
        )

    def pod_is_gone(self) -> None:
        """Record that the pod was stopped, and that its objects are deleted with it."""
        self.pod_requested = False
        for path in self._owned:
            self._maybe_created.pop(path, None)
            self._created.discard(path)

    async def end_pod(self, pod_name: str, grace_period_seconds: int) -> None:
        """Delete the pod of this start, if it exists. It disappears when its kubelet has released its devices."""
        await self._remove_pod(pod_name, grace_period_seconds)

    async def _remove_pod(self, pod_name: str, grace_period_seconds: int = 0) -> None:
        path = resource_path("v1", "pods", self.namespace, pod_name)
        try:
            metadata = (await self.api.get(path))["metadata"]
            if metadata.get("annotations", {}).get(names.START) == self.nonce:
                await self.api.delete(path, grace_period_seconds=grace_period_seconds, uid=metadata["uid"])
        except KubernetesError as error:
            if not (error.not_found or error.conflict):  # gone, or replaced by another pod of that name
                raise


def _label_path(key: str) -> str:
    """JSON pointer (RFC 6901) of a label."""
    return f"/metadata/labels/{key.replace('~', '~0').replace('/', '~1')}"


async def adopt(api: KubernetesApi, path: str, pod_name: str, pod_uid: str) -> None:
    """Make a pod the owner of the object at a path."""
    body = {"metadata": {"ownerReferences": [owner_reference(pod_name, pod_uid)]}}
    try:
        await api.patch(path, body)
    except KubernetesError as error:
        if not error.not_found:  # deleted with its pod already
            raise
