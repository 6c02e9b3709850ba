"""DRA drivers: their classes, devices and parameters, and what enforces a share of a device.

An unknown driver works through the general language, without checks of its parameters. Other packages add drivers by
entry point (`installed`).
"""

from dra_spawner.profiles.drivers.asked import names_of_fixed_claims
from dra_spawner.profiles.drivers.driver import Driver, RuleInput
from dra_spawner.profiles.drivers.driver_rules import DRIVER_RULES
from dra_spawner.profiles.drivers.installed import DriverNotUsable
from dra_spawner.profiles.drivers.registry import (
    configured_drivers,
    driver_findings,
    driver_of_class,
    drivers_prepare_for,
    known_driver,
    known_drivers,
    share_enforcements,
)
from dra_spawner.profiles.drivers.vocabulary import Enforcement, ShareEnforcement

__all__ = [
    "DRIVER_RULES",
    "Driver",
    "DriverNotUsable",
    "Enforcement",
    "RuleInput",
    "ShareEnforcement",
    "configured_drivers",
    "driver_findings",
    "driver_of_class",
    "drivers_prepare_for",
    "known_driver",
    "known_drivers",
    "names_of_fixed_claims",
    "share_enforcements",
]
