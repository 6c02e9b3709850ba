"""Settings of the service about the queue for devices."""

from __future__ import annotations

from datetime import timedelta

from traitlets import Bool, HasTraits, Integer, Unicode

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.policy import TicketRules


class TicketTraits(HasTraits):  # type: ignore[misc]  # of traitlets, which the mixins derive from, too
    """Mixed into the application."""

    tickets = Bool(
        False,
        help="""
        Whether the service serves the queue for devices: the first user who waits for a choice gets the next free
        device. The hub needs the same setting, `c.DRASpawner.tickets`. With it the service creates placeholders of
        choices for which users wait, also where `placeholders` is empty. docs/how-to/tickets.md describes everything.
        """,
    ).tag(config=True)
    ticket_hold_seconds = Integer(
        300,
        min=30,
        max=3600,
        help="""
        Seconds for which a free device is held for the first user of the queue. Without a start in this time the next
        user gets it, and the ticket has expired.
        """,
    ).tag(config=True)
    tickets_go_first = Bool(
        True,
        help="""
        Whether a start without a ticket is refused while users of the queue wait for the same devices. If not, it gets
        a free device by chance, as without a queue.
        """,
    ).tag(config=True)
    ticket_keep_seconds = Integer(
        0,
        min=0,
        max=86_400,
        help="""
        Seconds for which the free devices of one node are kept for the first ticket, if it needs more of them than are
        free. Others of the queue do not get them meanwhile, so these devices are idle although users wait. Afterwards
        they go to others for the same time. With 0 nothing is kept: a ticket for several devices may be passed by
        tickets for one without end.
        """,
    ).tag(config=True)
    tickets_namespace = Unicode(
        "",
        help=f"""
        Namespace of the ConfigMap `{names.TICKETS_CONFIG_MAP}` with the queue; empty for the hub's namespace. The same
        as in `c.DRASpawner.tickets_namespace`.
        """,
    ).tag(config=True)

    def ticket_rules(self) -> TicketRules | None:
        """These settings, for decisions; None without a queue."""
        if not self.tickets:
            return None
        hold, keep = timedelta(seconds=self.ticket_hold_seconds), timedelta(seconds=self.ticket_keep_seconds)
        return TicketRules(hold, self.tickets_go_first, keep)
