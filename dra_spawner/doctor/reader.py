"""Reads the facts of an examination: from the API server, and from hub and service where an address is known.

Nothing is changed: the only requests that are no GET are access reviews, which store nothing.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

import aiohttp

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.doctor.facts import (
    Account,
    DoctorFacts,
    HttpAnswer,
    NeededRight,
    RightAnswer,
    ServiceSettings,
    Unseen,
    has_strange_servers,
)
from dra_spawner.doctor.installation import addresses_of, json_object, refused_in, settings_of
from dra_spawner.doctor.needed_rights import access_review, account_name, is_there, needed_rights
from dra_spawner.doctor.objects import labels_of, name_of
from dra_spawner.doctor.rules.neighbours import NEIGHBOURS
from dra_spawner.dra.model.objects import DeviceClass, DeviceTaintRule, ObjectError, ResourceSlice
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.discovery import api_groups, is_absent
from dra_spawner.kube.client.rights import missing_rule
from dra_spawner.kube.taint_rules import list_taint_rules
from dra_spawner.placeholders.planner.targets.published_shapes import RefusedChoice
from dra_spawner.simulator.model.claims import TrackedClaim
from dra_spawner.versions import MinorVersion, own_packages, served_version

_APPS_API: Final = "apps/v1"
_TIMEOUT_SECONDS: Final = 10.0
_HTTP_SECONDS: Final = 5.0
_MAX_BYTES: Final = 2**16
_PAGE_SIZE: Final = 500
_MAX_CONCURRENT: Final = 8
_GATE: Final = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)"[^}]*\} ([01])$', re.MULTILINE)
_CONTROL_PLANE: Final = "kube-system"
_SERVICE_CONFIG: Final = "config.json"
_API_SERVER: Final = "API server"


@dataclass(frozen=True, slots=True)
class _PolicyKind:
    group: str
    plural: str
    has_namespace: bool = False


#: Network policies of other APIs, by kind.
_OTHER_POLICIES: Final = {
    "CiliumNetworkPolicy": _PolicyKind(names.CILIUM_GROUP, "ciliumnetworkpolicies", has_namespace=True),
    "CiliumClusterwideNetworkPolicy": _PolicyKind(names.CILIUM_GROUP, "ciliumclusterwidenetworkpolicies"),
    "AdminNetworkPolicy": _PolicyKind(names.ADMIN_POLICY_GROUP, "adminnetworkpolicies"),
    "BaselineAdminNetworkPolicy": _PolicyKind(names.ADMIN_POLICY_GROUP, "baselineadminnetworkpolicies"),
    "ClusterNetworkPolicy": _PolicyKind(names.ADMIN_POLICY_GROUP, "clusternetworkpolicies"),
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Questions:
    """What to examine.

    Attributes
    ----------
    namespace
        Namespace of hub and service.
    hub_url, service_url
        Base URL of the hub, and the service's address with its prefix. If both are empty, they are left out; in the
        cluster, the pods of the service name them.
    accounts
        Names of the service accounts of hub and service. If empty, the Deployments name them; without a
        Deployment, the chart's names count.
    settings
        The service's settings, where they are known; None to read them from the chart's ConfigMap.
    own_account
        The account whose rights are those of this process; None to ask about both by name.
    is_in_cluster
        Whether this process runs in the cluster, with the packages of the hub or of the service.
    """

    namespace: str
    hub_url: str = ""
    service_url: str = ""
    accounts: Mapping[Account, str] = field(default_factory=dict)
    settings: ServiceSettings | None = None
    own_account: Account | None = None
    is_in_cluster: bool = False


class DoctorReader:
    """Reads all facts; what cannot be read is a fact, too.

    Parameters
    ----------
    progress
        Called with a description of the current step.
    """

    def __init__(
        self, api: KubernetesApi, questions: Questions, progress: Callable[[str], None] = lambda text: None
    ) -> None:
        self._api = api
        self._questions = questions
        self._progress = progress
        self._limit = asyncio.Semaphore(_MAX_CONCURRENT)
        self._unseen: dict[Unseen, None] = {}
        self._clocks: dict[str, float] = {}

    async def read(self) -> DoctorFacts:
        """All facts.

        Raises
        ------
        KubernetesError
            If the API server does not answer, or does not know this account.
        """
        questions, namespace = self._questions, self._questions.namespace
        self._progress("asking for the version of Kubernetes")
        version, patch = await self._version()
        self._progress("reading the cluster")
        settings, is_seen = await self._settings()
        known_settings = (settings or ServiceSettings()) if is_seen else None
        in_hub = f"of namespace {namespace}"
        groups = await self._try("The APIs of the API server", self._groups())
        (
            (gates, classes, slices, rules, claims, other_policies),
            (nodes, pods, servers, control_plane),
            (deployments, daemon_sets, services, policies),
            (priority_classes, shapes, lease, user, _),
        ) = await all_of(
            asyncio.gather(
                _gathered(
                    self._try("The feature gates of the API server", self._gates()),
                    self._list("The device classes", names.RESOURCE_API, "deviceclasses"),
                    self._list("The devices", names.RESOURCE_API, "resourceslices"),
                    self._try("The DeviceTaintRules", list_taint_rules(self._api)),
                    self._list("The claims of all namespaces", names.RESOURCE_API, "resourceclaims"),
                    self._other_policies(groups or {}),
                ),
                _gathered(
                    self._list("The nodes", "v1", "nodes"),
                    self._list(f"The pods {in_hub}", "v1", "pods", namespace),
                    self._list(
                        "The servers of all namespaces", "v1", "pods", selector=f"{names.COMPONENT}={names.USER_SERVER}"
                    ),
                    self._list("The control plane", "v1", "pods", _CONTROL_PLANE, "tier=control-plane"),
                ),
                _gathered(
                    self._list(f"The Deployments {in_hub}", _APPS_API, "deployments", namespace),
                    self._list(f"The DaemonSets {in_hub}", _APPS_API, "daemonsets", namespace),
                    self._list(f"The Services {in_hub}", "v1", "services", namespace),
                    self._list(f"The network policies {in_hub}", names.NETWORKING_API, "networkpolicies", namespace),
                ),
                _gathered(
                    self._list("The priority classes", names.SCHEDULING_API, "priorityclasses"),
                    self._shapes(),
                    self._lease(known_settings),
                    self._own_user(),
                    self._note_api_clock(),
                ),
            )
        )
        server_namespaces = frozenset(map(_namespace_of, servers)) if servers is not None else None
        has_user_namespaces = (settings is not None and settings.user_namespaces) or has_strange_servers(
            namespace, server_namespaces
        )
        namespaces = await self._list("The namespaces", "v1", "namespaces") if has_user_namespaces else None
        self._progress("asking hub and service")
        hub_url, service_url = questions.hub_url, questions.service_url
        if questions.is_in_cluster and questions.own_account is None and not (hub_url or service_url):
            hub_url, service_url = addresses_of(pods or ())
        hub, service = await all_of(
            asyncio.gather(self._ask("hub", hub_url, "hub/api/"), self._ask("service", service_url, "readyz"))
        )
        self._progress("asking for the rights of hub and service")
        rights = await self._rights(deployments, pods, known_settings, user)
        return DoctorFacts(
            namespace=namespace,
            kubernetes=version,
            kubernetes_patch=patch,
            versions=groups.get(names.RESOURCE_GROUP, frozenset()) if groups is not None else None,
            gates=gates,
            packages=own_packages() if questions.is_in_cluster else {},
            classes=self._decoded(classes, DeviceClass.from_json),
            # In a thread: a service answers meanwhile, and there may be 40,000 devices.
            slices=await asyncio.to_thread(self._decoded, slices, ResourceSlice.from_json),
            rules=self._decoded(rules, DeviceTaintRule.from_json),
            claims=await asyncio.to_thread(self._decoded, claims, TrackedClaim.from_json),
            nodes=nodes,
            hub_namespace_pods=pods,
            server_namespaces=server_namespaces,
            labels_of_namespaces={name_of(each): labels_of(each) for each in namespaces} if namespaces else None,
            control_plane=control_plane,
            deployments=deployments,
            daemon_sets=daemon_sets,
            services=services,
            network_policies=policies,
            other_policies=other_policies,
            has_cilium=names.CILIUM_GROUP in (groups or {}),
            neighbours=await neighbours_of(self._api, groups or {}),
            priority_classes=frozenset(map(name_of, priority_classes)) if priority_classes is not None else None,
            shapes_config_maps=shapes[0],
            refused_choices=shapes[1],
            lease=lease,
            settings=settings,
            rights=rights,
            hub=hub,
            service=service,
            is_in_cluster=questions.is_in_cluster,
            own_account=questions.own_account,
            clocks=self._clocks,
            now=time.time(),
            unseen=tuple(self._unseen),
        )

    # --- the API server ----------------------------------------------------------------------------------------------

    async def _version(self) -> tuple[MinorVersion | None, int | None]:
        """Version of the API server: major and minor, and the patch number."""
        return served_version(await self._api.get("/version", timeout_seconds=_TIMEOUT_SECONDS))

    async def _groups(self) -> Mapping[str, frozenset[str]]:
        """Versions of each API."""
        return {group: frozenset(versions) for group, versions in (await api_groups(self._api)).items()}

    async def _other_policies(
        self, groups: Mapping[str, frozenset[str]]
    ) -> Mapping[str, tuple[JsonObject, ...] | None]:
        found: dict[str, tuple[JsonObject, ...] | None] = {}
        for kind, each in _OTHER_POLICIES.items():
            namespace = self._questions.namespace if each.has_namespace else None
            of_namespace = f" of namespace {namespace}" if namespace else ""
            # The kinds of a group are not all in each of its versions.
            for version in sorted(groups.get(each.group, ())):
                what = f"The policies of kind {kind}{of_namespace}"
                objects = await self._list(what, f"{each.group}/{version}", each.plural, namespace)
                if objects != ():
                    found[kind] = objects
        return found

    async def _gates(self) -> Mapping[str, bool]:
        text = await self._api.get_text("/metrics", timeout_seconds=_TIMEOUT_SECONDS)
        return {name: value == "1" for name, value in _GATE.findall(text)}

    async def _list(
        self, what: str, version: str, plural: str, namespace: str | None = None, selector: str = ""
    ) -> tuple[JsonObject, ...] | None:
        async def listed() -> tuple[JsonObject, ...]:
            try:
                found = await self._api.list(
                    resource_path(version, plural, namespace),
                    label_selector=selector,
                    page_size=_PAGE_SIZE,
                    timeout_seconds=_TIMEOUT_SECONDS,
                )
            except KubernetesError as error:
                if error.status == 404 and await is_absent(self._api, version, plural):
                    return ()
                raise
            return tuple(found["items"])

        return await self._try(what, listed())

    async def _try(self, what: str, work: Awaitable[T], missing: T | None = None) -> T | None:
        """The result; None if it cannot be read, and `missing` if there is no such thing."""
        try:
            async with self._limit:
                return await work
        except KubernetesError as error:
            if error.not_found and missing is not None:
                return missing
            self._unseen[Unseen(what, _because(error))] = None
            return None

    def _decoded(self, objects: Iterable[JsonObject] | None, decode: Callable[[JsonObject], T]) -> tuple[T, ...] | None:
        if objects is None:
            return None
        found = []
        for each in objects:
            try:
                found.append(decode(each))
            except ObjectError as error:
                self._unseen[Unseen(f"{name_of(each)} of the devices", f"it is invalid: {error}")] = None
        return tuple(found)

    async def _lease(self, settings: ServiceSettings | None) -> JsonObject | None:
        """The service's Lease; None if it is not seen, or its name is not known."""
        if settings is None:
            return None
        path = resource_path(names.COORDINATION_API, "leases", self._questions.namespace, settings.lease_name)
        return await self._try(f"The service's Lease {settings.lease_name}", self._get(path), missing={})

    async def _get(self, path: str) -> JsonObject:
        return await self._api.get(path, timeout_seconds=_TIMEOUT_SECONDS)

    async def _shapes(self) -> tuple[frozenset[str] | None, Mapping[str, RefusedChoice]]:
        """ConfigMaps in which a hub has published its choices, and choices that cannot work by what it says there."""
        what = f"The ConfigMaps of namespace {self._questions.namespace}"
        selector = f"{names.MANAGED_BY}={names.MANAGER}"
        found = await self._list(what, "v1", "configmaps", self._questions.namespace, selector)
        if found is None:
            return None, {}
        published = [
            each
            for each in found
            if name_of(each) == names.SHAPES_CONFIG_MAP
            or names.PUBLISHER in (each["metadata"].get("annotations") or {})
        ]
        return frozenset(map(name_of, published)), refused_in(published)

    async def _settings(self) -> tuple[ServiceSettings | None, bool]:
        """The service's settings, given or else from the chart's ConfigMap, and whether that could be read."""
        if self._questions.settings is not None:
            return self._questions.settings, True
        namespace = self._questions.namespace
        selector = f"{names.APPLICATION}={names.SERVICE}"
        what = f"The service's settings in namespace {namespace}"
        found = await self._list(what, "v1", "configmaps", namespace, selector)
        texts = ((each.get("data") or {}).get(_SERVICE_CONFIG) for each in found or ())
        return settings_of(next((each for each in texts if each), "")), found is not None

    async def _note_api_clock(self) -> None:
        begin = time.time()
        date = await self._try("The clock of the API server", self._api.date())
        self._note_clock(_API_SERVER, date or "", begin)

    # --- hub and service ---------------------------------------------------------------------------------------------

    async def _ask(self, who: str, base: str, path: str) -> HttpAnswer | None:
        """The answer of hub or service to an unauthenticated GET; None without an address."""
        if not base:
            return None
        url = f"{base.rstrip('/')}/{path}"
        begin = time.time()
        try:
            timeout = aiohttp.ClientTimeout(total=_HTTP_SECONDS)
            async with (
                aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.get(url, allow_redirects=False) as response,
            ):
                content = b""
                while len(content) < _MAX_BYTES and (more := await response.content.read(_MAX_BYTES - len(content))):
                    content += more
                self._note_clock(who, response.headers.get("Date", ""), begin)
                return HttpAnswer(url, response.status, json_object(content))
        except TimeoutError:
            return HttpAnswer(url, problem=f"no answer within {_HTTP_SECONDS:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return HttpAnswer(url, problem=str(error) or type(error).__name__)

    def _note_clock(self, who: str, date: str, begin: float) -> None:
        """Compare a Date header, which has whole seconds, with the middle of the request."""
        try:
            theirs = parsedate_to_datetime(date).timestamp() + 0.5
        except (TypeError, ValueError):
            return
        self._clocks[who] = theirs - (begin + time.time()) / 2

    # --- rights ------------------------------------------------------------------------------------------------------

    async def _rights(
        self,
        deployments: Sequence[JsonObject] | None,
        pods: Sequence[JsonObject] | None,
        settings: ServiceSettings | None,
        own_user: str | None,
    ) -> tuple[RightAnswer, ...]:
        namespace, own, named = self._questions.namespace, self._questions.own_account, self._questions.accounts
        # A hub's account may list its pods, and no Deployments.
        running = deployments if deployments is not None else pods
        users = {
            each: f"system:serviceaccount:{namespace}:{named.get(each) or account_name(each, running)}"
            for each in Account
        }
        if own is not None and own_user:
            users[own] = own_user
        asked = {own} if own is not None else {each for each in Account if each in named or is_there(each, deployments)}
        wanted = [each for each in needed_rights(namespace, settings) if each.account in asked]
        answers = await all_of(
            asyncio.gather(*(self._review(each, users[each.account], own_user or "") for each in wanted))
        )
        return tuple(each for each in answers if each is not None)

    async def _own_user(self) -> str | None:
        """The name of the account that this process has."""
        review = {"apiVersion": names.AUTHENTICATION_API, "kind": "SelfSubjectReview"}
        path = resource_path(names.AUTHENTICATION_API, "selfsubjectreviews")
        answer = await self._try("The name of this account", self._api.create(path, review))
        return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "") if answer else None

    async def _review(self, right: NeededRight, user: str, own_user: str) -> RightAnswer | None:
        """Ask whether an account has a right: about itself, or about another account with the right to ask that."""
        is_own = user == own_user or self._questions.own_account is right.account
        path, review = access_review(right, user, is_own=is_own)
        work = self._api.create(path, review, timeout_seconds=_TIMEOUT_SECONDS)
        answer = await self._try(f"The rights of the {right.account.value}'s account", work)
        return RightAnswer(right, user, (answer.get("status") or {}).get("allowed") is True) if answer else None


async def _gathered(*works: Awaitable[Any]) -> list[Any]:
    return await all_of(asyncio.gather(*works))


def _because(error: KubernetesError) -> str:
    """Why something cannot be read, with the missing right."""
    rule = missing_rule(error)
    if rule is None:
        return str(error)
    where = f"in namespace {rule.namespace}" if rule.namespace else "in all namespaces"
    return (
        "this account may not, and needs the right "
        f'{{apiGroups: ["{rule.group}"], resources: [{rule.resource}], verbs: [{rule.verb}]}} {where}'
    )


def _namespace_of(obj: JsonObject) -> str:
    return str(obj["metadata"].get("namespace") or "")


async def neighbours_of(api: KubernetesApi, groups: Mapping[str, frozenset[str]]) -> frozenset[tuple[str, str]]:
    """Those of `NEIGHBOURS` that some version of their group has; a version whose answer fails is left out."""
    found = set()
    for group, plural in NEIGHBOURS:
        for version in groups.get(group, ()):
            with suppress(KubernetesError):
                if not await is_absent(api, f"{group}/{version}", plural):
                    found.add((group, plural))
    return frozenset(found)
