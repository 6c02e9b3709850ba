"""One action, as requests to the API server. Nothing is decided here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.owner_references import owner_reference
from dra_spawner.placeholders.controller.round.expectations import Expectation, Expectations
from dra_spawner.placeholders.controller.sources.ticket_source import TicketSource
from dra_spawner.placeholders.planner.actions import (
    Action,
    AddConsumer,
    ChangeTicket,
    CreatePlaceholder,
    DeleteClaim,
    DeletePlaceholder,
    LabelNode,
    LabelPod,
    ReservedClaim,
    ReservePlaceholder,
)
from dra_spawner.placeholders.planner.cluster.label_times import label_of
from dra_spawner.placeholders.planner.targets.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

log = logging.getLogger(__name__)

_CLAIMS: Final = "resourceclaims"
#: Tries to reserve a claim that others write to.
_TRIES: Final = 5


class ReservationLost(Exception):
    """Raised when another writer has reserved or deleted the claim."""


class PlaceholderChanged(Exception):
    """Raised when a placeholder is not deleted, as it is not the version of the decision any more."""


class _OfOthers(Exception):
    """Raised when a claim of the expected name does not belong to the placeholder."""


class ActionExecutor:
    """Carries out actions.

    Parameters
    ----------
    api
        See `docs/reference/placeholders.md` for the rights its account needs.
    may_act
        Called before each request; raises if this process must not act (any more).
    new_name
        Returns an unused name for a placeholder of a shape.
    on_done
        Called after each action that is done.
    tickets
        Writes the queue; None without one.
    """

    def __init__(
        self,
        api: KubernetesApi,
        settings: PlaceholderSettings,
        *,
        may_act: Callable[[], None],
        new_name: Callable[[Shape], str],
        on_done: Callable[[Action], None] = lambda action: None,
        tickets: TicketSource | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self.may_act = may_act
        self._new_name = new_name
        self._on_done = on_done
        self._tickets = tickets

    async def do(
        self, action: Action, shapes: Mapping[str, Shape], expectations: Expectations
    ) -> tuple[Expectation, ...]:
        """Carry out one action. Idempotent.

        Parameters
        ----------
        expectations
            Of the process; it has the creations without an answer.

        Returns
        -------
        tuple of Expectation
            The changes that the watch will show.

        Raises
        ------
        KubernetesError
            The API server's answer. The next decision sees what was done before it.
        ReservationLost
            When a placeholder cannot be reserved any more.
        PlaceholderChanged
            When only one version of a placeholder may be deleted, and it has another one. The next decision sees it.
        """
        expected = await self._carry_out(action, shapes, expectations)
        self._on_done(action)
        return expected

    async def _carry_out(
        self, action: Action, shapes: Mapping[str, Shape], expectations: Expectations
    ) -> tuple[Expectation, ...]:
        match action:
            case CreatePlaceholder():
                return await self._create(shapes[action.shape], action, expectations)
            case ReservePlaceholder():
                return tuple([await self._reserve(each, action) for each in action.claims])
            case DeletePlaceholder():
                return await self._end(action)
            case LabelNode():
                return await self._label_node(action)
            case LabelPod():
                body = {"metadata": {"uid": action.uid, "labels": {action.label: action.value}}}
                return await self._patch(Kind.POD, "v1", "pods", action.key, body)
            case AddConsumer():
                return await self._add_consumer(action)
            case DeleteClaim():
                return await self._delete_claim(action.claim, action.uid)
            case ChangeTicket():
                if self._tickets is not None:
                    self.may_act()
                    await self._tickets.carry_out(action)
                return ()

    async def _create(
        self, shape: Shape, action: CreatePlaceholder, expectations: Expectations
    ) -> tuple[Expectation, ...]:
        """Create a placeholder, or retry an earlier creation without an answer."""
        while (name := expectations.take_unanswered(shape.id)) is not None:
            with contextlib.suppress(_OfOthers):
                return await self._create_named(name, shape, action, expectations, is_again=True)
        try:
            return await self._create_named(self._new_name(shape), shape, action, expectations)
        except KubernetesError as error:
            if error.retryable or not action.preferences:
                raise
        # An admission policy may allow no list of alternatives.
        return await self._create_named(self._new_name(shape), shape, replace(action, preferences={}), expectations)

    async def _create_named(
        self,
        name: str,
        shape: Shape,
        action: CreatePlaceholder,
        expectations: Expectations,
        *,
        is_again: bool = False,
    ) -> tuple[Expectation, ...]:
        namespace = self._settings.namespace
        manifests = placeholder_claims(shape, name, self._settings, action.preferences)
        manifest = placeholder_pod(shape, name, self._settings, action.avoid, action.unnamed, action.node, action.never)
        manifest["metadata"]["annotations"][names.REASON] = action.reason
        made: list[JsonObject] = []
        there: list[JsonObject] = []
        try:
            for each in manifests:
                claim, is_new = await self._create_or_find(resource_path(names.RESOURCE_API, _CLAIMS, namespace), each)
                there.append(claim)
                if is_new:
                    made.append(claim)
                if not _belongs_to(claim, each, name):
                    raise _OfOthers
            pod, _ = await self._create_or_find(resource_path("v1", "pods", namespace), manifest)
        except KubernetesError as error:
            if error.retryable or is_again:
                # The pod may exist: another name could make one too many.
                expectations.keep_unanswered(shape.id, name)
            if not error.retryable:
                # Claims that existed before may belong to a running placeholder.
                await self._undo(made)
            raise
        for each in manifests:
            await self._own(each["metadata"], pod["metadata"])
        return (
            *(_written(Kind.RESOURCE_CLAIM, claim, is_new=True) for claim in there),
            replace(_written(Kind.POD, pod, is_new=True), shape=shape.id, uid=pod["metadata"]["uid"]),
        )

    async def _create_or_find(self, path: str, manifest: JsonObject) -> tuple[JsonObject, bool]:
        """The object with a manifest's name, and whether this call created it."""
        self.may_act()
        try:
            return await self._api.create(path, manifest), True
        except KubernetesError as error:
            if not error.already_exists:
                raise
        self.may_act()
        # The account may patch pods but not get them; an empty patch writes nothing.
        name = manifest["metadata"]["name"]
        return await self._api.patch(f"{path}/{name}", {}, patch_type=PatchType.MERGE), False

    async def _own(self, claim: JsonObject, pod: JsonObject) -> None:
        """Make a placeholder the owner of a claim, unless the claim is reserved by now.

        Parameters
        ----------
        claim, pod
            Metadata of both; the claim's as it was created.
        """
        body = [
            {"op": "test", "path": "/metadata/labels", "value": claim["labels"]},
            {"op": "add", "path": "/metadata/ownerReferences", "value": [owner_reference(pod["name"], pod["uid"])]},
        ]
        self.may_act()
        path = resource_path(names.RESOURCE_API, _CLAIMS, self._settings.namespace, claim["name"])
        try:
            await self._api.patch(path, body, patch_type=PatchType.JSON)
        except KubernetesError as error:
            if error.status == 403:
                raise
            log.info("A claim has no owner and may stay behind: claim=%s because=%s", claim["name"], error)

    async def _end(self, action: DeletePlaceholder) -> tuple[Expectation, ...]:
        """Delete a placeholder with its own grace period: its devices are free when the kubelet has ended it."""
        key, uid, version = action.key, action.uid, action.version
        path = resource_path("v1", "pods", key.namespace, key.name)
        self.may_act()
        try:
            await self._api.delete(path, uid=uid, resource_version=version or None, missing_ok=True)
        except KubernetesError as error:
            if not error.conflict:
                raise
            if version:
                raise PlaceholderChanged(
                    "the placeholder has changed since the decision, which is made again"
                ) from error
            # Another pod has this name.
        return (_terminating(Kind.POD, key, uid),)

    async def _label_node(self, action: LabelNode) -> tuple[Expectation, ...]:
        body = {"metadata": {"labels": {action.label: action.value}}}
        return await self._patch(Kind.NODE, "v1", "nodes", ObjectKey("", action.node), body)

    async def _add_consumer(self, action: AddConsumer) -> tuple[Expectation, ...]:
        """Add an owner and a consumer, in two parallel requests.

        Both are lists keyed by uid, so a strategic merge patch adds to them, and takes away, without reading.
        """
        key, pod, uid = action.claim, action.pod, action.pod_uid
        bodies: dict[str | None, JsonObject] = {}
        consumers: list[JsonObject] = []
        if action.consumer:
            consumers.append({"resource": "pods", "name": pod.name, "uid": uid})
        if action.instead_of:
            consumers.append({"$patch": "delete", "uid": action.instead_of})
        if consumers:
            bodies["status"] = {"status": {"reservedFor": consumers}}
        if action.owner:
            bodies[None] = {"metadata": {"ownerReferences": [owner_reference(pod.name, uid)]}}
        self.may_act()
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
        """Whether a write failed because the claim cannot be handed over any more."""
        if not isinstance(error, KubernetesError) or not (error.not_found or error.status == 422):
            return False
        if error.not_found:
            return True
        self.may_act()
        try:
            claim = await self._api.get(resource_path(names.RESOURCE_API, _CLAIMS, key.namespace, key.name))
        except KubernetesError as gone:
            if gone.not_found:
                return True
            raise
        return "deletionTimestamp" in claim["metadata"] or "allocation" not in (claim.get("status") or {})

    async def _reserve(self, claim: ReservedClaim, action: ReservePlaceholder) -> Expectation:
        """Write a reservation on a claim, by compare-and-swap.

        Raises
        ------
        ReservationLost
        KubernetesError
        """
        key, version = claim.key, claim.version
        path = resource_path(names.RESOURCE_API, _CLAIMS, key.namespace, key.name)
        # Its owner would delete it with the placeholder, which the scheduler may preempt at any time.
        written: JsonObject = {
            "labels": {
                names.RESERVED_FOR: action.pod.name,
                names.RESERVED_SINCE: label_of(action.since),
                names.RESERVED_UNTIL: label_of(action.until),
                **({names.TICKET: action.ticket} if action.ticket else {}),
            },
            "ownerReferences": None,
        }
        for _ in range(_TRIES if version else 0):
            self.may_act()
            try:
                changed = await self._api.patch(path, {"metadata": {"resourceVersion": version, **written}})
            except KubernetesError as error:
                if error.not_found:
                    break
                if not error.conflict:
                    raise
            else:
                return _written(Kind.RESOURCE_CLAIM, changed)
            # It has changed since it was seen; the change may not matter.
            try:
                metadata = (await self._api.get(path))["metadata"]
            except KubernetesError as error:
                if error.not_found:
                    break
                raise
            if names.RESERVED_FOR in metadata.get("labels", {}) or "deletionTimestamp" in metadata:
                break
            version = metadata["resourceVersion"]
        raise ReservationLost(f"another writer was quicker: claim={key}")

    async def _delete_claim(self, key: ObjectKey, uid: str) -> tuple[Expectation, ...]:
        self.may_act()
        try:
            await self._api.delete(
                resource_path(names.RESOURCE_API, _CLAIMS, key.namespace, key.name), uid=uid, missing_ok=True
            )
        except KubernetesError as error:
            if not error.conflict:  # another claim with this name
                raise
        return (_terminating(Kind.RESOURCE_CLAIM, key, uid),)

    async def _undo(self, claims: Iterable[JsonObject]) -> None:
        """Delete the claims of a refused placeholder; leftovers are found as orphans."""
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
        self.may_act()
        try:
            changed = await self._api.patch(
                resource_path(api, plural, key.namespace or None, key.name), body, patch_type=PatchType.MERGE
            )
        except KubernetesError as error:
            if error.not_found or error.conflict or error.other_uid:  # gone, or another object with this name
                return ()
            raise
        return (_written(kind, changed),)


def _belongs_to(claim: JsonObject, manifest: JsonObject, placeholder: str) -> bool:
    """Whether a claim equals its manifest and has no consumer but the placeholder."""
    metadata = claim["metadata"]
    holders = [*(metadata.get("ownerReferences") or ()), *((claim.get("status") or {}).get("reservedFor") or ())]
    return (
        metadata.get("labels") == manifest["metadata"]["labels"]
        and "deletionTimestamp" not in metadata
        and all(each["name"] == placeholder for each in holders)
    )


def _terminating(kind: Kind, key: ObjectKey, uid: str = "") -> Expectation:
    def is_met(watch: ClusterWatch) -> bool:
        seen = watch.observed(kind, key)
        return seen is None or bool(seen.deleted) or (bool(uid) and seen.uid != uid)

    return Expectation(kind, key, is_met)


def _written(kind: Kind, obj: JsonObject, *, is_new: bool = False) -> Expectation:
    """Expects the object as written, or a later state of it."""
    metadata = obj["metadata"]
    key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
    version = metadata.get("resourceVersion", "")
    return Expectation(kind, key, lambda watch: watch.has_reached(kind, version), is_new)
