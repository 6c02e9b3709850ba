"""Carrying a plan out: a few requests at once, in an order in which nothing comes to hold what goes later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from dra_spawner.kube.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.uninstall.found import Found
from dra_spawner.uninstall.plan import Plan, Release, Removal, Unmarking
from dra_spawner.uninstall.survey import LEASES, PODS, Survey, Troubles

__all__ = ["GONE_SECONDS", "Executor"]

GONE_SECONDS: Final = 60.0
"""How long an object that was deleted may take to go."""

_AT_ONCE: Final = 8
_POLL_SECONDS: Final = 0.5
_TRIES: Final = 4


class Executor:
    """Removes and takes off; what cannot be does not keep the rest.

    Attributes
    ----------
    removed, unmarked
        What was done.
    contested
        What has changed since it was found, so that it is to be decided about again.
    """

    def __init__(
        self,
        api: KubernetesApi,
        troubles: Troubles,
        progress: Callable[[str], None] = lambda text: None,
        gone_seconds: float = GONE_SECONDS,
    ) -> None:
        self.removed: list[Removal] = []
        self.unmarked: list[Unmarking] = []
        self.contested: list[Found] = []
        self._api = api
        self._troubles = troubles
        self._progress = progress
        self._gone_seconds = gone_seconds
        self._done = 0
        self._all = 0

    async def carry_out(self, plan: Plan, survey: Survey) -> None:
        """Do what is planned; returns when what was deleted is gone, or has had its time."""
        self.contested = []
        self._all = len(plan.removals) + len(plan.unmarkings) + len(plan.releases)
        self._done = 0
        pods = [each for each in plan.removals if each.object.kind == PODS]
        leases = [each for each in plan.removals if each.object.kind == LEASES]
        others = [each for each in plan.removals if each.object.kind not in (PODS, LEASES)]
        await self._each(plan.unmarkings, self._unmark)
        # A claim goes when it has no consumers; one that is deleted before its placeholder waits for that.
        await self._each(pods, self._remove)
        await self._each(others, self._remove)
        await self._each(plan.releases, self._release)
        await self._until_gone(survey, [each.object for each in self.removed])
        # While it is there, a service that stands by does not lead.
        await self._each(leases, self._remove)

    async def _each(self, items: Sequence[Any], do: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(item: Any) -> None:
            async with turns:
                try:
                    await self._persistently(do, item)
                except KubernetesError as error:
                    self._troubles.note(error)
                self._done += 1
                self._progress(f"removing, {self._done:,} of {self._all:,}")

        await asyncio.gather(*(one(item) for item in items))

    async def _persistently(self, do: Callable[[Any], Coroutine[Any, Any, None]], item: Any) -> None:
        """Again where the API server is busy: all of the requests may be repeated."""
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
        if found.is_going:
            self.removed.append(removal)
            return
        try:
            await self._api.delete(
                _path(found),
                uid=found.uid,
                resource_version=found.version if removal.as_found else None,
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
                return  # gone with its marks
            raise
        self.unmarked.append(unmarking)

    async def _release(self, release: Release) -> None:
        """Consumers are a list by uid, which a strategic merge patch changes without looking."""
        found = release.claim
        entries = [{"$patch": "delete", "uid": uid} for uid in release.consumers]
        body = {"metadata": {"uid": found.uid}, "status": {"reservedFor": entries}}
        try:
            await self._api.patch(_path(found, "status"), body, patch_type=PatchType.STRATEGIC)
        except KubernetesError as error:
            if not (error.not_found or error.other_uid or error.conflict):
                raise

    async def _until_gone(self, survey: Survey, objects: Sequence[Found]) -> None:
        """Wait until nothing of what was deleted is there; what stays is told with what holds it."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._gone_seconds
        there = list(objects)
        while there:
            try:
                there = await survey.still_there(there)
            except KubernetesError as error:
                self._troubles.note(error)
                return
            if not there or clock() > end:
                break
            self._progress(f"waiting until {len(there):,} objects are gone")
            await asyncio.sleep(_POLL_SECONDS)
        for found in there:
            holds = f"its finalizers hold it: {', '.join(found.finalizers)}" if found.finalizers else _not_ended(found)
            self._troubles.sentences.append(
                f"{found.title} was deleted and is still there after {self._gone_seconds:g} s: {holds}."
            )
        staying = {found.uid for found in there}
        self.removed = [each for each in self.removed if each.object.uid not in staying]


def _not_ended(found: Found) -> str:
    return "its node has not said that it ended" if found.kind == PODS else "nothing says why"


def _path(found: Found, subresource: str | None = None) -> str:
    kind = found.kind
    return resource_path(kind.api_version, kind.plural, found.namespace or None, found.name, subresource)
