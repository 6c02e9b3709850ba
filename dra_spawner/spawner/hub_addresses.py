"""Addresses of this project in the hub's web application, below the hub's prefix.

Each handler is imported when it is served: JupyterHub's own handlers, on which it builds, are most of what a process
without a hub's web application would import.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from dra_spawner.spawner.hub_parts.running_hub import serve_in_hub

if TYPE_CHECKING:
    from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler

AVAILABILITY: Final = "dra-spawner/availability"
START: Final = "dra-spawner/start"
TICKETS: Final = "dra-spawner/tickets"
USE: Final = "dra-spawner/use"
#: What a server asks and reports about its devices.
DEVICES: Final = ("dra-spawner/devices", "dra-spawner/activity", "dra-spawner/keep", "dra-spawner/keep-form")
#: Module, below this package, and class of each address's handler.
_HANDLERS: Final = {
    "dra-spawner/activity": "idle_devices.activity_handler.ActivityHandler",
    AVAILABILITY: "availability.availability_handler.AvailabilityHandler",
    "dra-spawner/devices": "my_devices.my_devices_handler.DevicesHandler",
    "dra-spawner/keep": "idle_devices.keep_handlers.KeepHandler",
    "dra-spawner/keep-form": "idle_devices.keep_handlers.KeepFormHandler",
    START: "user_pages.start_handler.StartHandler",
    TICKETS: "ticket_pages.tickets_handler.TicketsHandler",
    USE: "user_pages.own_use_handler.OwnUseHandler",
}


def serve(*addresses: str) -> bool:
    """Answer what pages and servers ask; returns whether the hub has a web application yet. Idempotent."""
    return all(serve_in_hub(address, partial(_handler, _HANDLERS[address])) for address in addresses)


def _handler(path: str) -> type[QuietHandler]:
    module, _, name = path.rpartition(".")
    return cast("type[QuietHandler]", getattr(import_module(f"dra_spawner.spawner.{module}"), name))
