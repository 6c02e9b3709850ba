"""The part of `DRASpawner` that knows values for placeholders, and which VLAN is whose.

A VLAN that was taken is given back when the start has failed or the server has stopped, once the pod is gone. That goes
on in the background while the API server does not answer; what is missed all the same, the sweep makes up for.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any, ClassVar

from kubernetes_asyncio.client.exceptions import ApiException
from kubespawner import KubeSpawner
from traitlets import Dict

from dra_spawner import names
from dra_spawner.kube.api import KubernetesError
from dra_spawner.profiles.claims import DeviceClaim
from dra_spawner.profiles.problems import Problem, ProfileError
from dra_spawner.profiles.vlan_policy import parse_vlan_policy
from dra_spawner.profiles.vlans import LeasesCorrupt
from dra_spawner.spawner.start_values import Lease, StartValues, leases_of

__all__ = ["VlanSpawner"]

#: How long a stop waits until a VLAN is given back, before that goes on in the background.
_RELEASE_WAIT_SECONDS = 3.0
#: For how long that is tried; after that the sweep does it.
_RELEASE_TRIES_SECONDS = 600.0
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 30.0


class VlanSpawner(KubeSpawner):
    """KubeSpawner with ``vlans`` and the placeholders of profiles."""

    vlans = Dict(
        config=True,
        help="""
        Which VLAN a user or a group has: the value of ``{vlan}`` in claims. For example::

            c.DRASpawner.vlans = {
                "by": "group",                   # or "user", the default
                "groups": ["physics", "maths"],  # the first of these that the user is in counts
                "mapping": {"physics": 42},      # set aside; or {"physics": {"id": 42, "address": "10.42.0.7/24"}}
                "range": "100-199",              # for the others: none is given to two at once
                "exclude": [150],
            }

        Those of the range are kept account of in a ConfigMap, and are free again when the last server that uses them
        has stopped. docs/vlans.md has all there is.
        """,
    )

    #: Sweepers by namespace, as DRASpawner's own.
    _vlan_sweepers: ClassVar[dict[str | None, asyncio.Task[None]]] = {}
    #: VLANs on their way back; kept so that the tasks are not garbage-collected.
    _releasing: ClassVar[set[asyncio.Task[None]]] = set()

    _values: StartValues | None = None
    _start_under_way = False
    _pod_may_come = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._configured_vlans = copy.deepcopy(self.vlans)

    def clear_state(self) -> None:
        """Forget what the last start's profile merged into the configured VLANs."""
        super().clear_state()
        self.vlans = copy.deepcopy(self._configured_vlans)

    def vlans_problems(self) -> list[Problem]:
        """What is wrong in the static configuration of ``vlans``."""
        try:
            parse_vlan_policy(self.vlans)
        except ProfileError as error:
            return list(error.problems)
        return []

    async def fill_placeholders(self, claims: tuple[DeviceClaim, ...], path: str) -> tuple[DeviceClaim, ...]:
        """The claims as this start has them, without placeholders; see `StartValues.fill`."""
        self._values = values = StartValues(self)
        filled = await values.fill(claims, path)
        if values.lease is not None:
            self._sweep_vlans_from_now_on()
        return filled

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        """Write the VLAN on the pod, here where no hook comes any more, and create it."""
        if self._values is not None:
            self._values.mark(pod)
        self._pod_may_come = True
        try:
            created = bool(await super()._make_create_pod_request(pod, request_timeout))
        except ApiException as error:
            self._pod_may_come = error.status is None or error.status >= 500
            raise
        self._pod_may_come = not created
        return created

    async def _start(self) -> Any:
        self._values, self._start_under_way, self._pod_may_come = None, True, False
        try:
            return await super()._start()
        except BaseException:
            # The pod, if there is one, goes after this; the VLAN waits for that. Where no answer came whether the pod
            # was made, it may be made any moment: then the sweep frees the VLAN, when that cannot be any more.
            if self._values is not None and self._values.lease is not None and not self._pod_may_come:
                self._give_back(self._values.lease)
            raise
        finally:
            self._start_under_way = False

    async def stop(self, now: bool = False) -> None:
        """Stop the pod, and give its VLAN back."""
        pod = self.pod_reflector and self.pod_reflector.pods.get(f"{self.namespace}/{self.pod_name}")
        leased = bool(pod) and names.VLAN_LEASE in (pod["metadata"].get("annotations") or {})
        leased = leased or bool(self._values and self._values.lease)
        await super().stop(now)
        # KubeSpawner also stops an older pod in the middle of a start, which has its VLAN by then.
        if leased and not self._start_under_way:
            self._values = None
            await asyncio.wait(
                {self._give_back(Lease(f"{self.namespace}/{self.pod_name}"))}, timeout=_RELEASE_WAIT_SECONDS
            )

    def _give_back(self, lease: Lease) -> asyncio.Task[None]:
        task = asyncio.create_task(self._release(lease))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)
        return task

    async def _release(self, lease: Lease) -> None:
        loop = asyncio.get_running_loop()
        end, wait = loop.time() + _RELEASE_TRIES_SECONDS, _FIRST_WAIT_SECONDS
        while loop.time() < end:
            try:
                if await leases_of(self).release(lease.server, lease.start):
                    return
            except KubernetesError as error:
                self.log.warning("Could not give back the VLAN of %s, trying again: %s", lease.server, error)
            except LeasesCorrupt as error:
                self.log.error(
                    "ConfigMap %s cannot be used; its VLANs are freed once it is mended: %s",
                    names.VLANS_CONFIG_MAP,
                    error,
                )
                return
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
        self.log.error("Gave up giving back the VLAN of %s; the sweep will", lease.server)

    def begin_sweeping_vlans(self) -> None:
        """One sweep for the hub, or for its namespace, if its configuration has VLANs to give."""
        if not self.vlans_problems():
            policy = parse_vlan_policy(self.vlans)
            if policy is not None and policy.allocates:
                self._sweep_vlans_from_now_on()

    def _sweep_vlans_from_now_on(self) -> None:
        where = None if self.enable_user_namespaces else self.namespace
        running = self._vlan_sweepers.get(where)
        if running is None or running.done() or running.get_loop() is not asyncio.get_running_loop():
            self._vlan_sweepers[where] = asyncio.create_task(self._sweep_vlans_for_ever())

    async def _sweep_vlans_for_ever(self) -> None:
        while True:
            try:
                await self._sweep_vlans()
            except Exception:
                self.log.exception("Could not compare the VLANs in use with the servers")
            await asyncio.sleep(self.leftovers_sweep_interval_seconds)

    async def _sweep_vlans(self) -> None:
        """Free what a hub that was killed has left; enter pods that are missing."""
        try:
            done = await leases_of(self).reconcile()
        except LeasesCorrupt as error:
            self.log.error(
                "ConfigMap %s cannot be used, an administrator has to mend it: %s", names.VLANS_CONFIG_MAP, error
            )
            return
        except KubernetesError as error:
            self.log.warning("Could not compare the VLANs in use with the servers: %s", error)
            return
        if done:
            self.log.info("VLANs compared with servers: freed %s, entered %s", list(done.freed), list(done.added))
        for vlan in done.contested:
            self.log.error(
                "VLAN %d is used by servers of several owners; see ConfigMap %s", vlan, names.VLANS_CONFIG_MAP
            )
