"""Attempts of a thief with the token of the service's account.

Each attempt works while the policy is not applied (else its refusal would prove nothing). With the policy it is refused
with the rule's name and a sentence.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.kube.client.api_connection import ApiRequest
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings, placeholder_pod
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.cluster.access import SERVICE_ACCOUNT
from tests.cluster.policy import apply_policy, withdraw_policy
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import SHARE, shape
from tests.polling import eventually

Json = dict[str, Any]

GPU = shape(SHARE)
DRY = {"dryRun": "All"}
OURS = {names.COMPONENT: names.PLACEHOLDER, names.MANAGED_BY: names.MANAGER, names.SHAPE: GPU.id}
DRA = "resource.k8s.io/v1"


@dataclass
class Thief:
    """The holder of the token. Attempts change nothing: admission sees dry runs like any request."""

    api: KubernetesApi
    cluster: ClusterUnderTest
    settings: PlaceholderSettings

    def path(self, plural: str, name: str | None = None, namespace: str | None = None, sub: str | None = None) -> str:
        group = DRA if plural.startswith("resourceclaim") else "v1"
        return resource_path(group, plural, namespace or self.cluster.namespace, name, sub)

    async def make(self, path: str, manifest: Json) -> None:
        await self.api.create(path, manifest, params=DRY)

    async def merge(self, path: str, body: Json) -> None:
        await self.api.patch(path, body, params=DRY)

    async def change(self, path: str, *operations: Json) -> None:
        await self.api.patch(path, list(operations), patch_type=PatchType.JSON, params=DRY)

    async def delete(self, path: str) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
        await self.api.connection.read_json(ApiRequest("delete", "DELETE", path, body=options))


Attempt = Callable[[Thief], Awaitable[None]]


async def refused_by_the_policy_alone(thief: Thief, rule: str, attempts: dict[str, tuple[Attempt, str]]) -> None:
    """Each attempt works without the policy, and with it is refused by `rule` with its sentence."""
    admin, namespace = thief.cluster.admin, thief.cluster.namespace
    first, _ = next(iter(attempts.values()))
    await withdraw_policy(admin, namespace, SERVICE_ACCOUNT)
    await until(thief, first, refused=False)
    without = {name: await outcome(thief, attempt) for name, (attempt, _) in attempts.items()}
    await apply_policy(admin, namespace, SERVICE_ACCOUNT)
    await until(thief, first, refused=True)
    found = {name: await outcome(thief, attempt) for name, (attempt, _) in attempts.items()}
    refused = {name: said for name, said in without.items() if said}
    assert refused == {}
    policy = f"ValidatingAdmissionPolicy 'dra-spawner-service-{rule}'"
    wrong = {name: found[name] for name, (_, sentence) in attempts.items() if f"request: {sentence}" not in found[name]}
    assert wrong == {}, wrong
    assert {name: said for name, said in found.items() if policy not in said} == {}


async def until(thief: Thief, attempt: Attempt, *, refused: bool) -> None:
    """Wait until the API server knows of a policy's coming or going."""

    async def is_known() -> bool:
        said[:] = [await outcome(thief, attempt)]
        return bool(said[0]) == refused

    said: list[str] = []
    await eventually(is_known, f"the attempt is refused: {refused}", shows=lambda: said)


async def outcome(thief: Thief, attempt: Attempt) -> str:
    """The refusal of an attempt; empty if it was allowed."""
    try:
        await attempt(thief)
    except KubernetesError as error:
        return f"{error.status} {error.message}"
    return ""


# --- pods -----------------------------------------------------------------------------------------------------------


def a_pod(thief: Thief, name: str = "placeholder-0123abcd-1", of: Shape = GPU) -> Json:
    manifest = placeholder_pod(of, name, thief.settings)
    manifest["metadata"]["annotations"][names.REASON] = "target 1, present 0"
    return copy.deepcopy(manifest)


def pod_with(**parts: Any) -> Attempt:
    """A placeholder with other parts of its spec (None: without)."""

    async def attempt(thief: Thief) -> None:
        manifest = a_pod(thief)
        put(manifest["spec"], parts)
        await thief.make(thief.path("pods"), manifest)

    return attempt


def container_with(**parts: Any) -> Attempt:
    async def attempt(thief: Thief) -> None:
        manifest = a_pod(thief)
        put(manifest["spec"]["containers"][0], parts)
        await thief.make(thief.path("pods"), manifest)

    return attempt


def security_with(**parts: Any) -> Attempt:
    async def attempt(thief: Thief) -> None:
        manifest = a_pod(thief)
        container = manifest["spec"]["containers"][0]
        container["securityContext"] = put({**container["securityContext"]}, parts)
        await thief.make(thief.path("pods"), manifest)

    return attempt


def metadata_with(**parts: Any) -> Attempt:
    async def attempt(thief: Thief) -> None:
        manifest = a_pod(thief)
        put(manifest["metadata"], parts)
        if claims := manifest["spec"].get("resourceClaims"):
            claims[0]["resourceClaimName"] = f"{manifest['metadata']['name']}-gpu"
        await thief.make(thief.path("pods"), manifest)

    return attempt


def metadata_and_claim(name: str, claim: str, entry: str = "gpu") -> Attempt:
    """A placeholder with a name that consumes a claim with another one."""

    async def attempt(thief: Thief) -> None:
        manifest = a_pod(thief, name)
        manifest["spec"]["resourceClaims"] = [{"name": entry, "resourceClaimName": claim}]
        manifest["spec"]["containers"][0]["resources"]["claims"] = [{"name": entry}]
        await thief.make(thief.path("pods"), manifest)

    return attempt


def put(obj: Json, parts: Json) -> Json:
    for key, value in parts.items():
        if value is None:
            obj.pop(key, None)
        else:
            obj[key] = value
    return obj


SECRET = {"secretKeyRef": {"name": "hub", "key": "hub.config.CookieSecret"}}
CONTAINER = {"name": "more", "image": "registry.k8s.io/pause:3.10"}
HUB = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "hub-1", "uid": "1", "controller": True}
EVERYBODY = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/os"}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [EVERYBODY]}
HTTP = {"httpGet": {"host": "169.254.169.254", "port": 80, "path": "/"}}
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
COMMAND = "spec.containers[0]: a placeholder's has no command, args, env"
PRIVILEGES = "spec.containers[0].securityContext: a placeholder's has no privileges"
ACCOUNT = "spec.serviceAccountName: a placeholder has no account but default, and no token"
OF_NODE = "spec: a placeholder has nothing of its node's"
LABELS = "metadata.labels: a placeholder has component: user-placeholder"
OWNERS = "metadata: a placeholder has no owners, no finalizers"
ONE = "spec.containers: a placeholder has one"
VOLUMES = "spec.volumes: a placeholder has none"
CLAIMS = "spec.resourceClaims: a placeholder names its own claims only"
USERS = "spec.securityContext: a placeholder has neither users nor groups for its pod"
ANNOTATIONS = (
    "metadata.annotations: a placeholder has cluster-autoscaler.kubernetes.io/safe-to-evict, hub.jupyter.org/reason"
)
NODE_CHOICE = "spec: a placeholder does not choose its node itself"

PODS: dict[str, tuple[Attempt, str]] = {
    "the hub's Secret": (pod_with(volumes=[{"name": "hub", "secret": {"secretName": "hub"}}]), VOLUMES),
    "the node's files": (pod_with(volumes=[{"name": "root", "hostPath": {"path": "/"}}]), VOLUMES),
    "a token of its own": (
        pod_with(
            serviceAccountName="default",
            volumes=[{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        ),
        VOLUMES,
    ),
    "the hub's account": (pod_with(serviceAccountName="hub"), ACCOUNT),
    "the hub's account, as it was once called": (pod_with(serviceAccount="hub"), ACCOUNT),
    "the account's token": (pod_with(automountServiceAccountToken=None), ACCOUNT),
    "the node's network": (pod_with(hostNetwork=True), OF_NODE),
    "the node's processes": (pod_with(hostPID=True), OF_NODE),
    "the node's memory": (pod_with(hostIPC=True), OF_NODE),
    "the kernel's settings": (
        pod_with(securityContext={"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}),
        OF_NODE,
    ),
    "no confinement of the pod": (pod_with(securityContext={"seLinuxOptions": {"type": "spc_t"}}), OF_NODE),
    "the role of the node's programs": (
        pod_with(securityContext={"seLinuxOptions": {"role": "sysadm_r", "user": "system_u", "level": "s0"}}),
        OF_NODE,
    ),
    "no AppArmor of the pod": (pod_with(securityContext={"appArmorProfile": {"type": "Unconfined"}}), OF_NODE),
    "an AppArmor profile of the node": (
        pod_with(securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}),
        OF_NODE,
    ),
    "no seccomp of the pod": (pod_with(securityContext={"seccompProfile": {"type": "Unconfined"}}), OF_NODE),
    "the pod as root": (pod_with(securityContext={"runAsUser": 0}), USERS),
    "the group of root": (pod_with(securityContext={"runAsGroup": 0}), USERS),
    "more groups": (pod_with(securityContext={"supplementalGroups": [0]}), USERS),
    "the image's groups": (pod_with(securityContext={"supplementalGroupsPolicy": "Merge"}), USERS),
    "the group of files": (pod_with(securityContext={"fsGroup": 0}), USERS),
    "one more container": (
        lambda thief: pod_with(containers=[*a_pod(thief)["spec"]["containers"], CONTAINER])(thief),
        ONE,
    ),
    "an init container": (pod_with(initContainers=[CONTAINER]), ONE),
    "an image of his own": (
        container_with(image="registry.example.com/miner:1"),
        "spec.containers[0].image: a placeholder's is registry.k8s.io/pause:3.10, not registry.example.com/miner:1; if that is "
        "your placeholder_image, put it into this policy, too",
    ),
    "a command": (container_with(command=["/pause", "-v"]), COMMAND),
    "arguments": (container_with(args=["-v"]), COMMAND),
    "a Secret in a variable": (container_with(env=[{"name": "KEY", "valueFrom": SECRET}]), COMMAND),
    "a Secret in all variables": (container_with(envFrom=[{"secretRef": {"name": "hub"}}]), COMMAND),
    "a port of the node": (container_with(ports=[{"containerPort": 80, "hostPort": 80}]), COMMAND),
    "requests from the node": (container_with(livenessProbe=HTTP), COMMAND),
    "requests from the node, at its start": (container_with(lifecycle={"postStart": HTTP}), COMMAND),
    "requests from the node, at its end": (container_with(lifecycle={"preStop": HTTP}), COMMAND),
    "all privileges": (security_with(privileged=True, allowPrivilegeEscalation=True), PRIVILEGES),
    "more privileges": (security_with(allowPrivilegeEscalation=True), PRIVILEGES),
    "a capability": (security_with(capabilities={"add": ["SYS_ADMIN"], "drop": ["ALL"]}), PRIVILEGES),
    "the usual capabilities": (security_with(capabilities=None), PRIVILEGES),
    "root": (security_with(runAsUser=0, runAsNonRoot=False), PRIVILEGES),
    "no seccomp": (security_with(seccompProfile={"type": "Unconfined"}), PRIVILEGES),
    "no AppArmor": (security_with(appArmorProfile={"type": "Unconfined"}), PRIVILEGES),
    "no confinement": (security_with(seLinuxOptions={"type": "spc_t"}), PRIVILEGES),
    "another role": (security_with(seLinuxOptions={"role": "sysadm_r"}), PRIVILEGES),
    "the container's group": (security_with(runAsGroup=0), PRIVILEGES),
    "no security at all": (container_with(securityContext=None), PRIVILEGES),
    "no labels": (metadata_with(labels=None), LABELS),
    "the hub's labels": (
        metadata_with(labels={"app": "jupyterhub", "component": "hub", "release": "jupyterhub"}),
        LABELS,
    ),
    "another hub's": (metadata_with(labels={**OURS, names.INSTALLATION: "theirs"}), LABELS),
    "one label more": (metadata_with(labels={**OURS, "app.kubernetes.io/name": "dra-spawner-service"}), LABELS),
    "another placeholder's name": (
        metadata_with(labels={**OURS, names.PLACEHOLDER_NAME: "placeholder-of-another"}),
        LABELS,
    ),
    "a server's name": (
        metadata_with(name="jupyter-ada", labels=OURS),
        "metadata.name: a placeholder's begins with placeholder-",
    ),
    "the hub's owner": (metadata_with(ownerReferences=[HUB]), OWNERS),
    "a finalizer": (metadata_with(finalizers=["example.com/forever"]), OWNERS),
    **{
        f"annotation {key}": (metadata_with(annotations={**SAFE, key: value}), ANNOTATIONS)
        for key, value in {
            "container.apparmor.security.beta.kubernetes.io/placeholder": "unconfined",
            "cdi.k8s.io/x_y": "nvidia.com/gpu=all",
            "k8s.v1.cni.cncf.io/networks": "kube-system/host",
            names.VLAN_OWNER: "user:ada",
        }.items()
    },
    "a node that must stay": (metadata_with(annotations=dict.fromkeys(SAFE, "false")), OWNERS),
    "a server's claim": (pod_with(resourceClaims=[{"name": "gpu", "resourceClaimName": "jupyter-ada-gpu"}]), CLAIMS),
    "a claim of a placeholder whose name is longer": (
        metadata_and_claim("placeholder-0123abcd", "placeholder-0123abcd-feedbeef-gpu"),
        CLAIMS,
    ),
    "the same, as its entry is called": (
        metadata_and_claim("placeholder-0123abcd", "placeholder-0123abcd-feedbeef-gpu", entry="feedbeef-gpu"),
        CLAIMS,
    ),
    "a claim that another entry has": (
        metadata_and_claim("placeholder-0123abcd-feedbeef", "placeholder-0123abcd-feedbeef-nic"),
        CLAIMS,
    ),
    "a claim of a template": (
        pod_with(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "any"}]),
        CLAIMS,
    ),
    "a priority above users'": (
        pod_with(priorityClassName="system-cluster-critical"),
        "spec.priorityClassName: a placeholder's is dra-spawner-placeholder, not 'system-cluster-critical'; if that is your "
        "placeholder_priority_class",
    ),
    "the priority of users": (
        pod_with(priorityClassName=None),
        "spec.priorityClassName: a placeholder's is dra-spawner-placeholder, not ''",
    ),
    "a long farewell": (
        pod_with(terminationGracePeriodSeconds=86400),
        "spec.terminationGracePeriodSeconds: a placeholder's is 10 at most",
    ),
    "a node of his choice": (pod_with(nodeName="node-a"), NODE_CHOICE),
    "that nobody be beside it": (pod_with(affinity={"podAntiAffinity": REQUIRED}), NODE_CHOICE),
    "that somebody be beside it": (pod_with(affinity={"podAffinity": REQUIRED}), NODE_CHOICE),
}
