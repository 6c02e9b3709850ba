"""One decision, as requests to the API server. Nothing is decided here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.uncertain_names import UncertainNames
from dra_spawner.placeholders.planner.actions import (
    Action,
    AddConsumer,
    CreatePlaceholder,
    DeleteClaim,
    DeletePlaceholder,
    LabelNode,
    LabelPod,
)
from dra_spawner.placeholders.planner.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind

__all__ = ["ActionExecutor", "Expectation"]

log = logging.getLogger(__name__)

_CLAIMS: Final = "resourceclaims"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the watch must show before it is decided anew, so that nothing is decided twice.

    Attributes
    ----------
    is_met
        Whether it does.
    is_new
        Whether it is an object that was made.
    """

    kind: Kind
    key: ObjectKey
    is_met: Callable[[ClusterWatch], bool]
    is_new: bool = False


class _OfOthers(Exception):
    """A claim of the wanted name has become somebody else's."""


class ActionExecutor:
    """Carries out decisions.

    Parameters
    ----------
    api
        See `docs/placeholders.md` for the rights its account needs.
    settings
        Of all placeholders.
    may_act
        Called before each request; raises if this process must not act (any more).
    new_name
        A name for a placeholder of a shape, never given before.
    """

    def __init__(
        self,
        api: KubernetesApi,
        settings: PlaceholderSettings,
        *,
        may_act: Callable[[], None],
        new_name: Callable[[Shape], str],
    ) -> None:
        self._api = api
        self._settings = settings
        self._may_act = may_act
        self._new_name = new_name
        self._uncertain = UncertainNames()

    async def do(self, action: Action, shapes: Mapping[str, Shape]) -> tuple[Expectation, ...]:
        """Carry out one decision. What is so already is as good as done.

        Returns
        -------
        tuple of Expectation
            What the watch is going to show.

        Raises
        ------
        KubernetesError
            As the API server answered. Whatever was done by then, the next decision sees it.
        """
        match action:
            case CreatePlaceholder():
                return await self._create(shapes[action.shape], action)
            case DeletePlaceholder():
                return await self._end(action.key, action.uid)
            case LabelNode():
                return await self._label_node(action)
            case LabelPod():
                body = {"metadata": {"uid": action.uid, "labels": {action.label: action.value}}}
                return await self._patch(Kind.POD, "v1", "pods", action.key, body)
            case AddConsumer():
                return await self._reserve(action)
            case DeleteClaim():
                return await self._delete_claim(action.claim, action.uid)

    async def _create(self, shape: Shape, action: CreatePlaceholder) -> tuple[Expectation, ...]:
        """Make a placeholder; if that was tried before and nobody knows whether it is there, then that one."""
        while (name := self._uncertain.take(shape.id)) is not None:
            with contextlib.suppress(_OfOthers):
                return await self._create_named(name, shape, action, is_uncertain=True)
        return await self._create_named(self._new_name(shape), shape, action)

    async def _create_named(
        self, name: str, shape: Shape, action: CreatePlaceholder, *, is_uncertain: bool = False
    ) -> tuple[Expectation, ...]:
        namespace = self._settings.namespace
        manifests = placeholder_claims(shape, name, self._settings)
        manifest = placeholder_pod(shape, name, self._settings, action.avoid)
        manifest["metadata"]["annotations"][names.REASON] = action.reason
        made: list[JsonObject] = []
        there: list[JsonObject] = []
        try:
            for each in manifests:
                claim, is_new = await self._create_or_find(resource_path(names.RESOURCE_API, _CLAIMS, namespace), each)
                there.append(claim)
                if is_new:
                    made.append(claim)
                if not _is_kept_for(claim, each, name):
                    raise _OfOthers
            pod, _ = await self._create_or_find(resource_path("v1", "pods", namespace), manifest)
        except KubernetesError as error:
            if error.retryable or is_uncertain:
                # The pod may be there all the same: one more of another name would be one too many.
                self._uncertain.put(shape.id, name)
            if not error.retryable:
                # Claims that were there before may be those of a placeholder that lives.
                await self._undo(made)
            raise
        for each in manifests:
            await self._own(each["metadata"], pod["metadata"])
        return (
            *(_written(Kind.RESOURCE_CLAIM, claim, is_new=True) for claim in there),
            _written(Kind.POD, pod, is_new=True),
        )

    async def _create_or_find(self, path: str, manifest: JsonObject) -> tuple[JsonObject, bool]:
        """The object of a name, and whether it was made here and now."""
        self._may_act()
        try:
            return await self._api.create(path, manifest), True
        except KubernetesError as error:
            if not error.already_exists:
                raise
        self._may_act()
        # To change pods is among this account's rights, to read one is not; that nothing is to change writes nothing.
        name = manifest["metadata"]["name"]
        return await self._api.patch(f"{path}/{name}", {}, patch_type=PatchType.MERGE), False

    async def _own(self, claim: JsonObject, pod: JsonObject) -> None:
        """Let a claim go with its placeholder, unless it was promised by now; without an owner it is an orphan later.

        Parameters
        ----------
        claim, pod
            Metadata of both; the claim's as it was created.
        """
        body = [
            {"op": "test", "path": "/metadata/labels", "value": claim["labels"]},
            {"op": "add", "path": "/metadata/ownerReferences", "value": [_owner(pod["name"], pod["uid"])]},
        ]
        self._may_act()
        path = resource_path(names.RESOURCE_API, _CLAIMS, self._settings.namespace, claim["name"])
        try:
            await self._api.patch(path, body, patch_type=PatchType.JSON)
        except KubernetesError as error:
            if error.status == 403:
                raise
            log.info("A claim does not go with its placeholder: claim=%s because=%s", claim["name"], error)

    async def _end(self, key: ObjectKey, uid: str) -> tuple[Expectation, ...]:
        """Delete a placeholder, with the grace of its own: its devices are free when its kubelet says so."""
        self._may_act()
        try:
            await self._api.delete(resource_path("v1", "pods", key.namespace, key.name), uid=uid, missing_ok=True)
        except KubernetesError as error:
            if not error.conflict:  # another pod of that name by now
                raise
        return (_terminating(Kind.POD, key, uid),)

    async def _label_node(self, action: LabelNode) -> tuple[Expectation, ...]:
        body = {"metadata": {"labels": {action.label: action.value}}}
        return await self._patch(Kind.NODE, "v1", "nodes", ObjectKey("", action.node), body)

    async def _reserve(self, action: AddConsumer) -> tuple[Expectation, ...]:
        """Append to the owners and to the consumers, whatever others there are, in two requests side by side.

        Both are lists by uid in the API, which a strategic merge patch adds to without looking.
        """
        key, pod, uid = action.claim, action.pod, action.pod_uid
        bodies: dict[str | None, JsonObject] = {}
        if action.consumer:
            consumer = {"resource": "pods", "name": pod.name, "uid": uid}
            bodies["status"] = {"status": {"reservedFor": [consumer]}}
        if action.owner:
            bodies[None] = {"metadata": {"ownerReferences": [_owner(pod.name, uid)]}}
        self._may_act()
        requests = (
            self._api.patch(
                resource_path(names.RESOURCE_API, _CLAIMS, key.namespace, key.name, subresource),
                body,
                patch_type=PatchType.STRATEGIC,
            )
            for subresource, body in bodies.items()
        )
        answers = await asyncio.gather(*requests, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not await self._is_nobodys(key, answer):
                raise answer
        return tuple(_written(Kind.RESOURCE_CLAIM, each) for each in answers if isinstance(each, dict))

    async def _is_nobodys(self, key: ObjectKey, error: BaseException) -> bool:
        """Whether a pod could not be entered because the claim is no longer one that anybody could take over."""
        if not isinstance(error, KubernetesError) or not (error.not_found or error.status == 422):
            return False
        if error.not_found:
            return True
        self._may_act()
        try:
            claim = await self._api.get(resource_path(names.RESOURCE_API, _CLAIMS, key.namespace, key.name))
        except KubernetesError as gone:
            if gone.not_found:
                return True
            raise
        return "deletionTimestamp" in claim["metadata"] or "allocation" not in (claim.get("status") or {})

    async def _delete_claim(self, key: ObjectKey, uid: str) -> tuple[Expectation, ...]:
        self._may_act()
        try:
            await self._api.delete(
                resource_path(names.RESOURCE_API, _CLAIMS, key.namespace, key.name), uid=uid, missing_ok=True
            )
        except KubernetesError as error:
            if not error.conflict:  # another claim of that name by now
                raise
        return (_terminating(Kind.RESOURCE_CLAIM, key, uid),)

    async def _undo(self, claims: Iterable[JsonObject]) -> None:
        """Delete the claims of a placeholder that the API server refused; what is left is found as orphans later."""
        with contextlib.suppress(KubernetesError):
            for each in claims:
                metadata = each["metadata"]
                await self._delete_claim(ObjectKey(self._settings.namespace, metadata["name"]), metadata["uid"])

    async def _patch(
        self,
        kind: Kind,
        api: str,
        plural: str,
        key: ObjectKey,
        body: JsonObject,
    ) -> tuple[Expectation, ...]:
        self._may_act()
        try:
            changed = await self._api.patch(
                resource_path(api, plural, key.namespace or None, key.name), body, patch_type=PatchType.MERGE
            )
        except KubernetesError as error:
            if error.not_found or error.conflict or error.other_uid:  # gone, or another object of that name
                return ()
            raise
        return (_written(kind, changed),)


def _is_kept_for(claim: JsonObject, manifest: JsonObject, placeholder: str) -> bool:
    """Whether a claim is as it was made, and nobody has it but the placeholder, which may be there."""
    metadata = claim["metadata"]
    holders = [*(metadata.get("ownerReferences") or ()), *((claim.get("status") or {}).get("reservedFor") or ())]
    return (
        metadata.get("labels") == manifest["metadata"]["labels"]
        and "deletionTimestamp" not in metadata
        and all(each["name"] == placeholder for each in holders)
    )


def _owner(pod: str, uid: str) -> JsonObject:
    """``blockOwnerDeletion`` would need the right to update ``pods/finalizers`` in some clusters."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod,
        "uid": uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }


def _terminating(kind: Kind, key: ObjectKey, uid: str = "") -> Expectation:
    def is_met(watch: ClusterWatch) -> bool:
        seen = watch.observed(kind, key)
        return seen is None or bool(seen.deleted) or (bool(uid) and seen.uid != uid)

    return Expectation(kind, key, is_met)


def _written(kind: Kind, obj: JsonObject, *, is_new: bool = False) -> Expectation:
    """The object as it was written, or what has become of it since."""
    metadata = obj["metadata"]
    key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
    version = metadata.get("resourceVersion", "")
    return Expectation(kind, key, lambda watch: watch.has_reached(kind, version), is_new)
