"""What is known of DRA drivers: their classes, devices, parameters, and how firmly they enforce a share.

A driver that is not known works through the general language; nothing is said about it here.
"""

from dra_spawner.profiles.drivers.driver import Driver, Situation
from dra_spawner.profiles.drivers.registry import (
    driver_findings,
    driver_of_class,
    known_driver,
    known_drivers,
    share_enforcements,
)
from dra_spawner.profiles.drivers.rules import DRIVER_RULES
from dra_spawner.profiles.drivers.vocabulary import Enforcement, ShareEnforcement

__all__ = [
    "DRIVER_RULES",
    "Driver",
    "Enforcement",
    "ShareEnforcement",
    "Situation",
    "driver_findings",
    "driver_of_class",
    "known_driver",
    "known_drivers",
    "share_enforcements",
]
