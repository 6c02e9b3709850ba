"""What stands for the placeholders of one start, and the VLAN that the start holds for that.

The VLAN is taken before the claims are compiled, and written on the pod before that is created.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kubespawner import KubeSpawner
from kubespawner.slugs import safe_slug

from dra_spawner.kube.api import KubernetesApi, KubernetesError
from dra_spawner.names import VLANS_CONFIG_MAP
from dra_spawner.profiles.claim_templates import FROM_VLANS, claim_placeholders, expand_claims, vlan_numbers
from dra_spawner.profiles.claims import DeviceClaim
from dra_spawner.profiles.problems import Problem, ProfileError
from dra_spawner.profiles.templates import PLACEHOLDERS, value_problem
from dra_spawner.profiles.vlan_policy import OwnerKind, VlanPolicy, parse_vlan_policy
from dra_spawner.profiles.vlans import LeasesCorrupt, VlanRefusal, VlanRefused, vlan_owner
from dra_spawner.spawner.objects.start_objects import new_nonce
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused, refusal_of_kubernetes_error, wrong_profile
from dra_spawner.spawner.vlan_leases import VlanLeases, pod_marks, turn_of

_SLUG_CHARACTERS = 48  # as KubeSpawner has it for user names
_STATUS = {
    VlanRefusal.NO_GROUP: 403,
    VlanRefusal.NOT_MAPPED: 403,
    VlanRefusal.BUSY: 503,
    VlanRefusal.EXHAUSTED: 503,
}


@dataclass(frozen=True, slots=True)
class Lease:
    """What was taken, or may have been: no answer may have come.

    Attributes
    ----------
    server
        ``namespace/name`` of the pod.
    start
        Which start; ``None`` stands for every one of the server.
    """

    server: str
    start: str | None = None


class StartValues:
    """Values for the placeholders of one start of a server.

    Parameters
    ----------
    spawner
        Whose start it is; its ``vlans`` decide which VLAN.
    """

    def __init__(self, spawner: KubeSpawner) -> None:
        self._spawner = spawner
        self._leases = leases_of(spawner)
        self._lease: Lease | None = None
        self._labels: dict[str, str] = {}
        self._annotations: dict[str, str] = {}

    async def fill(self, claims: tuple[DeviceClaim, ...], path: str = "device_claims") -> tuple[DeviceClaim, ...]:
        """The claims with values in place of their placeholders. A VLAN is taken only if one is asked for.

        Raises
        ------
        SpawnRefused
            Where the profile is wrong, or the spawner's ``vlans``; where this user cannot have a value now, or at all.
        """
        try:
            return await self._fill(claims, path)
        except ProfileError as error:
            self._spawner.log.error("Profile refused: %s", error)
            raise wrong_profile(str(error.problems[0])) from error

    async def _fill(self, claims: tuple[DeviceClaim, ...], path: str) -> tuple[DeviceClaim, ...]:
        names = claim_placeholders(claims)
        values = self._plain_values(names - FROM_VLANS)
        if names & FROM_VLANS:
            values |= await self._vlan_values(names & FROM_VLANS, path)
        return expand_claims(claims, values, path)

    def _plain_values(self, names: Iterable[str]) -> dict[str, str | int]:
        values = {}
        for name in names:
            value = self._plain_value(name)
            if value_problem(name, value):
                rule = PLACEHOLDERS[name].rule.allowed
                sentence = f"This choice uses {{{name}}}, which must be {rule}; yours is not."
                raise SpawnRefused(sentence, RefusalReason.OPTIONS, status_code=403)
            values[name] = value
        return values

    def _plain_value(self, name: str) -> str | int:
        spawner = self._spawner
        match name:
            case "pod_name" | "namespace":
                return str(getattr(spawner, name))
            case "unescaped_username":
                return str(spawner.user.name)
            case "unescaped_servername":
                return str(spawner.name or "")
            case "userid":
                return int(spawner.user.id)
        return str(spawner._expand_user_properties(f"{{{name}}}", slug_scheme="safe"))

    async def _vlan_values(self, names: frozenset[str], path: str) -> dict[str, str | int]:
        policy = parse_vlan_policy(self._spawner.vlans)
        if policy is None:
            asked = ", ".join(f"{{{name}}}" for name in sorted(names))
            raise ProfileError([Problem(path, asked, "these placeholders only with DRASpawner.vlans set")])
        user = str(self._spawner.user.name)
        groups = {str(group.name) for group in self._spawner.user.groups} if policy.by is OwnerKind.GROUP else set()
        name = vlan_owner(policy, user, groups)
        if isinstance(name, VlanRefused):
            raise _refusal(name)
        vlan = await self._vlan(policy, name)
        values: dict[str, str | int] = {**vlan_numbers(vlan)}
        if policy.by is OwnerKind.GROUP:
            values["group"] = safe_slug(name, max_length=_SLUG_CHARACTERS)
        if name in policy.mapping:
            values |= policy.mapping[name].values
        for missing in sorted(names - values.keys()):
            raise SpawnRefused(
                f"This choice needs the {missing} that goes with a VLAN, and none is set up for {name}. "
                "An administrator can do that.",
                RefusalReason.VLAN,
                status_code=403,
            )
        return values

    async def _vlan(self, policy: VlanPolicy, name: str) -> int:
        if not policy.allocates:
            mapped = policy.mapping[name].vlan
            self._labels, _ = pod_marks(mapped, "", "")
            return mapped
        spawner = self._spawner
        server, start = f"{spawner.namespace}/{spawner.pod_name}", new_nonce()
        longest = spawner.start_timeout + spawner.k8s_api_request_retry_timeout
        until = (datetime.now(UTC) + timedelta(seconds=longest)).replace(microsecond=0)
        self._lease = Lease(server, start)
        try:
            vlan = await self._leases.acquire(policy, name, server=server, start=start, until=until)
        except KubernetesError as error:
            raise _refusal_of_error(error) from error
        except LeasesCorrupt as error:
            spawner.log.error("ConfigMap %s cannot be used: %s", VLANS_CONFIG_MAP, error)
            raise SpawnRefused(
                f"The list of VLANs in use (ConfigMap {VLANS_CONFIG_MAP}) cannot be read, "
                f"an administrator has to mend it: {error}.",
                RefusalReason.VLAN,
                status_code=503,
            ) from error
        if isinstance(vlan, VlanRefused):
            self._lease = None
            raise _refusal(vlan)
        self._labels, self._annotations = pod_marks(vlan, policy.owner(name), start)
        return vlan

    def mark(self, pod: Any) -> None:
        """Write the VLAN on the pod; last of all, so that no hook takes it away."""
        if self._labels:
            pod.metadata.labels = {**(pod.metadata.labels or {}), **self._labels}
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **self._annotations}

    @property
    def lease(self) -> Lease | None:
        """What is to be given back."""
        return self._lease


def leases_of(spawner: KubeSpawner) -> VlanLeases:
    """The account of VLANs of a spawner's hub."""
    everywhere = spawner.enable_user_namespaces
    # With a namespace for each user the account is where the hub is.
    home = spawner._namespace_default() if everywhere else spawner.namespace
    api = KubernetesApi(spawner.api.api_client, timeout_seconds=spawner.k8s_api_request_timeout)
    return VlanLeases(api, home, None if everywhere else spawner.namespace, turn=turn_of(home))


def _refusal(refused: VlanRefused) -> SpawnRefused:
    return SpawnRefused(refused.sentence, RefusalReason.VLAN, status_code=_STATUS[refused.reason])


def _refusal_of_error(error: KubernetesError) -> SpawnRefused:
    if error.status == 403:
        return SpawnRefused(
            f"JupyterHub may not keep account of VLANs in ConfigMap {VLANS_CONFIG_MAP}. "
            "An administrator can allow it with helm-values/rbac.yaml of dra_spawner. "
            f"Kubernetes says: {error.message}",
            RefusalReason.PERMISSION,
            status_code=403,
        )
    if error.conflict or error.already_exists:
        sentence = "Too many servers with VLANs start at the moment. Please try again."
        return SpawnRefused(sentence, RefusalReason.VLAN, status_code=503)
    if error.retryable:
        sentence = "Kubernetes does not answer, so no VLAN can be given. Please try again later."
        return SpawnRefused(sentence, RefusalReason.CLUSTER, status_code=503)
    return refusal_of_kubernetes_error(
        f"ConfigMap {VLANS_CONFIG_MAP}, the list of VLANs in use", error.status, error.message
    )
