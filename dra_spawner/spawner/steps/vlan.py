"""Step: acquire a VLAN for a start whose claims need one, and release it.

The VLAN is acquired before the claims are compiled, and written to the pod before its creation. It is released when the
pod is gone after a failed attempt or a stop, in the background if the API server does not answer. A sweep frees VLANs
that were not released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from logging import Logger
from typing import Any, Final

from kubespawner.slugs import safe_slug

from dra_spawner import names
from dra_spawner.common.project_links import where
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.names import VLANS_CONFIG_MAP
from dra_spawner.profiles.compiler.claim_templates import FROM_VLANS, vlan_numbers
from dra_spawner.profiles.compiler.vlan_policy import OwnerKind, VlanPolicy, parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import LeasesCorrupt, VlanRefusal, VlanRefused, vlan_owner
from dra_spawner.profiles.syntax.problems import Problem, ProfileError
from dra_spawner.spawner.accounts.vlan_leases import VlanLeases, pod_marks, vlan_lock
from dra_spawner.spawner.hub_parts.hub_wide import CLEAN_UP_WAIT_SECONDS, retry_until_done, run_periodically, this_hub
from dra_spawner.spawner.objects.start_objects import new_nonce
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused, refusal_of_kubernetes_error, wrong_profile
from dra_spawner.spawner.steps.attempt import Attempt, CreationOutcome, Step

_SLUG_CHARACTERS: Final = 48  # as KubeSpawner has it for user names
_STATUS: Final = {
    VlanRefusal.NO_GROUP: 403,
    VlanRefusal.NOT_MAPPED: 403,
    VlanRefusal.BUSY: 503,
    VlanRefusal.EXHAUSTED: 503,
}


@dataclass(frozen=True, slots=True)
class _Lease:
    """A VLAN that was acquired, or may have been if there was no response.

    Attributes
    ----------
    server
        ``namespace/name`` of the pod.
    start
        Nonce of the start.
    """

    server: str
    start: str


class Vlan(Step):
    """Gives an attempt the VLAN of its user or group."""

    def __init__(self, attempt: Attempt, policy: VlanPolicy, names: frozenset[str]) -> None:
        super().__init__(attempt)
        self._policy = policy
        self._names = names
        self._lease: _Lease | None = None
        self._labels: dict[str, str] = {}
        self._annotations: dict[str, str] = {}
        self._pod_may_exist = False

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if the claims have template variables for a VLAN."""
        names = attempt.variables & FROM_VLANS
        if not names:
            return None
        try:
            policy = parse_vlan_policy(attempt.spawner.vlans)
            if policy is None:
                asked = ", ".join(f"{{{name}}}" for name in sorted(names))
                raise ProfileError([Problem(attempt.path, asked, "these variables only with DRASpawner.vlans set")])
        except ProfileError as error:
            attempt.spawner.log.error("Profile refused: %s", error)
            raise wrong_profile(str(error.problems[0])) from error
        return cls(attempt, policy, names)

    async def load(self) -> None:
        """Find or acquire the VLAN.

        Raises
        ------
        SpawnRefused
            If this user can have no VLAN, or none is free.
        """
        policy, spawner = self._policy, self.spawner
        groups = set(self.server.user_groups) if policy.by is OwnerKind.GROUP else set()
        name = vlan_owner(policy, str(spawner.user.name), groups)
        if isinstance(name, VlanRefused):
            raise _refusal(name)
        vlan = await self._vlan(name)
        values: dict[str, str | int] = {**vlan_numbers(vlan)}
        if policy.by is OwnerKind.GROUP:
            values["group"] = safe_slug(name, max_length=_SLUG_CHARACTERS)
        if name in policy.mapping:
            values |= policy.mapping[name].values
        for missing in sorted(self._names - values.keys()):
            raise SpawnRefused(
                f"This choice needs the {missing} of a VLAN, and none is configured for {name}. "
                "Please tell your administrator.",
                RefusalReason.VLAN,
                status_code=403,
            )
        self.attempt.values |= values

    async def _vlan(self, name: str) -> int:
        policy, server = self._policy, self.server
        if not policy.allocates:
            mapped = policy.mapping[name].vlan
            self._labels, _ = pod_marks(mapped, "", "")
            return mapped
        start = new_nonce()
        until = (datetime.now(UTC) + server.longest_start).replace(microsecond=0)
        self._lease = _Lease(server.pod_key, start)
        try:
            vlan = await leases_of(server).acquire(policy, name, server=server.pod_key, start=start, until=until)
        except KubernetesError as error:
            raise _refusal_of_error(error, self.log) from error
        except LeasesCorrupt as error:
            self.log.error("ConfigMap %s cannot be used: %s", VLANS_CONFIG_MAP, error)
            raise SpawnRefused(
                "The list of VLANs in use is damaged. Please tell your administrator.",
                RefusalReason.VLAN,
                status_code=503,
            ) from error
        if isinstance(vlan, VlanRefused):
            self._lease = None
            raise _refusal(vlan)
        self._labels, self._annotations = pod_marks(vlan, policy.owner(name), start)
        _sweep_from_now_on(server)
        return vlan

    async def prepare_request(self, pod: Any) -> bool:
        """Write the VLAN to the pod, after all hooks."""
        pod.metadata.labels = {**(pod.metadata.labels or {}), **self._labels}
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), **self._annotations}
        return True

    def requested(self, outcome: CreationOutcome) -> None:
        """Record whether the pod may exist although there was no response."""
        self._pod_may_exist = outcome is CreationOutcome.UNKNOWN

    def undo(self) -> None:
        """Release the VLAN in the background when the pod is gone.

        Without a response to the pod's creation the pod may still appear; then the sweep frees the VLAN later.
        """
        if self._lease is not None and not self._pod_may_exist:
            _give_back(self.server, self._lease)
            self._lease = None

    @classmethod
    def before_stop(cls, attempt: Attempt) -> Callable[[], Awaitable[object]] | None:
        """Return the release of the VLAN of the pod and of the running attempt; None if they have none.

        No other start is released: this may go on in the background when the server's next start has begun.
        """
        pod = attempt.server.pod()
        of_pod = (pod["metadata"].get("annotations") or {}).get(names.VLAN_LEASE) if pod else None
        step = attempt.step(cls)
        leases = {_Lease(attempt.server.pod_key, of_pod)} if of_pod else set()
        if step is not None and step._lease is not None:
            leases.add(step._lease)
        return partial(_give_all_back, attempt.server, leases) if leases else None


async def _give_all_back(server: ServerContext, leases: Collection[_Lease]) -> None:
    await asyncio.wait({_give_back(server, each) for each in leases}, timeout=CLEAN_UP_WAIT_SECONDS)


def _give_back(server: ServerContext, lease: _Lease) -> asyncio.Task[None]:
    async def release() -> bool:
        try:
            return await leases_of(server).release(lease.server, lease.start)
        except LeasesCorrupt as error:
            server.log.error(
                "ConfigMap %s cannot be used; its VLANs are freed when it is repaired: %s", VLANS_CONFIG_MAP, error
            )
            return True

    return this_hub().begin(
        retry_until_done(release, f"give back the VLAN of {lease.server}", server.log), "return of a VLAN"
    )


def leases_of(server: ServerContext) -> VlanLeases:
    """Return the list of VLANs of a server's hub."""
    # If each user has a namespace, the list is in the hub's namespace.
    namespace = server.servers_namespace or server.hub_namespace
    return VlanLeases(server.kubernetes, namespace, server.servers_namespace, turn=vlan_lock(namespace))


def _refusal(refused: VlanRefused) -> SpawnRefused:
    return SpawnRefused(refused.sentence, RefusalReason.VLAN, status_code=_STATUS[refused.reason])


def _refusal_of_error(error: KubernetesError, log: Logger) -> SpawnRefused:
    if error.status == 403:
        rules = where("helm-values/rbac.yaml")
        log.error("The hub may not write ConfigMap %s (%s): %s", VLANS_CONFIG_MAP, rules, error.message)
        sentence = "JupyterHub lacks a right in the cluster to assign VLANs. Please tell your administrator."
        return SpawnRefused(sentence, RefusalReason.PERMISSION, status_code=403)
    if error.conflict or error.already_exists:
        sentence = "Too many servers with VLANs start at the moment. Please try again."
        return SpawnRefused(sentence, RefusalReason.VLAN, status_code=503)
    if error.retryable:
        sentence = "The cluster does not answer, so no VLAN can be assigned. Please try again later."
        return SpawnRefused(sentence, RefusalReason.CLUSTER, status_code=503)
    return refusal_of_kubernetes_error(f"ConfigMap {VLANS_CONFIG_MAP}", error.status, error.message, log)


def begin_sweeping_vlans(server: ServerContext) -> None:
    """Begin the sweep of VLANs, once in the hub or in its namespace, if the configuration has a range of VLANs."""
    try:
        policy = parse_vlan_policy(server.spawner.vlans)
    except ProfileError:
        return
    if policy is not None and policy.allocates:
        _sweep_from_now_on(server)


def _sweep_from_now_on(server: ServerContext) -> None:
    this_hub().run_once(
        ("sweep of VLANs", server.servers_namespace),
        lambda: run_periodically(
            partial(_sweep, server),
            lambda: float(server.spawner.leftovers_sweep_interval_seconds),
            "Could not compare the VLANs in use with the servers",
            server.log,
        ),
    )


async def _sweep(server: ServerContext) -> None:
    """Free VLANs that a killed hub has left, and add VLANs of pods that are not in the list."""
    try:
        done = await leases_of(server).reconcile()
    except LeasesCorrupt as error:
        server.log.error("ConfigMap %s cannot be used until an administrator repairs it: %s", VLANS_CONFIG_MAP, error)
        return
    except KubernetesError as error:
        server.log.warning("Could not compare the VLANs in use with the servers: %s", error)
        return
    if done:
        server.log.info("VLANs compared with servers: freed %s, added %s", list(done.freed), list(done.added))
    for vlan in done.contested:
        server.log.error("VLAN %d is used by servers of several owners; see ConfigMap %s", vlan, VLANS_CONFIG_MAP)
