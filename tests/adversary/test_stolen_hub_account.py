"""A thief with the token of the hub's account, where servers are in a namespace of each user, on a real control plane.

It may make pods, which is much, but with the shipped policies only where the hub's users are, and none that has the node.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.api_connection import ApiRequest
from tests.adversary.stolen_account import DRA, DRY
from tests.adversary.tenant import tenant_of
from tests.cluster.access import HUB_USERS_RULES, RBAC_API, grant, is_allowed
from tests.cluster.object_paths import path_of
from tests.cluster.policy import hub_policy_objects
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import SHARE, user_pod
from tests.polling import PATIENCE_SECONDS, eventually

Json = dict[str, Any]
Attempt = Callable[[KubernetesApi], Awaitable[object]]

POD = user_pod("jupyter-ada", {})
CLAIM = {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": {"name": "gpu"}, "spec": SHARE["gpu"]}
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "home"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
KINDS = {"pods": ("v1", POD), "persistentvolumeclaims": ("v1", VOLUME), "resourceclaims": (DRA, CLAIM)}
NAMESPACES = resource_path("v1", "namespaces")
#: An account that makes namespaces for tenants, as controllers of platforms have.
NAMESPACE_MAKER = {"Impersonate-User": "system:serviceaccount:kube-system:namespace-maker"}
#: Everything of its node.
PRIVILEGED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "root"},
    "spec": {
        "automountServiceAccountToken": False,
        "hostPID": True,
        "containers": [{"name": "c", "image": "a:1", "securityContext": {"privileged": True}}],
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
    },
}


def a_namespace(name: str, labels: Json) -> Json:
    return {"metadata": {"name": name, "labels": labels}}


async def outcome(attempt: Awaitable[object]) -> str:
    """The refusal of an attempt; empty if it was allowed."""
    try:
        await attempt
    except KubernetesError as error:
        return error.message
    return ""


async def refusals(api: KubernetesApi, namespace: str) -> dict[str, str]:
    """Refusals by kind of object in a namespace; empty where the objects can be created."""
    return {
        plural: said
        for plural, (version, manifest) in KINDS.items()
        if (said := await outcome(api.create(resource_path(version, plural, namespace), manifest, params=DRY)))
    }


@contextlib.asynccontextmanager
async def role_for_namespaces(cluster: ClusterUnderTest, account: str, *verbs: str) -> AsyncIterator[None]:
    """An account (namespace and name) may do something with every namespace."""
    namespace, name = account.split(":")
    metadata = {"name": f"{name}-of-namespaces-{cluster.namespace}"}
    rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": [*verbs]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **metadata}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    objects: list[Json] = [
        {"apiVersion": RBAC_API, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": RBAC_API,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        },
    ]
    for obj in objects:
        await cluster.admin.create(path_of(obj), obj)
    attributes = {"namespace": "", "verb": verbs[-1], "group": "", "resource": "namespaces", "name": ""}
    user = f"system:serviceaccount:{account}"
    await eventually(lambda: is_allowed(cluster.admin, user, attributes), f"{account} may {verbs[-1]} namespaces")
    yield
    for obj in objects:
        await cluster.admin.delete(path_of(obj, named=True))


@pytest.fixture
async def thief(real_cluster: ClusterUnderTest) -> AsyncIterator[KubernetesApi]:
    """The hub's account, with rights that the chart does not give it besides: to change and delete namespaces."""
    cluster = real_cluster
    await grant(cluster.admin, cluster.namespace, HUB_USERS_RULES)
    async with (
        role_for_namespaces(cluster, f"{cluster.namespace}:hub", "delete", "patch"),
        await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig, timeout_seconds=PATIENCE_SECONDS) as api,
    ):
        yield api


@pytest.fixture
async def namespace_maker(real_cluster: ClusterUnderTest) -> AsyncIterator[None]:
    """It may not update the hub's namespace: the policy asks for that right, patch is another one."""
    async with role_for_namespaces(real_cluster, "kube-system:namespace-maker", "create", "patch"):
        yield


@contextlib.asynccontextmanager
async def policies(cluster: ClusterUnderTest, thief: KubernetesApi) -> AsyncIterator[list[Json]]:
    """The shipped policies of the hub, in force."""
    objects = [await cluster.admin.create(path_of(obj), obj) for obj in hub_policy_objects(cluster.namespace)]
    forged = a_namespace(f"forged-{cluster.namespace}", cluster.users_labels)

    async def are_in_force() -> bool:
        """Each policy refuses something; the administrator impersonates somebody who may only make namespaces."""
        by_stranger = cluster.admin.connection.read_json(
            ApiRequest("create", "POST", NAMESPACES, params=DRY, body=forged, headers=NAMESPACE_MAKER)
        )
        if "is given by the hub" not in await outcome(by_stranger):
            return False
        return (await refusals(thief, "kube-system")).keys() == KINDS.keys()

    try:
        await eventually(are_in_force, "the policies are in force")
        yield objects
    finally:
        for obj in reversed(objects):
            await cluster.admin.delete(path_of(obj, named=True))


async def test_the_account_writes_only_in_namespaces_of_its_users(
    real_cluster: ClusterUnderTest, thief: KubernetesApi, namespace_maker: None
) -> None:
    cluster = real_cluster
    own, ours = cluster.namespace, cluster.users_labels
    enforce = names.POD_SECURITY
    async with (
        cluster.another_namespace("ada", ours) as ada,
        cluster.another_namespace("other-hub", {enforce: "privileged"}) as other,
        cluster.another_namespace("old", {**ours, enforce: "privileged"}) as old,
    ):

        def new(**labels: str) -> Attempt:
            return lambda api: api.create(NAMESPACES, a_namespace(f"{own}-eve", labels), params=DRY)

        def changed(name: str, **labels: str | None) -> Attempt:
            return lambda api: api.patch(f"{NAMESPACES}/{name}", {"metadata": {"labels": labels}}, params=DRY)

        def made(namespace: str, manifest: Json = POD) -> Attempt:
            return lambda api: api.create(resource_path("v1", "pods", namespace), manifest, params=DRY)

        nowhere = (
            f"the hub writes in {own} and in namespaces with the label {names.HUB_NAMESPACE}: {own}, and nowhere else"
        )
        level = "the hub makes pods only where the label pod-security.kubernetes.io/enforce is baseline or restricted"
        admin_access = f"only an administrator gives it the label {names.ADMIN_ACCESS}"
        attempts: dict[str, tuple[Attempt, str]] = {
            "a namespace without labels": (new(), nowhere),
            "a namespace of nobody": (new(**{enforce: "baseline"}), nowhere),
            "a namespace of another hub": (new(**{**ours, names.HUB_NAMESPACE: "other"}), nowhere),
            "a namespace without Pod Security": (new(**{names.HUB_NAMESPACE: own}), level),
            "a privileged namespace": (new(**{**ours, enforce: "privileged"}), level),
            "a namespace with an older standard": (new(**{**ours, f"{enforce}-version": "v1.0"}), level),
            "a namespace that only warns": (
                new(**{names.HUB_NAMESPACE: own, "pod-security.kubernetes.io/warn": "baseline"}),
                level,
            ),
            "a namespace with access for administration": (new(**{**ours, names.ADMIN_ACCESS: "true"}), admin_access),
            "a namespace with a foreign name": (
                lambda api: api.create(NAMESPACES, a_namespace(f"not-{own}", ours), params=DRY),
                f"the name of a namespace that the hub makes begins with {own}-",
            ),
            "a user's namespace becomes privileged": (changed(ada, **{enforce: "privileged"}), level),
            "a user's namespace loses Pod Security": (changed(ada, **{enforce: None}), level),
            "a user's namespace gets access for administration": (
                changed(ada, **{names.ADMIN_ACCESS: "true"}),
                admin_access,
            ),
            "another hub's namespace becomes its own": (changed(other, **ours), nowhere),
            "a user's namespace is nobody's": (changed(ada, **{names.HUB_NAMESPACE: None}), nowhere),
            "the hub's own namespace becomes a user's": (changed(own, **ours), nowhere),
            "the end of another hub's namespace": (
                lambda api: api.connection.read_json(
                    ApiRequest("delete", "DELETE", f"{NAMESPACES}/{other}", body={"dryRun": ["All"]})
                ),
                nowhere,
            ),
            "a pod in another hub's namespace, whose name begins alike": (made(other), nowhere),
            "there, one with the node": (made(other, PRIVILEGED), nowhere),
            "a pod with the node, where the administrator allows it": (made(old, PRIVILEGED), level),
            "a pod with the node in the hub's own namespace": (made(own, PRIVILEGED), level),
        }
        without = {name: said for name, (attempt, _) in attempts.items() if (said := await outcome(attempt(thief)))}
        assert without == {}
        async with policies(cluster, thief) as objects:
            found = {name: await outcome(attempt(thief)) for name, (attempt, _) in attempts.items()}
            wrong = {name: found[name] for name, (_, said) in attempts.items() if said not in found[name]}
            assert wrong == {}
            # A pod with the node in a user's namespace is refused by Pod Security itself.
            assert 'violates PodSecurity "baseline:latest"' in await outcome(made(ada, PRIVILEGED)(thief))
            assert await refusals(thief, ada) == {}
            assert (await refusals(thief, own)).keys() == {"pods"}
            await cluster.admin.patch(f"{NAMESPACES}/{own}", {"metadata": {"labels": {enforce: "restricted"}}})

            async def may_write_at_home() -> bool:
                return "the hub makes pods only" not in (await refusals(thief, own)).get("pods", "")

            await eventually(may_write_at_home, "the label of the hub's namespace is known")
            await new(**ours)(thief)
            await new(**{**ours, enforce: "restricted", f"{enforce}-version": "latest"})(thief)
            # KubeSpawner makes the namespace at each start.
            assert "already exists" in await outcome(thief.create(NAMESPACES, a_namespace(ada, ours), params=DRY))
            await changed(ada, team="physics")(thief)
            assert await refusals(cluster.admin, "kube-system") == {}
            for policy in [obj for obj in objects if obj["kind"] == "ValidatingAdmissionPolicy"]:
                stored = await cluster.wait_for(
                    path_of(policy, named=True), lambda found: "typeChecking" in found.get("status", {})
                )
                assert stored["status"]["typeChecking"] == {}, policy["metadata"]["name"]


async def test_nobody_else_makes_namespaces_or_servers_of_users(
    real_cluster: ClusterUnderTest, thief: KubernetesApi, namespace_maker: None
) -> None:
    """By labels that hub and service believe: one makes namespaces for tenants, another one has `edit` in a user's."""
    cluster = real_cluster
    own, ours = cluster.namespace, cluster.users_labels

    def as_maker(verb: str, method: str, path: str, body: Json) -> Awaitable[object]:
        patch = {"Content-Type": "application/merge-patch+json"} if verb == "patch" else {}
        request = ApiRequest(verb, method, path, params=DRY, body=body, headers={**NAMESPACE_MAKER, **patch})
        return cluster.admin.connection.read_json(request)

    async with (
        cluster.another_namespace("ada", ours) as ada,
        cluster.another_namespace("bob") as bob,
        tenant_of(cluster, ada) as tenant,
    ):

        def pod(labels: Json, notes: Json | None = None, name: str = "mine") -> Json:
            spec = {"containers": [{"name": "c", "image": "a:1"}]}
            metadata = {"name": name, "labels": labels, "annotations": notes or {}}
            return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

        server = pod({names.COMPONENT: names.USER_SERVER, names.VLAN: "100"}, {names.VLAN_OWNER: "user:ada"}, "ada")
        pods = resource_path("v1", "pods", ada)
        await cluster.admin.create(pods, server)
        marks = {
            "a server": pod({names.COMPONENT: names.USER_SERVER}),
            "a placeholder": pod({names.COMPONENT: names.PLACEHOLDER}),
            "a VLAN": pod({names.VLAN: "42"}),
            "the owner of a VLAN": pod({}, {names.VLAN_OWNER: "user:bob"}),
            "the start of a server": pod({}, {names.VLAN_LEASE: "1"}),
            "cards": pod({}, {names.INTEL_GAS: "1"}),
            "a shape": pod({names.SHAPE: "0" * 16}),
            "a definition": pod({}, {names.DEFINITION: "{}"}),
        }
        changes: dict[str, Json] = {
            "no VLAN": {"labels": {names.VLAN: None}},
            "another VLAN": {"labels": {names.VLAN: "101"}},
            "no server": {"labels": {names.COMPONENT: None}},
            "another owner": {"annotations": {names.VLAN_OWNER: "user:bob"}},
        }
        says = f"only the hub of {own} gives pods the labels {names.VLAN}"

        async def tries() -> dict[str, str]:
            made = {name: await tenant.trial("POST", pods, body) for name, body in marks.items()}
            changed = {
                name: await tenant.trial("PATCH", f"{pods}/ada", {"metadata": part}) for name, part in changes.items()
            }
            return made | changed

        given = [
            ("create", "POST", NAMESPACES, a_namespace(f"{own}-eve", ours)),
            ("create", "POST", NAMESPACES, a_namespace("of-a-stranger", ours)),
            ("patch", "PATCH", f"{NAMESPACES}/{bob}", {"metadata": {"labels": ours}}),
            ("patch", "PATCH", f"{NAMESPACES}/{ada}", {"metadata": {"labels": {names.HUB_NAMESPACE: None}}}),
        ]
        assert {name: said for name, said in (await tries()).items() if said} == {}
        assert [said for each in given if (said := await outcome(as_maker(*each)))] == []
        async with policies(cluster, thief):

            async def marks_are_refused() -> bool:
                return says in await tenant.trial("POST", pods, marks["a VLAN"])

            await eventually(marks_are_refused, "the policy about pods is in force")
            found = await tries()
            assert {name: said for name, said in found.items() if says not in said} == {}
            sentences = [await outcome(as_maker(*each)) for each in given]
            taken = f"metadata.labels: {names.HUB_NAMESPACE}: {own} is given by the hub of {own}"
            assert [said for said in sentences if taken not in said] == []
            # What is nobody's business, and an administrator.
            assert await tenant.trial("POST", pods, pod({names.COMPONENT: "worker", "app": "batch"})) == ""
            assert await tenant.trial("PATCH", f"{pods}/ada", {"metadata": {"labels": {"a": "b"}}}) == ""
            harmless = {"metadata": {"labels": {"team": "physics"}}}
            assert await outcome(as_maker("patch", "PATCH", f"{NAMESPACES}/{ada}", harmless)) == ""
            assert await outcome(as_maker("create", "POST", NAMESPACES, a_namespace("of-a-tenant", {}))) == ""
            await cluster.admin.patch(f"{NAMESPACES}/{bob}", {"metadata": {"labels": ours}}, params=DRY)
            await cluster.admin.create(pods, marks["a VLAN"], params=DRY)


async def test_the_account_reads_no_passwords_of_others(real_cluster: ClusterUnderTest) -> None:
    """Few hubs have the settings for which KubeSpawner needs Secrets."""
    cluster = real_cluster
    await grant(cluster.admin, cluster.namespace, HUB_USERS_RULES)
    async with (
        cluster.another_namespace("ada") as ada,
        await KubernetesApi.from_kubeconfig(cluster.hub_kubeconfig, timeout_seconds=PATIENCE_SECONDS) as thief,
    ):
        for namespace in (ada, "kube-system"):
            with pytest.raises(KubernetesError, match='cannot list resource "secrets"'):
                await thief.list(resource_path("v1", "secrets", namespace))
        # The chart allows the Secrets of its own namespace.
        await thief.list(resource_path("v1", "secrets", cluster.namespace))
