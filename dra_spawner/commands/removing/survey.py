"""The survey: lists this project's objects of every namespaced kind, as a companion may be of any kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from dra_spawner import names
from dra_spawner.commands.removing import marks
from dra_spawner.commands.removing.found_objects import ApiKind, FoundLease, FoundObject, FoundPod, SurveyedObjects
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.discovery import api_groups
from dra_spawner.kube.client.rights import MissingRight, missing_rule

PODS: Final = ApiKind("v1", "pods", "Pod")
NODES: Final = ApiKind("v1", "nodes", "Node", namespaced=False)
LEASES: Final = ApiKind(names.COORDINATION_API, "leases", "Lease")

_PAGE_SIZE: Final = 500
_MAX_CONCURRENT: Final = 6
_TIMEOUT_SECONDS: Final = 60.0
_OURS: Final = f"{names.MANAGED_BY}={names.MANAGER}"
#: Pods and Leases are listed separately; events are many, and never companions.
_NOT_BY_LABEL: Final = frozenset({"pods", "events", "leases"})

T = TypeVar("T")


@dataclass
class Failures:
    """Failures of a run.

    Attributes
    ----------
    rights
        Rights that the account lacks.
    sentences
        Other failures, a sentence each.
    """

    rights: set[MissingRight] = field(default_factory=set)
    sentences: list[str] = field(default_factory=list)

    def note(self, error: KubernetesError) -> None:
        """Record why a request failed."""
        right = missing_rule(error)
        if right is not None:
            self.rights.add(right)
        else:
            self.sentences.append(str(error))

    @property
    def missing_rights(self) -> list[str]:
        """A sentence for each missing RBAC rule, with what to grant."""
        rules: dict[tuple[str, str, str], list[str]] = {}
        for each in sorted(self.rights):
            rules.setdefault((each.namespace, each.group, each.verb), []).append(each.resource)
        return [
            f'Your account lacks a right: grant {{apiGroups: ["{group}"], resources: [{", ".join(resources)}], '
            f"verbs: [{verb}]}} " + (f"by a Role in namespace {namespace}." if namespace else "by a ClusterRole.")
            for (namespace, group, verb), resources in sorted(rules.items())
        ]

    def __bool__(self) -> bool:
        return bool(self.rights or self.sentences)


class Survey:
    """Lists objects, in pages and a few kinds at once.

    Parameters
    ----------
    namespaces
        Namespaces to look in; empty for all.
    lease
        Name of the service's Lease for leader election.
    progress
        Called with a description of the current step.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespaces: Sequence[str],
        lease: str,
        failures: Failures,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._api = api
        self._scopes: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._lease = lease
        self._failures = failures
        self._progress = progress
        self._limit = asyncio.Semaphore(_MAX_CONCURRENT)

    async def find_objects(self) -> SurveyedObjects | None:
        """List objects that may belong to this project; None if pods cannot be listed, and so nothing may be removed.

        Raises
        ------
        KubernetesError
            If the cluster does not list its kinds.
        """
        kinds = await self._kinds()
        try:
            pods = await self._pods()
        except KubernetesError as error:
            self._failures.note(error)
            return None
        if any(pod.claims for pod in pods) and not any(kind.plural == "resourceclaims" for kind in kinds):
            self._failures.sentences.append(
                "Pods have ResourceClaims, but the API server does not serve that kind at present: run uninstall again."
            )
        labelled = [kind for kind in kinds if kind.namespaced and kind.plural not in _NOT_BY_LABEL]
        by_hand = [kind for kind in kinds if (kind.api_version, kind.plural) in marks.ADMINISTRATORS_KINDS]
        nodes, leases, objects, administrators = await all_of(
            asyncio.gather(
                self._try(self._list(NODES, FoundObject.of)),
                self.leases(),
                self._all(self._list(kind, FoundObject.of, label_selector=_OURS) for kind in labelled),
                self._all(self._by_hand(kind) for kind in by_hand),
            )
        )
        try:
            # What is not in use is missing from two lists: the first one may be an old state.
            pods = [*{pod.found.uid: pod for pod in (*pods, *await self._pods())}.values()]
        except KubernetesError as error:
            self._failures.note(error)
            return None
        ours = {found.uid for found in objects}
        return SurveyedObjects(
            pods=tuple(pods),
            nodes=tuple(node for node in nodes if marks.node_labels(node.labels)),
            objects=tuple(objects),
            leases=tuple(leases),
            administrators=tuple(found for found in administrators if found.uid not in ours),
        )

    async def _pods(self) -> list[FoundPod]:
        """Placeholders, servers, and other pods that may use an object."""
        return [
            pod
            for pod in await self._list(PODS, FoundPod.of)
            if pod.found.is_placeholder or pod.found.is_chart_test or pod.is_marked or pod.claims or pod.templates
        ]

    async def leases(self, *, everywhere: bool = False) -> list[FoundLease]:
        """The services' Leases, of all namespaces if the account may read them."""
        if everywhere:
            try:
                found = await self._list(LEASES, FoundLease.of, scopes=(None,))
            except KubernetesError as error:
                if error.status != 403:
                    raise
                found = await self._try(self._list(LEASES, FoundLease.of))
        else:
            found = await self._try(self._list(LEASES, FoundLease.of))
        return [each for each in found if each.found.name == self._lease or each.found.is_managed]

    async def remaining(self, objects: Iterable[FoundObject]) -> list[FoundObject]:
        """The objects that still exist.

        Raises
        ------
        KubernetesError
            If their kinds cannot be listed.
        """
        by_uid = {found.uid: found for found in objects}
        remaining: list[FoundObject] = []
        for kind in sorted({found.kind for found in by_uid.values()}):
            of_kind = [found for found in by_uid.values() if found.kind == kind]
            # What another program or an administrator created has no label of this project.
            selector = _OURS if all(found.is_managed for found in of_kind) else ""
            namespaces = {found.namespace for found in of_kind}
            scopes: tuple[str | None, ...] = tuple(sorted(namespaces)) if self._scopes != (None,) else (None,)
            remaining += [
                found
                for found in await self._list(kind, FoundObject.of, label_selector=selector, scopes=scopes)
                if found.uid in by_uid
            ]
        return remaining

    async def _kinds(self) -> list[ApiKind]:
        """Every kind that can be listed and deleted, in the preferred version of its group if that version has it."""
        self._progress("listing the kinds of the cluster")
        groups = await api_groups(self._api)
        versions = [["v1"], *([f"{group}/{each}" for each in served] for group, served in groups.items())]
        found = await all_of(asyncio.gather(*(self._kinds_of(each) for each in versions)))
        return [kind for kinds in found for kind in kinds]

    async def _kinds_of(self, versions: Sequence[str]) -> list[ApiKind]:
        kinds: dict[str, ApiKind] = {}
        for version in versions:
            path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
            try:
                async with self._limit:
                    resources = (await self._api.get(path))["resources"]
            except KubernetesError as error:
                self._failures.sentences.append(
                    f"The kinds of {version} cannot be listed, so they were skipped: {error}"
                )
                continue
            for each in resources:
                if "/" not in each["name"] and {"list", "delete"} <= {*each["verbs"]}:
                    kinds.setdefault(each["name"], ApiKind(version, each["name"], each["kind"], each["namespaced"]))
        return list(kinds.values())

    async def _by_hand(self, kind: ApiKind) -> list[FoundObject]:
        """Objects that an administrator applied. Of ConfigMaps, which may be large, only the service's are listed."""
        selector = f"{names.APPLICATION}={names.SERVICE}" if kind.plural == "configmaps" else ""
        found = await self._list(kind, FoundObject.of, label_selector=selector)
        return [each for each in found if marks.is_administrators_name(each.name) and self._is_in_scope(each)]

    def _is_in_scope(self, found: FoundObject) -> bool:
        """Whether a cluster-wide object is of one of the namespaces; one that names no namespace is."""
        if self._scopes == (None,) or found.kind.namespaced:
            return True
        first, dot, _ = found.name.removeprefix(f"{names.MANAGER}-").partition(".")
        of = found.annotations.get(names.HELM_NAMESPACE) or (first if dot else "")
        return not of or of in self._scopes

    async def _all(self, listings: Iterable[Awaitable[list[T]]]) -> list[T]:
        return [each for found in await all_of(asyncio.gather(*map(self._try, listings))) for each in found]

    async def _try(self, listing: Awaitable[list[T]]) -> list[T]:
        try:
            return await listing
        except KubernetesError as error:
            # A kind that cannot be listed. A 404 is a failure: discovery has just named the kind.
            if error.status != 405:
                self._failures.note(error)
            return []

    async def _list(
        self,
        kind: ApiKind,
        decode: Callable[[ApiKind, JsonObject], T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        scopes: tuple[str | None, ...] | None = None,
    ) -> list[T]:
        """List the objects of a kind, and decode each as soon as its page arrives."""
        found: list[T] = []
        for scope in (scopes or self._scopes) if kind.namespaced else (None,):
            path = resource_path(kind.api_version, kind.plural, scope)
            async with self._limit:
                pages = self._api.list_pages(
                    path,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    page_size=_PAGE_SIZE,
                    timeout_seconds=_TIMEOUT_SECONDS,
                )
                async for page in pages:
                    found += [decode(kind, each) for each in page.get("items") or ()]
                    self._progress(f"listing {kind.plural}, {len(found):,} so far")
        return found
