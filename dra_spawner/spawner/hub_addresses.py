"""Addresses of this project in the hub's web application, below the hub's prefix.

Each handler is imported when it is served: JupyterHub's own handlers, on which it builds, are most of what a process
without a hub's web application would import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dra_spawner.spawner.hub_parts.running_hub import serve_in_hub

if TYPE_CHECKING:
    from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler

__all__ = [
    "ACTIVITY",
    "AVAILABILITY",
    "DEVICES",
    "KEEP",
    "KEEP_FORM",
    "START",
    "TICKETS",
    "USE",
    "serve_availability",
    "serve_devices",
    "serve_start",
    "serve_tickets",
    "serve_use",
]

ACTIVITY: Final = "dra-spawner/activity"
AVAILABILITY: Final = "dra-spawner/availability"
DEVICES: Final = "dra-spawner/devices"
KEEP: Final = "dra-spawner/keep"
KEEP_FORM: Final = "dra-spawner/keep-form"
START: Final = "dra-spawner/start"
TICKETS: Final = "dra-spawner/tickets"
USE: Final = "dra-spawner/use"


def serve_availability() -> bool:
    """Answer the scripts of spawn forms; returns whether the hub has a web application yet. Idempotent."""
    return serve_in_hub(AVAILABILITY, _availability_handler)


def serve_devices() -> bool:
    """Tell servers their own devices, and hear what they do; returns whether the hub has a web application yet.

    Idempotent.
    """
    handlers = {
        DEVICES: _devices_handler,
        ACTIVITY: _activity_handler,
        KEEP: _keep_handler,
        KEEP_FORM: _keep_form_handler,
    }
    return all(serve_in_hub(address, handler) for address, handler in handlers.items())


def serve_start() -> bool:
    """Answer the scripts of pages of a start; returns whether the hub has a web application yet. Idempotent."""
    return serve_in_hub(START, _start_handler)


def serve_tickets() -> bool:
    """Answer the scripts of pages about tickets; returns whether the hub has a web application yet. Idempotent."""
    return serve_in_hub(TICKETS, _tickets_handler)


def serve_use() -> bool:
    """Tell users their own budgets; returns whether the hub has a web application yet. Idempotent."""
    return serve_in_hub(USE, _use_handler)


def _availability_handler() -> type[QuietHandler]:
    from dra_spawner.spawner.availability.availability_handler import AvailabilityHandler

    return AvailabilityHandler


def _devices_handler() -> type[QuietHandler]:
    from dra_spawner.spawner.my_devices.my_devices_handler import DevicesHandler

    return DevicesHandler


def _activity_handler() -> type[QuietHandler]:
    from dra_spawner.spawner.idle_devices.activity_handler import ActivityHandler

    return ActivityHandler


def _keep_handler() -> type[QuietHandler]:
    from dra_spawner.spawner.idle_devices.keep_handlers import KeepHandler

    return KeepHandler


def _keep_form_handler() -> type[QuietHandler]:
    from dra_spawner.spawner.idle_devices.keep_handlers import KeepFormHandler

    return KeepFormHandler


def _start_handler() -> type[QuietHandler]:
    from dra_spawner.spawner.user_pages.start_handler import StartHandler

    return StartHandler


def _tickets_handler() -> type[QuietHandler]:
    from dra_spawner.spawner.ticket_pages.tickets_handler import TicketsHandler

    return TicketsHandler


def _use_handler() -> type[QuietHandler]:
    from dra_spawner.spawner.user_pages.own_use_handler import OwnUseHandler

    return OwnUseHandler
