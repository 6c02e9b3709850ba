"""The real API server allows the accounts of hub and service the shipped rules, and nothing else.

Every resource that it serves, with each verb that the resource knows, is asked for: in the account's namespace, in
another one, and for names that a rule names and does not name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from dra_spawner.kube.client.api import KubernetesApi
from tests.cluster.access import (
    HUB_ACCOUNT,
    HUB_USERS_RULES,
    PLACEHOLDER_RULES,
    SERVICE_ACCOUNT,
    SERVICE_RULES,
    SHIPPED_RULES,
    USER_NAMESPACES_RULES,
    Rules,
    chart_objects,
    grant,
    is_allowed,
    service_token,
    shipped_objects,
)
from tests.cluster.under_test import ClusterUnderTest

Json = dict[str, Any]

# ClusterRole system:basic-user, which every account has.
EVERYBODY = [
    {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        "verbs": ["create"],
    },
    {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
]
# ClusterRole system:cluster-trust-bundle-discovery, which every service account has from Kubernetes 1.37 on.
TRUST_BUNDLES = {
    "apiGroups": ["certificates.k8s.io"],
    "resources": ["clustertrustbundles"],
    "verbs": ["get", "list", "watch"],
}
# Verbs that no list of an API server's resources has, and resources that only the authorizer knows.
MORE = [
    ("rbac.authorization.k8s.io", "clusterroles", ("bind", "escalate")),
    ("rbac.authorization.k8s.io", "roles", ("bind", "escalate")),
    ("", "serviceaccounts", ("impersonate",)),
    ("", "users", ("impersonate",)),
    ("", "groups", ("impersonate",)),
    ("", "nodes/proxy", ("get", "create")),
    ("resource.k8s.io", "resourceclaims/binding", ("update", "patch")),
    ("resource.k8s.io", "resourceclaims/driver", ("arbitrary-node:update", "arbitrary-node:patch")),
]
_AT_ONCE = 64


@dataclass(frozen=True)
class Question:
    namespace: str
    verb: str
    group: str
    resource: str
    name: str

    def is_granted(self, objects: Iterable[Json], own: str) -> bool:
        """Whether a rule says so."""
        return any(
            self.verb in rule["verbs"]
            and self.group in rule["apiGroups"]
            and self.resource in rule["resources"]
            and (not rule.get("resourceNames") or self.name in rule["resourceNames"])
            for obj in objects
            if obj["kind"] == "ClusterRole" or (obj["kind"] == "Role" and self.namespace == own)
            for rule in obj["rules"]
        )


async def served(api: KubernetesApi) -> list[tuple[str, str, tuple[str, ...]]]:
    """Group, resource and verbs of all that the API server has."""
    groups = (await api.get("/apis"))["groups"]
    paths = {"": "/api/v1", **{each["name"]: f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups}}
    lists = await asyncio.gather(*(api.get(path) for path in paths.values()))
    return [
        (group, each["name"], tuple(each["verbs"]))
        for group, listed in zip(paths, lists, strict=True)
        for each in listed["resources"]
    ]


def questions(
    resources: Iterable[tuple[str, str, tuple[str, ...]]], namespaces: Iterable[str], rules: Iterable[Json]
) -> Iterator[Question]:
    named = {
        (group, resource): rule["resourceNames"]
        for rule in rules
        if rule.get("resourceNames")
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    for group, resource, verbs in resources:
        for namespace in namespaces:
            for verb in verbs:
                for name in ("", *named.get((group, resource), ())):
                    yield Question(namespace, verb, group, resource, name)


async def allowed(api: KubernetesApi, user: str, asked: Iterable[Question]) -> set[Question]:
    """Rights of an account, by the authorizer."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(question: Question) -> Question | None:
        attributes = asdict(question)
        attributes["resource"], _, attributes["subresource"] = question.resource.partition("/")
        async with gate:
            return question if await is_allowed(api, user, attributes) else None

    found = await asyncio.gather(*(ask(each) for each in asked))
    return {each for each in found if each is not None}


async def compare(cluster: ClusterUnderTest, account: str, objects: list[Json]) -> int:
    """All that is granted is shipped, and the reverse; how many requests that took."""
    rules = [rule for obj in objects for rule in obj.get("rules", ())]
    resources = [*await served(cluster.admin), *MORE]
    namespaces = (cluster.namespace, "kube-system")
    asked = list(dict.fromkeys(questions(resources, namespaces, rules)))
    user = f"system:serviceaccount:{cluster.namespace}:{account}"
    found = await allowed(cluster.admin, user, asked)
    of_release = [TRUST_BUNDLES] if cluster.kubernetes >= (1, 37) else []
    everybody = {"kind": "ClusterRole", "rules": [*EVERYBODY, *of_release]}
    expected = {each for each in asked if each.is_granted([*objects, everybody], cluster.namespace)}
    assert found - expected == set()
    assert expected - found == set()
    return len(asked)


def shipped(cluster: ClusterUnderTest, *parts: Rules) -> list[Json]:
    return [obj for each in parts for obj in shipped_objects(cluster.namespace, each)]


async def test_the_hubs_account(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    objects = [*chart_objects(cluster.namespace), *shipped(cluster, SHIPPED_RULES)]
    assert await compare(cluster, HUB_ACCOUNT, objects) > 1000
    await grant(cluster.admin, cluster.namespace, HUB_USERS_RULES)
    await compare(cluster, HUB_ACCOUNT, [*objects, *shipped(cluster, HUB_USERS_RULES)])


async def test_the_services_account(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    await service_token(cluster.admin, cluster.namespace)
    await grant(cluster.admin, cluster.namespace, PLACEHOLDER_RULES, SERVICE_ACCOUNT)
    assert await compare(cluster, SERVICE_ACCOUNT, shipped(cluster, SERVICE_RULES, PLACEHOLDER_RULES)) > 1000
    await grant(cluster.admin, cluster.namespace, USER_NAMESPACES_RULES, SERVICE_ACCOUNT)
    files = (SERVICE_RULES, PLACEHOLDER_RULES, USER_NAMESPACES_RULES)
    await compare(cluster, SERVICE_ACCOUNT, shipped(cluster, *files))
