"""Views of the cluster: of a leader with its expectations, and of a standby, made in one place."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.round.cluster_limits import ClusterLimits
from dra_spawner.placeholders.controller.round.expectations import Expectations
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex, Namespaces
from dra_spawner.placeholders.planner.cluster.search_ledger import SearchLedger
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.ticket_queue import TicketQueue
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

#: Age in seconds of a view that was never complete.
_NEVER: Final = 10.0**6


class Views:
    """Makes views of what a watch shows; one index makes each of them cheap."""

    def __init__(self, watch: ClusterWatch, now: Callable[[], datetime]) -> None:
        self._watch = watch
        self.now = now
        self._index = ClusterIndex()
        self._searches = SearchLedger(time.thread_time)

    def view(
        self,
        namespaces: Namespaces | frozenset[str] | None,
        expectations: Expectations | None = None,
        problem: str = "",
        limits: ClusterLimits | None = None,
        tickets: TicketQueue | None = None,
    ) -> View:
        """The present view.

        Parameters
        ----------
        expectations, problem, limits
            Of a leader: its unseen changes, why the API fails, and what quotas and the autoscaler say.
        tickets
            The queue for devices; None without one.
        """
        watch, now = self._watch, self.now()
        expected = expectations if expectations is not None else Expectations()
        expected.forget_ended_reservations(now)
        expected.forget_awaited(now, watch.snapshot.pods)
        return View(
            watch.snapshot,
            now,
            namespaces=namespaces,
            stale=timedelta(seconds=min(watch.staleness_seconds(), _NEVER)),
            knowledge=watch.knowledge(),
            problem=problem,
            index=self._index,
            reserved=expected.reserved,
            ending=expected.deleting,
            scheduler_message=watch.scheduler_message,
            version_of=self._version_of,
            no_scale_up=limits.no_scale_up if limits is not None else lambda pod: "",
            quotas=limits.quotas if limits is not None else (),
            knows_quotas=limits is not None and limits.are_followed,
            awaited=expected.awaited.values(),
            searches=self._searches,
            tickets=tickets or TicketQueue(),
        )

    def _version_of(self, kind: Kind, key: ObjectKey) -> str:
        seen = self._watch.observed(kind, key)
        return seen.resource_version if seen is not None else ""
