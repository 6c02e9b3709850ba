"""What users see of a start: the progress page, and the page of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakSet

from jupyterhub.utils import url_escape_path, url_path_join

from dra_spawner.common.json_types import JsonObject
from dra_spawner.placeholders.planner.targets.shapes import device_classes
from dra_spawner.spawner.availability.shown import usual_sentence
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.progress.start_messages import StartMessages
from dra_spawner.spawner.progress.start_progress import (
    CLUSTER_IS_SILENT,
    SHORT_SECONDS,
    StartProgress,
    elapsed,
    longer_waiting,
    queue_sentence,
    waiting_since,
)
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.spawn_form import SpawnForm
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.user_pages.failure import failure_html

if TYPE_CHECKING:
    from dra_spawner.spawner.devices.reader import Reading
    from dra_spawner.spawner.free_choices import FreeChoice, OtherChoices

#: Seconds between counts of the servers that wait.
_COUNT_SECONDS = 2.0
#: Age in seconds of what the page says that would start now.
_FREE_SECONDS = 5.0
#: Seconds that the page waits for what the service says of the choice.
_USUAL_SECONDS = 0.3
#: Seconds after the clean-up that the search for what would start now may take in any case.
_SEARCH_SECONDS = 1.0
#: Seconds before JupyterHub's own limit at which the search ends, so that JupyterHub still gets the answer.
_TELLING_SECONDS = 0.5
#: Status of refusals for which another try can help.
_TRY_AGAIN_LATER = 503


@dataclass
class _Waiting:
    """Servers of this hub that wait for devices.

    Attributes
    ----------
    starting
        Pages of servers that may be starting.
    since
        See `waiting_since`.
    """

    starting: WeakSet[StartPage] = field(default_factory=WeakSet)
    since: Mapping[frozenset[str], Sequence[str]] = field(default_factory=dict)
    count_again_at: float = 0.0


class StartPage:
    """The pages that explain the start of one server.

    Attributes
    ----------
    progress
        How far the running or last start is, or was.
    event_before
        Uid of the last event before this start.
    """

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._spawner = server.spawner
        self.progress = self._new_progress()
        self.event_before: str | None = None
        self._others: OtherChoices | None = None
        self._free: Reading[list[FreeChoice]] | None = None
        self._others_are_first = False

    def _new_progress(self) -> StartProgress:
        return StartProgress(StartMessages(self._spawner.namespace, self._spawner.pod_name))

    def begin(self) -> StartProgress:
        """Begin the page of a new start; the start publishes its progress there."""
        self.progress = self._new_progress()
        self.progress.began = asyncio.get_running_loop().time()
        self._others = self._free = None
        self._others_are_first = False
        this_hub().shared(_Waiting, _Waiting).starting.add(self)
        return self.progress

    def last_event(self, uid: str | None) -> None:
        """Remember the last event before this start; KubeSpawner shows the events after it."""
        # In a second attempt the last one may be a message, which is not in the list of events.
        if not self.progress.messages.is_own(uid):
            self.event_before = uid

    # The progress page

    def has_ended(self) -> bool:
        """Whether the start has ended."""
        return self._spawner._start_future is not None and self._spawner._start_future.done()

    def line(self) -> str:
        """The sentence of the moment."""
        messages, began = self.progress.messages, self.progress.began
        if not began:
            return messages.line()
        seconds = asyncio.get_running_loop().time() - began
        more = CLUSTER_IS_SILENT if self._server.cluster_is_silent() else self._queue_sentence()
        return messages.line(more, elapsed(seconds, self._spawner.start_timeout))

    def _queue_sentence(self) -> str:
        pod = self.progress.pod
        if not self.progress.waiting_for or (pod.get("spec") or {}).get("nodeName"):
            return ""
        since = (pod.get("metadata") or {}).get("creationTimestamp")
        if not since:
            return ""
        return queue_sentence(longer_waiting(self._waiting_servers(), self._device_classes(), since))

    def _waiting_servers(self) -> Mapping[frozenset[str], Sequence[str]]:
        """When the pods that wait for devices were created; counted once for all open pages."""
        now = asyncio.get_running_loop().time()
        waiting = this_hub().shared(_Waiting, _Waiting)
        if now >= waiting.count_again_at:
            waiting.starting = WeakSet(each for each in waiting.starting if not each.has_ended())
            waiting.since = waiting_since(
                (each._device_classes(), each.progress.pod) for each in waiting.starting if each.progress.pod
            )
            waiting.count_again_at = now + _COUNT_SECONDS
        return waiting.since

    def _device_classes(self) -> frozenset[str]:
        """Device classes that the start asks for."""
        return frozenset(chain.from_iterable(map(device_classes, self.progress.specs.values())))

    # While the server waits

    def is_waiting(self) -> bool:
        """Whether the server has waited for a place so long that the user may want something else."""
        pod, began = self._pod(), self.progress.began
        if not began or not pod or (pod.get("spec") or {}).get("nodeName") or self.has_ended():
            return False
        return asyncio.get_running_loop().time() - began >= SHORT_SECONDS

    def has_waited_in_vain(self) -> bool:
        """Whether the last start has failed while the server waited for devices, or since others are first."""
        start = self._spawner._start_future
        failed = start is not None and start.done() and (start.cancelled() or start.exception() is not None)
        return bool(failed and self.progress.began and (self.progress.waiting_for or self._others_are_first))

    def _pod(self) -> JsonObject:
        """The pod of the start; empty before it is seen. A start without devices publishes none."""
        return self.progress.pod or self._server.pod() or {}

    async def while_waiting(self, form: SpawnForm) -> JsonObject:
        """Return what the page says beside the sentence: how long it usually takes, and what would start now."""
        if not self.is_waiting():
            return {"usual": "", "offers": []}
        # Imported here, as most servers do not wait.
        from dra_spawner.spawner.devices.reader import Reading

        if self._free is None:
            self._free = Reading(lambda: self._free_choices(form))
        if self._free.seconds_since_try() >= _FREE_SECONDS:
            self._free.begin()
        offers = [{"name": each.name, "words": each.words} for each in self._free.value or ()]
        return {"usual": await self._usual_wait(form), "offers": offers}

    async def _usual_wait(self, form: SpawnForm) -> str:
        client, own = form.availability, self._others.own if self._others is not None else ""
        if client is None or not own:
            return ""
        view = await client.latest(_USUAL_SECONDS)
        found = view.of(own) if own in view.choices else await client.of_combination(own, _USUAL_SECONDS)
        return usual_sentence(found)

    async def _free_choices(self, form: SpawnForm) -> list[FreeChoice]:
        """What would start now; nothing after an error, which says nothing to a user."""
        from dra_spawner.spawner.free_choices import free_choices, other_choices

        try:
            if self._others is None:
                self._others = await other_choices(self._server, self.progress.specs)
            return await free_choices(self._server, form.availability, self._others, self._pod())
        except Exception:  # whatever profiles there are: the server waits in any case
            self._server.log.exception("No other choice can be offered: pod=%s", self._spawner.pod_name)
            return []

    # The page of a failure

    def begin_search_for_free(self, form: SpawnForm) -> asyncio.Task[list[FreeChoice]]:
        """Begin to look for what would start now."""
        return this_hub().begin(self._free_choices(form), "search for a free choice")

    async def explain_failure(
        self, refusal: SpawnRefused, search: asyncio.Task[list[FreeChoice]] | None, ends: float
    ) -> None:
        """Tell the user what to do.

        Parameters
        ----------
        search
            For what would start now; None if that would not help.
        ends
            When JupyterHub itself gives up, as the loop's time.
        """
        self._others_are_first = refusal.refusal is RefusalReason.QUEUE
        free: list[FreeChoice] = []
        if search is not None:
            left = ends - _TELLING_SECONDS - asyncio.get_running_loop().time()
            log, pod_name = self._server.log, self._spawner.pod_name
            try:
                await asyncio.wait({search}, timeout=max(left, _SEARCH_SECONDS))
                free = search.result()
            except (asyncio.InvalidStateError, asyncio.CancelledError):  # or JupyterHub waits no longer
                search.cancel()
                log.info("No free choice was found in time: pod=%s", pod_name)
        has_form = bool(self._spawner.options_form)
        if has_form or refusal.status_code == _TRY_AGAIN_LATER:
            offers = {each.words: each.fields for each in free}
            refusal.jupyterhub_html_message = failure_html(
                str(refusal), self._spawn_url(), offers, has_choices=has_form
            )

    def _spawn_url(self) -> str:
        """Address of the page with the form of this server."""
        user, name = self._spawner.user.name, self._spawner.name
        return str(url_path_join(self._spawner.hub.base_url, "spawn", url_escape_path(user), url_escape_path(name)))

    def events(self) -> list[JsonObject]:
        """The pod's events after the one before this start, and this project's messages.

        ``events`` of KubeSpawner sorts the events of all servers first, twice in each start and for each progress page.
        """
        events = sorted(self._server.pod_events(), key=_time_of)
        uids = [event["metadata"]["uid"] for event in events]
        first = uids.index(self.event_before) + 1 if self.event_before in uids else 0
        return self.progress.messages.with_events(events[first:])


def _time_of(event: JsonObject) -> str:
    """When an event was seen last; before all others where its writer did not say so."""
    times = (event.get(name) for name in ("lastTimestamp", "eventTime", "firstTimestamp"))
    return str(next(filter(None, times), ""))
