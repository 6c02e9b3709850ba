"""Who of several replicas acts: the holder of a Lease.

The rules by which a Lease is taken and kept are those of `kubernetes_asyncio.leaderelection`. What is around them there
is not used, because with it replicas could act at the same time (release 36.1): `LeaderElection.run` leaves the
leader's task running when a request fails otherwise than by an answer, or when it is cancelled itself; it goes by the
wall clock, which may jump; a request may take minutes while the Lease runs out; and it does not wait for the end
of the task before it begins another. Here

- the leader stops by itself `renew_deadline_seconds` after it last *began* a successful renewal, by a clock that does
  not jump;
- others wait `lease_seconds` after they last *saw* a change of the Lease, by such a clock, too. That is later, so there
  is a gap between one leader and the next of at least the difference, in which requests under way come to their end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
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

from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.leaderelection.electionconfig import Config
from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
from kubernetes_asyncio.leaderelection.leaderelectionrecord import LeaderElectionRecord

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path

__all__ = ["LeaderElector", "LeaseTimes", "NotLeading", "new_identity"]

log = logging.getLogger(__name__)

_MOST_TRANSITIONS: Final = 2**31 - 1
"""That the API server takes: an int32."""
"""Annotation of the Lease: where its holder answers."""


class NotLeading(Exception):
    """Something was about to be done that only the leader may do."""


_ENDS_A_TERM: Final = (NotLeading, KubernetesError)
"""Errors after which this process may be elected again."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Durations in seconds; client-go's defaults.

    Attributes
    ----------
    lease_seconds
        How long others wait after the last sign of a leader before they take its place.
    renew_deadline_seconds
        How long after the last renewal a leader goes on. What it does must come to an end within the difference to
        `lease_seconds`: no request of a leader may take longer.
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
    """A name for this process, and for no other: the pod's, and some random characters."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


class LeaderElector:
    """Takes part in the election of a leader.

    Parameters
    ----------
    api
        Its account must be allowed to ``get``, ``create`` and ``update`` leases in `namespace`.
    name
        Of the Lease.
    url
        Where this process answers the other replicas, which read it from the Lease; empty for nowhere.
    clock
        Seconds that only go forward.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        name: str,
        *,
        identity: str | None = None,
        url: str = "",
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self.identity = identity or new_identity()
        self.namespace = namespace
        self.url = url
        self._times = times or LeaseTimes()
        self._clock = clock
        self._random = random or Random()  # noqa: S311 (jitter)
        self._lock = _LeaseLock(api, namespace, name, self.identity, self._times, clock, url)
        self._election = LeaderElection(
            Config(
                self._lock,
                self._times.lease_seconds,
                self._times.renew_deadline_seconds,
                self._times.retry_seconds,
                onstarted_leading=_nothing,
                onstopped_leading=_nothing,
            )
        )
        self._leads_until = -math.inf
        self._terms = 0

    @property
    def is_leader(self) -> bool:
        """Whether this process may act at this moment."""
        return self._clock() < self._leads_until

    @property
    def leader(self) -> str:
        """Identity of the leader as last seen; empty if there is none."""
        return self._lock.holder

    @property
    def leader_url(self) -> str:
        """Where the leader answers, if that is another replica that says so; else empty."""
        return "" if self._lock.holder in ("", self.identity) else self._lock.holder_url

    @property
    def problem(self) -> str:
        """Why the Lease cannot be read or written; empty while all is well."""
        return self._lock.problem

    @property
    def terms(self) -> int:
        """How often this process became the leader."""
        return self._terms

    def require(self) -> None:
        """Call before each thing that only the leader may do.

        Raises
        ------
        NotLeading
            When this process is not the leader (any more).
        """
        if not self.is_leader:
            raise NotLeading(f"{self.identity} is not the leader")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Stand for election until cancelled, and run `lead` while this process is the leader.

        `lead` is cancelled at once when leadership is lost, and is called anew when it is won back, never before it
        has ended. If it ends by itself, leadership is given away.

        Raises
        ------
        Exception
            What `lead` failed by, after leadership was given away. `NotLeading` and `KubernetesError` only end a term.
        """
        try:
            while True:
                while not await self._try():
                    await self._pause()
                self._terms += 1
                log.info("Leader now: identity=%s lease=%s", self.identity, self._lock)
                try:
                    await self._lead(lead)
                finally:
                    self._leads_until = -math.inf
                    await self._lock.release()
                log.info("Leader no longer: identity=%s lease=%s", self.identity, self._lock)
                await self._pause()
        finally:
            self._leads_until = -math.inf

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(lead())
        renewal = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((task, renewal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if renewal.done():
                self._leads_until = -math.inf
            # Who is stopped may bring to an end what it has begun, until the last renewal is too long ago.
            for each in (renewal, task):
                each.cancel()
            # Not before it has really ended may another be elected here, or this one again.
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
                await self._try()
                if self._lock.holder not in ("", self.identity):
                    return  # somebody else took it, whatever the reason

    async def _try(self) -> bool:
        """Take the Lease, or renew it; whether it is ours now."""
        started, limit = self._clock(), self._times.grace_seconds
        # The library goes by the wall clock; what it is told there is when, by ours, the Lease was last seen to change.
        self._election.observed_time_milliseconds = int((time.time() - self._lock.age_seconds()) * 1000)
        try:
            async with asyncio.timeout(limit):
                won = await self._election.try_acquire_or_renew()
        except TimeoutError:
            self._lock.problem = f"no answer within {limit:g} s"
            return False
        except Exception as error:
            log.exception("The Lease cannot be read or written: lease=%s", self._lock)
            self._lock.problem = f"{type(error).__name__}: {error}"
            return False
        if won:
            self._leads_until = started + self._times.renew_deadline_seconds
        return won

    async def _pause(self) -> None:
        await asyncio.sleep(self._times.retry_seconds * self._random.uniform(1.0, 1.2))


class _LeaseLock:
    """The Lease, for the library: errors become answers, and who is too early is refused."""

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes,
        clock: Callable[[], float],
        url: str = "",
    ) -> None:
        self.name, self.namespace, self.identity = name, namespace, identity
        self.problem = ""
        self.holder = ""
        self.holder_url = ""
        self._url = url
        self._api = api
        self._times = times
        self._clock = clock
        self._lease: JsonObject = {}
        self._seen: tuple[Any, ...] = ()
        self._seen_at = -math.inf
        self._free_at = -math.inf

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def age_seconds(self) -> float:
        """How long ago the Lease was last seen to change; at most a day."""
        return min(self._clock() - self._seen_at, 86400.0)

    async def get(self, name: str, namespace: str) -> tuple[bool, LeaderElectionRecord | ApiException | None]:
        try:
            lease = await self._api.get(self._path(name))
        except KubernetesError as error:
            if error.not_found:
                self._see({})
                return False, _api_exception(404)
            self._note(error)
            return False, _api_exception(error.status or 503)
        self._see(lease)
        spec = _spec(lease)
        times = spec.get("acquireTime"), spec.get("renewTime")
        return True, LeaderElectionRecord(self.holder or None, str(spec.get("leaseDurationSeconds", "")), *times)

    async def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        if self._clock() < self._free_at:
            return False  # somebody deleted it, of which its holder may know nothing yet
        metadata = self._with_url({"name": name})
        body = {"apiVersion": names.COORDINATION_API, "kind": "Lease", "metadata": metadata, "spec": self._new_spec()}
        return await self._write(lambda: self._api.create(self._path(), body))

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        if self._clock() < self._free_at:
            return False
        body = {**self._lease, "metadata": self._with_url(self._lease["metadata"]), "spec": self._new_spec()}
        return await self._write(lambda: self._api.replace(self._path(name), body))

    async def release(self) -> None:
        """Give the Lease away, if it is still ours, so that others need not wait for its end."""
        with contextlib.suppress(KubernetesError, TimeoutError):
            async with asyncio.timeout(self._times.grace_seconds):
                lease = await self._api.get(self._path(self.name))
                if _holder(lease) == self.identity:
                    spec = {**_spec(lease), "holderIdentity": "", "leaseDurationSeconds": 1}
                    self._see(await self._api.replace(self._path(self.name), {**lease, "spec": spec}))

    async def _write(self, request: Callable[[], Awaitable[JsonObject]]) -> bool:
        try:
            self._see(await request())
        except KubernetesError as error:
            if not (error.conflict or error.already_exists):  # another was faster, which is nothing wrong
                self._note(error)
            return False
        return True

    def _with_url(self, metadata: JsonObject) -> JsonObject:
        annotations = {
            key: value for key, value in (metadata.get("annotations") or {}).items() if key != names.LEADER_URL
        }
        if self._url:
            annotations[names.LEADER_URL] = self._url
        return {**metadata, "annotations": annotations}

    def _new_spec(self) -> JsonObject:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        before = _spec(self._lease)
        spec: JsonObject = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._times.lease_seconds),
            "renewTime": now,
            "acquireTime": now,
            # A count that somebody else wrote may be the greatest that there is.
            "leaseTransitions": min(before.get("leaseTransitions") or 0, _MOST_TRANSITIONS - 1),
        }
        if self.holder == self.identity:
            spec["acquireTime"] = before.get("acquireTime") or now
        elif before:
            spec["leaseTransitions"] += 1
        return spec

    def _see(self, lease: JsonObject) -> None:
        """Remember a state of the Lease, when it was first seen, and until when its holder may act."""
        seen = (lease.get("metadata", {}).get("resourceVersion"), _holder(lease))
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
            if _holder(lease) not in ("", self.identity):
                stated = _spec(lease).get("leaseDurationSeconds")
                lasts = max(self._times.lease_seconds, stated if isinstance(stated, int) else 0)
                self._free_at = self._seen_at + lasts
            elif lease:
                self._free_at = -math.inf
        self._lease, self.holder, self.problem = lease, _holder(lease), ""
        self.holder_url = (lease.get("metadata", {}).get("annotations") or {}).get(names.LEADER_URL, "")

    def _note(self, error: KubernetesError) -> None:
        if error.status == 403:
            rule = f'{{apiGroups: ["{names.COORDINATION_GROUP}"], resources: [leases], verbs: [get, create, update]}}'
            problem = f"its account lacks the rule {rule} in namespace {self.namespace} ({error.message})"
        else:
            problem = str(error)
        if problem != self.problem:
            log.warning("The Lease cannot be read or written: lease=%s problem=%s", self, problem)
        self.problem = problem

    def _path(self, name: str | None = None) -> str:
        return resource_path(names.COORDINATION_API, "leases", self.namespace, name)


def _spec(lease: JsonObject) -> JsonObject:
    spec: JsonObject = lease.get("spec") or {}
    return spec


def _holder(lease: JsonObject) -> str:
    return _spec(lease).get("holderIdentity") or ""


def _api_exception(status: int) -> ApiException:
    """As the library expects it, which looks into the body."""
    exception = ApiException(status=status, reason="")
    exception.body = json.dumps({"code": status}).encode()
    return exception


async def _nothing() -> None:
    """The library insists on callbacks."""


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
