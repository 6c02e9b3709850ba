"""Execution of a plan: a few requests at once, ordered so that no object blocks a later removal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from dra_spawner.commands.removing.found_objects import FoundObject
from dra_spawner.commands.removing.plan import Plan, Release, Removal, Unmarking
from dra_spawner.commands.removing.survey import LEASES, PODS, Failures, Survey
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, PatchType, resource_path

GONE_SECONDS: Final = 60.0
"""Time that a deleted object may take to disappear."""

_MAX_CONCURRENT: Final = 8
_POLL_SECONDS: Final = 0.5
_TRIES: Final = 4


class RemovalExecutor:
    """Deletes objects and removes labels and annotations; one failure does not stop the rest.

    Attributes
    ----------
    removed, unmarked
        Removals and unmarkings that were done.
    contested
        Objects that changed since the survey, so that they need a new decision.
    """

    def __init__(
        self,
        api: KubernetesApi,
        failures: Failures,
        progress: Callable[[str], None] = lambda text: None,
        gone_seconds: float = GONE_SECONDS,
    ) -> None:
        self.removed: list[Removal] = []
        self.unmarked: list[Unmarking] = []
        self.contested: list[FoundObject] = []
        self._api = api
        self._failures = failures
        self._progress = progress
        self._gone_seconds = gone_seconds
        self._done = 0
        self._all = 0

    async def execute(self, plan: Plan, survey: Survey) -> None:
        """Execute a plan; return when the deleted objects are gone or `gone_seconds` are over."""
        self.contested = []
        self._all = len(plan.removals) + len(plan.unmarkings) + len(plan.releases)
        self._done = 0
        pods = [each for each in plan.removals if each.object.kind == PODS]
        leases = [each for each in plan.removals if each.object.kind == LEASES]
        others = [each for each in plan.removals if each.object.kind not in (PODS, LEASES)]
        await self._each(plan.unmarkings, self._unmark)
        # A deleted claim stays until it has no consumers, so placeholders are deleted first.
        await self._each(pods, self._remove)
        await self._each(others, self._remove)
        await self._each(plan.releases, self._release)
        await self._until_gone(survey, [each.object for each in self.removed])
        # While the Lease exists, a standby replica does not lead.
        await self._each(leases, self._remove)

    async def _each(self, items: Sequence[Any], do: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        limit = asyncio.Semaphore(_MAX_CONCURRENT)

        async def one(item: Any) -> None:
            async with limit:
                try:
                    await self._with_retries(do, item)
                except KubernetesError as error:
                    self._failures.note(error)
                self._done += 1
                self._progress(f"removing, {self._done:,} of {self._all:,}")

        await all_of(asyncio.gather(*(one(item) for item in items)))

    async def _with_retries(self, do: Callable[[Any], Coroutine[Any, Any, None]], item: Any) -> None:
        """Repeat a request while the API server is busy; every request here is idempotent."""
        for left in reversed(range(_TRIES)):
            try:
                return await do(item)
            except KubernetesError as error:
                if not error.retryable or not left:
                    raise
                await asyncio.sleep(min(error.retry_after_seconds or 1.0, 10.0))
        return None

    async def _remove(self, removal: Removal) -> None:
        found = removal.object
        if found.is_terminating:
            self.removed.append(removal)
            return
        try:
            await self._api.delete(
                _path(found),
                uid=found.uid,
                resource_version=found.version if removal.only_unchanged else None,
                propagation_policy="Background",
                missing_ok=True,
            )
        except KubernetesError as error:
            if not error.conflict:
                raise
            self.contested.append(found)
        else:
            self.removed.append(removal)

    async def _unmark(self, unmarking: Unmarking) -> None:
        found = unmarking.object
        marks = {
            "labels": dict.fromkeys(unmarking.labels),
            "annotations": dict.fromkeys(unmarking.annotations),
        }
        body = {"metadata": {"uid": found.uid, **{key: value for key, value in marks.items() if value}}}
        try:
            await self._api.patch(_path(found), body, patch_type=PatchType.MERGE)
        except KubernetesError as error:
            if error.not_found or error.other_uid or error.conflict:
                return  # the object is gone, and its marks with it
            raise
        self.unmarked.append(unmarking)

    async def _release(self, release: Release) -> None:
        """Remove consumers by uid with a strategic merge patch, which needs no read before."""
        found = release.claim
        entries = [{"$patch": "delete", "uid": uid} for uid in release.consumers]
        body = {"metadata": {"uid": found.uid}, "status": {"reservedFor": entries}}
        try:
            await self._api.patch(_path(found, "status"), body, patch_type=PatchType.STRATEGIC)
        except KubernetesError as error:
            if not (error.not_found or error.other_uid or error.conflict):
                raise

    async def _until_gone(self, survey: Survey, objects: Sequence[FoundObject]) -> None:
        """Wait until deleted objects are gone; report each one that stays, and what holds it."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._gone_seconds
        staying = list(objects)
        while staying:
            try:
                staying = await survey.remaining(staying)
            except KubernetesError as error:
                self._failures.note(error)
                return
            if not staying or clock() > end:
                break
            self._progress(f"waiting until {len(staying):,} objects are gone")
            await asyncio.sleep(_POLL_SECONDS)
        for found in staying:
            holds = f"its finalizers hold it: {', '.join(found.finalizers)}" if found.finalizers else _not_ended(found)
            self._failures.sentences.append(
                f"{found.title} was deleted but still exists after {self._gone_seconds:g} s: {holds}."
            )
        staying_uids = {found.uid for found in staying}
        self.removed = [each for each in self.removed if each.object.uid not in staying_uids]


def _not_ended(found: FoundObject) -> str:
    return "its node has not reported that it ended" if found.kind == PODS else "the reason is unknown"


def _path(found: FoundObject, subresource: str | None = None) -> str:
    kind = found.kind
    return resource_path(kind.api_version, kind.plural, found.namespace or None, found.name, subresource)
