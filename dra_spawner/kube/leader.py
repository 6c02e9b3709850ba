"""Leader election: of several replicas, the holder of a Lease acts.

The rule is that of client-go (``tools/leaderelection``):

- Acquire: a candidate takes a Lease without a holder, or a Lease that stayed unchanged for its stated duration.
  Time counts from when this process saw the change, by its own monotonic clock; times in the Lease are for people.
- Every write replaces the version that was read just before. Of two candidates, the API server refuses the second.
- Renew: the leader renews the Lease every `retry_seconds`. It stops by itself `renew_deadline_seconds` after it *began*
  its last successful renewal. Others wait for `lease_seconds`, so two terms never overlap: requests under way have the
  difference to end in.
- Release: a leader that ends clears the holder, so that the next one starts at once.

In two points it is stricter. A deleted Lease counts as held for the duration that it stated. The work of
a leader has ended before its process is a candidate again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path

log = logging.getLogger(__name__)

_MAX_TRANSITIONS: Final = 2**31 - 1
"""The greatest count that the API server takes: an int32."""
_RULE: Final = f'{{apiGroups: ["{names.COORDINATION_GROUP}"], resources: [leases], verbs: [get, create, update]}}'


class NotLeading(Exception):
    """An action that only the leader may perform was requested of another replica."""


_ENDS_A_TERM: Final = (NotLeading, KubernetesError)
"""Errors after which this process may be elected again."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Durations in seconds; the defaults are client-go's.

    Attributes
    ----------
    lease_seconds
        How long other replicas wait after the leader's last renewal before one takes its place.
    renew_deadline_seconds
        How long a leader acts after it began its last successful renewal. No request of a leader may take longer than
        the difference to `lease_seconds`.
    retry_seconds
        Between two tries.
    """

    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    @property
    def grace_seconds(self) -> float:
        """The longest that a request of a leader may take."""
        return self.lease_seconds - self.renew_deadline_seconds


def new_identity() -> str:
    """A name for this process alone: the pod's name and random characters."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


class LeaderElector:
    """Takes part in the election of a leader.

    Parameters
    ----------
    api
        Its account must be allowed to ``get``, ``create`` and ``update`` leases in `namespace`.
    identity
        Name of this process in the Lease; by default `new_identity`.
    clock
        Monotonic seconds.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        name: str,
        *,
        identity: str | None = None,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self.identity = identity or new_identity()
        self._api = api
        self._namespace, self._name = namespace, name
        self._times = times or LeaseTimes()
        self._clock = clock
        self._random = random or Random()  # noqa: S311 (jitter)
        self._holder = ""
        self._seen: tuple[Any, ...] = ()
        self._held_until = -math.inf
        """Until then another process may hold the Lease."""
        self._leads_until = -math.inf
        self._terms = 0
        self._problem = ""

    @property
    def is_leader(self) -> bool:
        """Whether this process may act at this moment."""
        return self._clock() < self._leads_until

    @property
    def leader(self) -> str:
        """Identity of the leader as last seen; empty if there is none."""
        return self._holder

    @property
    def problem(self) -> str:
        """Why the Lease cannot be read or written; empty while it can."""
        return self._problem

    @property
    def terms(self) -> int:
        """How often this process became the leader."""
        return self._terms

    def require(self) -> None:
        """Check before each action that only the leader may perform.

        Raises
        ------
        NotLeading
            When this process is not the leader.
        """
        if not self.is_leader:
            raise NotLeading(f"{self.identity} is not the leader")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Stand for election until cancelled, and run `lead` while this process is the leader.

        `lead` is cancelled when leadership is lost. It is called again when leadership is won again, never before the
        last call has ended. When it ends by itself, the Lease is released.

        Raises
        ------
        Exception
            The error of `lead`, after the Lease was released. `NotLeading` and `KubernetesError` only end a term.
        """
        try:
            while True:
                while not await self.try_acquire_or_renew():
                    await self._pause()
                self._terms += 1
                log.info("Leader now: identity=%s lease=%s/%s", self.identity, self._namespace, self._name)
                try:
                    await self._lead(lead)
                finally:
                    self._leads_until = -math.inf
                    await self._release()
                log.info("Leader no longer: identity=%s lease=%s/%s", self.identity, self._namespace, self._name)
                await self._pause()
        finally:
            self._leads_until = -math.inf

    async def try_acquire_or_renew(self) -> bool:
        """Acquire the Lease, or renew it: one try.

        Returns
        -------
        bool
            Whether this process holds the Lease now. Errors are logged and kept in `problem`.
        """
        started, limit = self._clock(), self._times.grace_seconds
        try:
            async with asyncio.timeout(limit):
                won = await self._acquire_or_renew()
        except TimeoutError:
            self._note_problem(f"no answer within {limit:g} s")
            return False
        except KubernetesError as error:
            lacks = f"its account lacks the rule {_RULE} in namespace {self._namespace} ({error.message})"
            self._note_problem(lacks if error.status == 403 else str(error))
            return False
        except Exception as error:
            log.exception("The Lease cannot be read or written: lease=%s/%s", self._namespace, self._name)
            self._problem = f"{type(error).__name__}: {error}"
            return False
        self._problem = ""
        if won:
            self._leads_until = started + self._times.renew_deadline_seconds
        return won

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((task, renewal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if renewal.done():
                self._leads_until = -math.inf
            # Cancelled work may finish a request under way until the last renewal is too long ago.
            for each in (renewal, task):
                each.cancel()
            # Wait for its end: until then neither this process nor another may be elected.
            results = await _ended(renewal, task)
        for result in results:
            if isinstance(result, Exception):
                log.error("What the leader does has failed.", exc_info=result)
        unexpected = [each for each in results if isinstance(each, Exception) and not isinstance(each, _ENDS_A_TERM)]
        if unexpected:
            raise unexpected[0]

    async def _renew(self) -> None:
        """Renew the Lease until that has not succeeded for too long."""
        while self.is_leader:
            left = self._leads_until - self._clock()
            await asyncio.sleep(min(self._times.retry_seconds, left))
            if self.is_leader:
                await self.try_acquire_or_renew()
                if self._holder not in ("", self.identity):
                    return  # another process took it, for whatever reason

    async def _pause(self) -> None:
        await asyncio.sleep(self._times.retry_seconds * self._random.uniform(1.0, 1.2))

    async def _acquire_or_renew(self) -> bool:
        try:
            lease = await self._api.get(self._path(self._name))
        except KubernetesError as error:
            if not error.not_found:
                raise
            lease = {}
        self._observe(lease)
        if self._clock() < self._held_until:
            return False
        spec = self._new_spec(_spec(lease))
        try:
            if lease:
                # With its resourceVersion: refused if another process has written meanwhile.
                written = await self._api.replace(self._path(self._name), {**lease, "spec": spec})
            else:
                metadata = {"name": self._name, "labels": {names.MANAGED_BY: names.MANAGER}}
                new = {"apiVersion": names.COORDINATION_API, "kind": "Lease", "metadata": metadata, "spec": spec}
                written = await self._api.create(self._path(), new)
        except KubernetesError as error:
            if error.conflict or error.already_exists:
                return False  # another process was faster
            raise
        self._observe(written)
        return True

    async def _release(self) -> None:
        """Clear the holder if it is still this process, so that others need not wait."""
        with contextlib.suppress(KubernetesError, TimeoutError):
            async with asyncio.timeout(self._times.grace_seconds):
                while _holder(lease := await self._api.get(self._path(self._name))) == self.identity:
                    spec = {**_spec(lease), "holderIdentity": "", "leaseDurationSeconds": 1}
                    try:
                        self._observe(await self._api.replace(self._path(self._name), {**lease, "spec": spec}))
                        return
                    except KubernetesError as error:
                        # A renewal that was cancelled may still have been carried out meanwhile.
                        if not error.conflict:
                            raise

    def _observe(self, lease: JsonObject) -> None:
        """Remember the holder, and when the Lease was first seen in this version.

        Parameters
        ----------
        lease
            Empty if there is none.
        """
        holder = _holder(lease)
        seen = lease.get("metadata", {}).get("resourceVersion"), holder
        if seen != self._seen:
            self._seen = seen
            if holder not in ("", self.identity):
                stated = _spec(lease).get("leaseDurationSeconds")
                lasts = max(self._times.lease_seconds, stated if isinstance(stated, int) else 0)
                self._held_until = self._clock() + lasts
            elif lease:
                self._held_until = -math.inf
        self._holder = holder

    def _new_spec(self, before: JsonObject) -> JsonObject:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        # A count that another writer set may be the greatest that there is.
        transitions = min(before.get("leaseTransitions") or 0, _MAX_TRANSITIONS - 1)
        is_renewal = before.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._times.lease_seconds),
            "renewTime": now,
            "acquireTime": (is_renewal and before.get("acquireTime")) or now,
            "leaseTransitions": transitions + 1 if before and not is_renewal else transitions,
        }

    def _note_problem(self, problem: str) -> None:
        if problem != self._problem:
            log.warning(
                "The Lease cannot be read or written: lease=%s/%s problem=%s", self._namespace, self._name, problem
            )
        self._problem = problem

    def _path(self, name: str | None = None) -> str:
        return resource_path(names.COORDINATION_API, "leases", self._namespace, name)


def _spec(lease: JsonObject) -> JsonObject:
    spec: JsonObject = lease.get("spec") or {}
    return spec


def _holder(lease: JsonObject) -> str:
    return _spec(lease).get("holderIdentity") or ""


async def _ended(*tasks: asyncio.Future[None]) -> list[BaseException | None]:
    """Wait for tasks that were cancelled, even if this one is cancelled meanwhile."""
    waiting = asyncio.gather(*tasks, return_exceptions=True)
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return waiting.result()
