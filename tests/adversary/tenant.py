"""A tenant of the cluster without any relation to the hub: ClusterRole ``edit`` in a namespace of its own, no more."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import yaml

from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.cluster.access import RBAC_API, account_token, is_allowed
from tests.cluster.object_paths import has_namespace, plural_of
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually

ACCOUNT = "stranger"
DRA = "resource.k8s.io/v1"


def path_to(kind: str, namespace: str | None = None, name: str | None = None) -> str:
    """Where objects of a kind that a tenant tries to write are, or one of them is."""
    version = "coordination.k8s.io/v1" if kind == "Lease" else DRA if kind.startswith(("Device", "Resource")) else "v1"
    return resource_path(version, plural_of(kind), namespace if has_namespace(kind) else None, name)


class Tenant:
    """Sends texts as they are, which a client library would not."""

    def __init__(self, session: aiohttp.ClientSession, url: str, namespace: str, *, is_real: bool) -> None:
        self.namespace = namespace
        self.is_real = is_real
        self._session = session
        self._url = url

    async def post(self, kind: str, body: bytes | dict[str, Any]) -> tuple[int, str]:
        """Try to create an object, in the tenant's namespace if it is of one; status and answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = path_to(kind, self.namespace)
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url + path, data=data, headers=headers) as answer:
            return answer.status, (await answer.read()).decode("utf-8", "replace")

    async def trial(self, method: str, path: str, body: dict[str, Any]) -> str:
        """Try to write without doing so; the refusal, or an empty text."""
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        address, headers = f"{self._url}{path}?dryRun=All", {"Content-Type": patch}
        async with self._session.request(method, address, data=json.dumps(body), headers=headers) as answer:
            text = (await answer.read()).decode("utf-8", "replace")
            return "" if answer.status < 300 else str(json.loads(text)["message"])

    async def create(self, kind: str, body: bytes | dict[str, Any]) -> None:
        """Create an object."""
        status, answer = await self.post(kind, body)
        assert status == 201, (kind, status, answer[:300])

    @contextlib.asynccontextmanager
    async def as_administrator(self, cluster: ClusterUnderTest) -> AsyncIterator[Tenant]:
        """The same with an administrator's rights."""
        async with _session(cluster, _admin_token(cluster)) as session:
            yield Tenant(session, self._url, self.namespace, is_real=self.is_real)


@contextlib.asynccontextmanager
async def editor_of(cluster: ClusterUnderTest) -> AsyncIterator[Tenant]:
    """Somebody with ClusterRole ``edit`` in the namespace of the hub itself."""
    is_real = cluster.kind == "real"
    token = await _token(cluster.admin, cluster.namespace) if is_real else _admin_token(cluster)
    async with _session(cluster, token) as session:
        yield Tenant(session, cluster.url, cluster.namespace, is_real=is_real)


@contextlib.asynccontextmanager
async def tenant_of(cluster: ClusterUnderTest, present: str = "") -> AsyncIterator[Tenant]:
    """A tenant of the cluster, in a namespace of its own or in one that is there.

    On the embedded cluster, which has no RBAC, all may do all.
    """
    namespace = present or f"{cluster.namespace}-stranger"
    is_real = cluster.kind == "real"
    if not present:
        await cluster.admin.create(resource_path("v1", "namespaces"), {"metadata": {"name": namespace}})
    token = await _token(cluster.admin, namespace) if is_real else _admin_token(cluster)
    try:
        async with _session(cluster, token) as session:
            yield Tenant(session, cluster.url, namespace, is_real=is_real)
    finally:
        await cluster.admin.delete(path_to("Pod", namespace), grace_period_seconds=0, timeout_seconds=60)
        await cluster.admin.delete(path_to("ResourceClaim", namespace), timeout_seconds=60)
        await cluster.admin.delete(resource_path("v1", "namespaces", name=namespace), missing_ok=True)


def _session(cluster: ClusterUnderTest, token: str) -> aiohttp.ClientSession:
    authority = cluster.certificate_authority
    context = ssl.create_default_context(cafile=str(authority)) if authority is not None else False
    headers = {"Authorization": f"Bearer {token}"}
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), headers=headers)


def _admin_token(cluster: ClusterUnderTest) -> str:
    return str(yaml.safe_load(cluster.admin_kubeconfig.read_text())["users"][0]["user"]["token"])


async def _token(admin: KubernetesApi, namespace: str) -> str:
    """A token of an account that is bound to ClusterRole ``edit`` in its namespace, once that is known."""
    accounts = resource_path("v1", "serviceaccounts", namespace)
    await admin.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})
    binding = {
        "apiVersion": RBAC_API,
        "kind": "RoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }
    await admin.create(resource_path(RBAC_API, "rolebindings", namespace), binding)
    attributes = {"namespace": namespace, "verb": "create", "group": "resource.k8s.io", "resource": "resourceclaims"}
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    await eventually(lambda: is_allowed(admin, user, attributes), f"{ACCOUNT} may create claims")
    return await account_token(admin, namespace, ACCOUNT)
