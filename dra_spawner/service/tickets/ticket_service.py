"""The queue for devices while the service runs: every replica follows it, the leader writes what hubs show."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Final, Self

from dra_spawner.common.owned_tasks import OwnedTasks
from dra_spawner.common.thread_turns import ThreadTurns
from dra_spawner.fairness.tickets.interval_widths import AS_COMPUTED
from dra_spawner.fairness.tickets.queue_waits import habits_in
from dra_spawner.fairness.tickets.ticket_book import TicketRefused, Waits
from dra_spawner.fairness.tickets.ticket_waits import KnownSessions, outlooks_of, waits_of
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.placeholders.planner.ticket_queue import competing_devices
from dra_spawner.service.tickets.followed_tickets import FollowedTickets
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.ticket_store.ticket_store import TicketsUnavailable

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS: Final = 2.0


class TicketService:
    """See the module. An asynchronous context manager, which does nothing without a queue.

    Parameters
    ----------
    is_behind
        Whether a user (name, groups) is over a budget: others come first.

    Attributes
    ----------
    followed
        The queue; None if the setting ``tickets`` is off.
    """

    def __init__(
        self,
        api: KubernetesApi,
        controller: PlaceholderController,
        is_behind: Callable[[str, Sequence[str]], bool],
    ) -> None:
        settings = controller.settings
        self._controller = controller
        self.followed: FollowedTickets | None = None
        if settings.policy.tickets is not None:
            namespace = settings.tickets_namespace or settings.hub_namespace
            hub = f"{settings.hub_namespace}/{settings.shapes_config_map}"
            self.followed = FollowedTickets(api, namespace, hub, now=controller.now)
            self.followed.on_change(controller.wake)
            controller.tickets = self.followed
        self._is_behind = is_behind
        self._tasks = OwnedTasks()
        self._turns = ThreadTurns()

    async def __aenter__(self) -> Self:
        if self.followed is not None:
            await self.followed.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.followed is not None:
            await self.followed.__aexit__(exc_type, exc, traceback)

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Write what hubs show until the context ends."""
        if self.followed is None:
            yield
            return
        followed = self.followed
        async with self._tasks as tasks:
            tasks.begin("tickets", lambda: self._run(followed))
            yield

    def problems(self) -> tuple[str, ...]:
        """Why hubs show no places or waits, as sentences."""
        return self._tasks.problems()

    async def keep_place(self, user: str, choice: str, groups: Sequence[str]) -> None:
        """Let a user whose server is stopped queue for its return, if others wait for such a device now.

        If nobody does, the device stays free for the user as for others, and a ticket would hold it for nobody.
        """
        followed, shape = self.followed, self._controller.published.shapes.get(choice)
        if followed is None or shape is None:
            return
        devices = competing_devices(shape)
        others = (each for each in followed.present.open if each.user != user)
        if not any(devices.intersection(each.devices) for each in others):
            return
        try:
            await followed.store.join(user, choice, groups)
        except (TicketRefused, TicketsUnavailable) as error:
            log.warning("A user whose idle server is stopped has no place in the queue: choice=%s %s", choice, error)

    async def _run(self, followed: FollowedTickets) -> None:
        await self._controller.watch.wait_synced()
        while True:
            with contextlib.suppress(TicketsUnavailable):  # in the log, and among the problems
                await self.look(followed)
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def look(self, followed: FollowedTickets) -> None:
        """Write what has changed, once.

        Raises
        ------
        TicketsUnavailable
        """
        controller = self._controller
        if controller.leads:
            await followed.note(
                controller.published,
                self._is_behind,
                lambda: self._waits(followed),
            )

    async def _waits(self, followed: FollowedTickets) -> Waits:
        controller = self._controller
        sessions, now = controller.sessions, controller.now()

        def age_of(pod: Pod) -> float:
            began = sessions.began(pod.uid)
            return ((now - began) if began is not None else age(pod.created, now)).total_seconds()

        known = KnownSessions(lambda shape: sessions.lengths_of(controller.name_of(shape)), age_of)
        habits = habits_in(followed.present, followed.take_seconds)
        widths = followed.present.widths.get(followed.hub, AS_COMPUTED)
        outlooks = outlooks_of(controller.view(), controller.policy, known, habits, widths)
        # Up to some tenths of a second of arithmetic for long queues: placements do not wait for it.
        return await self._turns.run(waits_of, outlooks, now, random.random)
