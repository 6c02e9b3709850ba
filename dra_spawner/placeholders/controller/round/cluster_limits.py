"""Limits of the cluster itself: ResourceQuotas, which are watched, and messages of the autoscaler, which are polled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import OwnedTasks
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.rights import missing_right
from dra_spawner.kube.informer_task import wait_first_list
from dra_spawner.kube.informers import Informer, InformerSettings, InformerState
from dra_spawner.kube.resource import Resource
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.limits import Quota, quota_of
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Knowledge
from dra_spawner.simulator.model.pods import Pod

log = logging.getLogger(__name__)

#: Time between two reads of events, in seconds.
_EVERY_SECONDS: Final = 30.0
_LONGEST_MESSAGE: Final = 200
#: cluster-autoscaler repeats its message each ten seconds at first, and each five minutes later.
_FRESH: Final = timedelta(minutes=6)
#: cluster-autoscaler's words for node groups and for the cluster (``core/scaleup/orchestrator/skippedreasons.go``).
_MAXIMA: Final = ("max node group size reached", "limit reached")


def maximum_reached(event: JsonObject, now: datetime) -> tuple[str, str]:
    """The uid of the pod and the message of an event, if the autoscaler adds no node as a maximum is reached.

    Returns
    -------
    tuple of str
        Empty for other events and for old ones.
    """
    message = str(event.get("message") or "")
    if event.get("reason") != "NotTriggerScaleUp" or not any(each in message for each in _MAXIMA):
        return "", ""
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
    try:
        at = datetime.fromisoformat(stamp)
    except (ValueError, TypeError):
        return "", ""
    if now - (at if at.tzinfo is not None else at.replace(tzinfo=UTC)) > _FRESH:
        return "", ""
    said = message.removeprefix("pod didn't trigger scale-up: ")
    return str((event.get("involvedObject") or {}).get("uid") or ""), said[:_LONGEST_MESSAGE]


def pending_uids(view: View) -> set[str]:
    """The uids of pods of which the autoscaler may say that no node is added for them."""
    placeholders = {each.pod.uid for each in view.placeholders.values() if each.is_pending}
    return placeholders.union(each.uid for each in view.pending_users)


class ClusterLimits:
    """Knows the quotas of one namespace, and pods for which no node is added.

    An asynchronous context manager: leaving it ends both. Without a right it knows nothing, and says so.

    Parameters
    ----------
    namespace
        Of placeholders.
    priority_class
        Of placeholders.
    has_servers
        Whether users' servers are in this namespace, too.
    pending
        Returns the uids of placeholders and servers without a node; while there is none, no events are read.
    on_change
        Called after each change; must not raise.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        *,
        priority_class: str,
        has_servers: bool,
        pending: Callable[[], Collection[str]],
        now: Callable[[], datetime],
        on_change: Callable[[], None] = lambda: None,
        settings: InformerSettings | None = None,
        every_seconds: float = _EVERY_SECONDS,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._priority_class = priority_class
        self._has_servers = has_servers
        self._pending = pending
        self._now = now
        self._on_change = on_change
        self._every_seconds = every_seconds
        resource = Resource("ResourceQuota", "v1", "resourcequotas", namespace)
        self._informer = Informer(api, resource, self, settings=settings, may_be_absent=True)
        self._quotas: dict[ObjectKey, Quota] = {}
        self._said: dict[str, str] = {}
        self._events_problem = ""
        self._tasks = OwnedTasks()

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """The quotas, by name."""
        return tuple(self._quotas[key] for key in sorted(self._quotas))

    @property
    def are_known(self) -> bool:
        """Whether the quotas were read."""
        return self._informer.synced

    @property
    def are_followed(self) -> bool:
        """Whether the quotas are as the API server has them."""
        return self._informer.knowledge is not Knowledge.UNKNOWN

    def no_scale_up(self, pod: Pod) -> str:
        """The autoscaler's message that no node is added for a pod, as a maximum is reached; empty if there is none."""
        return self._said.get(pod.uid, "")

    def problems(self) -> tuple[str, ...]:
        """Missing rights and other problems, as sentences without a full stop."""
        status, found = self._informer.status, []
        if status.problem and status.state is not InformerState.OFF:
            found.append(f"ResourceQuotas are not known, and may refuse placeholders: {status.problem}")
        found += [each.removesuffix(".") for each in self._tasks.problems()]
        if self._events_problem:
            found.append(f"a maximum of the autoscaler is not recognised: {self._events_problem}")
        return tuple(found)

    def put(self, obj: JsonObject) -> None:
        """Take a new version of a quota."""
        metadata = obj["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        self._quotas[key] = quota_of(obj, self._priority_class, has_servers=self._has_servers)
        self._on_change()

    def remove(self, key: ObjectKey) -> None:
        """Note that a quota is gone."""
        self._quotas.pop(key, None)
        self._on_change()

    async def read_events(self) -> None:
        """Read what the autoscaler says of pending placeholders and servers."""
        pending = frozenset(self._pending())
        said: dict[str, str] = {}
        if pending:
            try:
                answer = await self._api.list(
                    resource_path("v1", "events", self._namespace),
                    field_selector="reason=NotTriggerScaleUp",
                )
            except KubernetesError as error:
                # The last messages hold until the next read.
                self._events_problem = missing_right(error) or ("" if error.retryable else str(error))
                log.debug("The autoscaler's events cannot be read: error=%s", error)
                return
            self._events_problem = ""
            now = self._now()
            for event in answer.get("items") or ():
                uid, message = maximum_reached(event, now)
                if uid in pending:
                    said[uid] = message
        if said != self._said:
            self._said = said
            self._on_change()

    async def _read_on(self) -> None:
        while True:
            await self.read_events()
            await asyncio.sleep(self._every_seconds)

    async def __aenter__(self) -> Self:
        """Wait a short time for the quotas, so that the first round does not exceed them."""
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(self._tasks)
            tasks.begin("quotas", self._informer.run)
            tasks.begin("events of the autoscaler", self._read_on)
            await wait_first_list(self._informer, "ResourceQuotas are not known yet", log)
            stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._tasks.__aexit__(exc_type, exc, traceback)
