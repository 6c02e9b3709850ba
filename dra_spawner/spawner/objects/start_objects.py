"""The objects that one start of a server makes beside its pod, from creation to the last one gone.

The start's own objects, templates and companions, come first, then the pod that names them, then the pod becomes their
owner. From there on Kubernetes' own garbage collection removes them with the pod. Names carry a nonce of the start, so
that a late clean-up of an earlier start never touches a fresh object. What several servers use together is held
meanwhile, see `standing_objects`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dra_spawner import names
from dra_spawner.dra.claim_sizes import SIZE_ALLOWED, wrong_sizes
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.kube.owner_references import owner_reference
from dra_spawner.spawner.objects.api_objects import CLAIMS, TEMPLATES, ApiObject
from dra_spawner.spawner.objects.standing_objects import StandingObject, forget_users, hold


def new_nonce() -> str:
    """Eight random characters that may stand in an object's name."""
    return secrets.token_hex(4)


def utc_now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


class NotReserved(Exception):
    """Raised for a warm claim that is not reserved for this start, or not any more."""

    def __init__(self, name: str) -> None:
        super().__init__(f"claim {name} is not reserved for this server")


class WrongSize(Exception):
    """Raised for a claim that asks for a size which kube-scheduler would not count as it stands.

    Attributes
    ----------
    size
        As it was found.
    """

    def __init__(self, description: str, where: str, size: object) -> None:
        self.size = str(size)[:80]
        super().__init__(f"{description}: {where}: found {self.size!r}, allowed: {SIZE_ALLOWED}")


@dataclass
class StartObjects:
    """Makes, hands over and, if the start fails, removes the objects of one start.

    Attributes
    ----------
    nonce
        Marks everything of this start.
    ends
        When the start is over at the latest.
    templates
        Template manifests by the name of the pod's ``resourceClaims`` entry.
    companions
        Other objects of this start alone.
    standing
        Objects that it uses together with other starts, by the name of the pod's entry or of the companion.
    pod_requested
        Whether the pod's creation was tried, so that it may exist even if no answer came.
    """

    api: KubernetesApi
    namespace: str
    nonce: str
    ends: datetime
    templates: Mapping[str, JsonObject]
    companions: Sequence[ApiObject] = ()
    standing: Mapping[str, StandingObject] = field(default_factory=dict)
    pod_requested: bool = False
    now: Callable[[], datetime] = utc_now
    _maybe_made: dict[str, ApiObject] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)
    _owned: set[str] = field(default_factory=set)
    _maybe_held: dict[str, StandingObject] = field(default_factory=dict)
    _taken: dict[str, ApiObject] = field(default_factory=dict)
    _maybe_taken: dict[str, list[JsonObject]] = field(default_factory=dict)

    async def ensure(self, named_by_pod: Collection[str]) -> None:
        """Create what the pod needs and is not there yet. May be repeated.

        Parameters
        ----------
        named_by_pod
            Names of the templates and claims that the pod names; others are not made. Companions always are.

        Raises
        ------
        KubernetesError
            As the API server answered. Creation may be tried again: the name tells that an object is this start's.
        StandingRefused, StandingGoing
            Of an object that is used with others.
        WrongSize
            Before anything is created.
        """
        self.check_sizes()
        templates = [ApiObject(TEMPLATES, manifest) for manifest in self.templates.values()]
        for own in (*(each for each in templates if each.name in named_by_pod), *self.companions):
            await self._create(own)
        await self.hold_standing(named_by_pod)

    def check_sizes(self) -> None:
        """Refuse to create claims of sizes that no user may ask for, however they came there.

        Raises
        ------
        WrongSize
            With the first such size.
        """
        templates = [ApiObject(TEMPLATES, manifest) for manifest in self.templates.values()]
        for each in (*templates, *self.companions, *(standing.object for standing in self.standing.values())):
            for where, _, size in wrong_sizes(each.manifest):
                raise WrongSize(each.description, where, size)

    async def hold_standing(self, named_by_pod: Collection[str]) -> None:
        """See to it that objects with several users are there and stay, also after they were removed."""
        for standing in self.standing.values():
            path = standing.object.path(self.namespace)
            if standing.object.plural == CLAIMS and standing.object.name not in named_by_pod:
                continue
            self._maybe_held[path] = standing
            if not await hold(self.api, self.namespace, standing, self.nonce, self.ends):
                del self._maybe_held[path]

    async def _create(self, own: ApiObject) -> None:
        path = own.path(self.namespace)
        if path in self._made:
            return
        self._maybe_made[path] = own
        metadata = own.manifest["metadata"]
        marks = {names.START: self.nonce, names.START_ENDS: self.ends.isoformat()}
        annotations = {**metadata.get("annotations", {}), **marks}
        manifest = {**own.manifest, "metadata": {**metadata, "annotations": annotations}}
        try:
            await self.api.create(own.collection(self.namespace), manifest)
        except KubernetesError as error:
            if not error.already_exists:
                raise
        self._made.add(path)

    async def take_warm_claims(self, claims: Mapping[str, str], reserved_by: Mapping[str, str]) -> None:
        """Make warm claims this start's own, if they are reserved for it.

        They get the labels and annotations that those of the templates would have, and go with the start's pod, or
        when it fails.

        Parameters
        ----------
        claims
            Name of the claim by the pod's entry that is to name it.
        reserved_by
            Labels of such a reservation.

        Raises
        ------
        NotReserved, KubernetesError
            Where one cannot be had. Others may be this start's by then; see `drop_warm_claims`.
        """
        for entry, name in claims.items():
            claim = ApiObject(
                CLAIMS, {"apiVersion": names.RESOURCE_API, "kind": "ResourceClaim", "metadata": {"name": name}}
            )
            path = claim.path(self.namespace)
            self._maybe_taken[path] = self._taking(self.templates[entry]["spec"]["metadata"], reserved_by)
            if not await self._is_taken(path):
                raise NotReserved(name)
            self._taken[entry] = self._maybe_made[path] = claim
            self._made.add(path)

    def _taking(self, marks: JsonObject, reserved_by: Mapping[str, str]) -> list[JsonObject]:
        """What takes a claim over, as a JSON patch (RFC 6902)."""
        ends = {names.START: self.nonce, names.START_ENDS: self.ends.isoformat()}
        return [
            *({"op": "test", "path": _label_path(key), "value": value} for key, value in reserved_by.items()),
            *({"op": "add", "path": _label_path(key), "value": value} for key, value in marks["labels"].items()),
            {"op": "add", "path": "/metadata/annotations", "value": {**marks["annotations"], **ends}},
        ]

    async def _is_taken(self, path: str) -> bool:
        """Whether a claim is this start's now; without an answer it may be or not, and this may be asked again."""
        try:
            await self.api.patch(path, self._maybe_taken[path], patch_type=PatchType.JSON)
        except KubernetesError as error:
            if error.retryable or error.conflict:
                raise
            del self._maybe_taken[path]
            if error.not_found or error.status == 422:  # gone, or not kept for this start
                return False
            raise
        del self._maybe_taken[path]
        return True

    @property
    def warm_claims(self) -> dict[str, str]:
        """Name of the claim that was taken over, by the pod's entry."""
        return {entry: claim.name for entry, claim in self._taken.items()}

    def drop_warm_claims(self) -> StartObjects | None:
        """What removes the claims that were taken over, which the pod does without; None if there are none."""
        if not self._taken and not self._maybe_taken:
            return None
        paths = {claim.path(self.namespace): claim for claim in self._taken.values()}
        uncertain, self._maybe_taken, self._taken = self._maybe_taken, {}, {}
        for path in paths:
            self._maybe_made.pop(path, None)
        self._made -= paths.keys()
        return StartObjects(
            self.api, self.namespace, self.nonce, self.ends, {}, _maybe_made=paths, _maybe_taken=uncertain
        )

    async def give_to_pod(self, pod_name: str, pod_uid: str) -> None:
        """Make the pod the owner of the start's own objects, so that they go when it goes."""
        for path in sorted(self._made - self._owned):
            await adopt(self.api, path, pod_name, pod_uid)
            self._owned.add(path)

    @property
    def all_owned(self) -> bool:
        """Whether everything that may exist goes with the pod."""
        return self._maybe_made.keys() <= self._owned and not self._maybe_held and not self._maybe_taken

    async def remove(self, pod_name: str) -> None:
        """Remove the pod of this start, if it exists, and what was made for it. May be repeated.

        A pod of the same name that another start made is left alone.
        """
        if self.pod_requested:
            await self._remove_pod(pod_name)
            self.pod_requested = False
        for path in sorted(self._maybe_taken):
            if await self._is_taken(path):
                self._maybe_made[path] = ApiObject(CLAIMS, {})
        for path in sorted(self._maybe_made):
            await self.api.delete(path, missing_ok=True)
            del self._maybe_made[path]
            self._made.discard(path)
        for path in sorted(self._maybe_held):
            await forget_users(self.api, path, (self.nonce,), self.now(), (pod_name,))
            del self._maybe_held[path]

    def pod_is_gone(self) -> None:
        """Take note that the pod was stopped, and what it owns with it."""
        self.pod_requested = False
        for path in self._owned:
            self._maybe_made.pop(path, None)
            self._made.discard(path)

    async def end_pod(self, pod_name: str, grace_period_seconds: int) -> None:
        """Delete the pod of this start, if it exists; it is gone when its kubelet has released its devices."""
        await self._remove_pod(pod_name, grace_period_seconds)

    async def _remove_pod(self, pod_name: str, grace_period_seconds: int = 0) -> None:
        path = resource_path("v1", "pods", self.namespace, pod_name)
        try:
            metadata = (await self.api.get(path))["metadata"]
            if metadata.get("annotations", {}).get(names.START) == self.nonce:
                await self.api.delete(path, grace_period_seconds=grace_period_seconds, uid=metadata["uid"])
        except KubernetesError as error:
            if not (error.not_found or error.conflict):  # gone, or another pod of that name by now
                raise


def _label_path(key: str) -> str:
    """Of a label, as a JSON pointer (RFC 6901)."""
    return f"/metadata/labels/{key.replace('~', '~0').replace('/', '~1')}"


async def adopt(api: KubernetesApi, path: str, pod_name: str, pod_uid: str) -> None:
    """Make a pod the owner of the object at a path."""
    body = {"metadata": {"ownerReferences": [owner_reference(pod_name, pod_uid)]}}
    try:
        await api.patch(path, body)
    except KubernetesError as error:
        if not error.not_found:  # gone with its pod already
            raise
