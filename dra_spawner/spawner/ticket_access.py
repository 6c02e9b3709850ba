"""The queue for devices, as the parts of a hub use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dra_spawner.spawner.hub_parts.hub_wide import CLEAN_UP_WAIT_SECONDS, retry_until_done, this_hub
from dra_spawner.spawner.server_context import ServerContext

if TYPE_CHECKING:
    from dra_spawner.ticket_store.ticket_store import TicketStore


def tickets_of(server: ServerContext) -> TicketStore | None:
    """The queue of a server's hub; None if ``DRASpawner.tickets`` is off.

    All servers of a hub share it. `TicketStore` says how it is used.
    """
    if not server.spawner.tickets:
        return None
    # Most hubs have no queue.
    from dra_spawner.fairness.tickets.ticket_book import TicketLimits
    from dra_spawner.ticket_store.ticket_store import TicketStore

    spawner = server.spawner
    namespace = spawner.tickets_namespace or _hub_namespace(server)
    return this_hub().shared(
        ("tickets", namespace),
        lambda: TicketStore(
            server.kubernetes,
            namespace,
            queue_hub(server),
            limits=TicketLimits(spawner.max_tickets_per_user),
            turn=asyncio.Lock(),
        ),
    )


def queue_hub(server: ServerContext) -> str:
    """`Ticket.hub` of the tickets of a server's hub; its service has the same."""
    return f"{_hub_namespace(server)}/{server.spawner.shapes_config_map}"


def _hub_namespace(server: ServerContext) -> str:
    """The namespace in which the hub publishes its choices: its own, or outside of a pod that of its servers."""
    # Imported here, as most hubs have no queue.
    from dra_spawner.kube.client.connect import own_namespace

    spawner = server.spawner
    return own_namespace(default=server.hub_namespace if spawner.enable_user_namespaces else spawner.namespace)


def follow_names(server: ServerContext, session: Any) -> None:
    """Let tickets follow users whom an administrator gives another name; JupyterHub tells no spawner of it.

    Parameters
    ----------
    session
        JupyterHub's session of its database; each is followed once.
    """
    from jupyterhub.orm import User
    from sqlalchemy import event, inspect

    followed: set[int] = this_hub().shared("sessions with followed names", set)
    store = tickets_of(server)
    if store is None or id(session) in followed:
        return
    followed.add(id(session))
    hub, loop = this_hub(), asyncio.get_running_loop()

    def rename(before: str, after: str) -> None:
        what = "give the tickets of a user to the user's new name"
        hub.begin(_until_written(partial(store.rename, before, after), what, server), "renaming of tickets")

    def after_flush(flushed: Any, _: object) -> None:
        for each in flushed.dirty:
            names = inspect(each).attrs.name.history if isinstance(each, User) else None
            if names is not None and names.deleted and names.added:
                # Later, and from any thread: an error here would be one of the hub's own transaction.
                loop.call_soon_threadsafe(rename, names.deleted[0], names.added[0])

    event.listen(session, "after_flush", after_flush)


async def forget_tickets(server: ServerContext) -> None:
    """Remove the tickets of a user who is deleted; after a short wait this continues in the background."""
    store = tickets_of(server)
    if store is None:
        return
    what = "remove the tickets of a deleted user"
    removal = _until_written(partial(store.forget, server.spawner.user.name), what, server)
    await asyncio.wait({this_hub().begin(removal, "removal of tickets")}, timeout=CLEAN_UP_WAIT_SECONDS)


async def _until_written(change: Callable[[], Awaitable[None]], what: str, server: ServerContext) -> None:
    from dra_spawner.ticket_store.ticket_store import TicketsUnavailable

    async def is_done() -> bool:
        try:
            await change()
        except TicketsUnavailable:
            return False
        return True

    await retry_until_done(is_done, what, server.log)
