"""Drivers of other packages, found by entry point."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from dra_spawner.profiles.drivers.driver import Driver

#: Each entry point of this group names a `Driver` object.
GROUP: Final = "dra_spawner.drivers"


class DriverNotUsable(Exception):
    """Raised where an installed package names a driver that cannot be used; the message says which, and why."""


def installed_drivers() -> tuple[Driver, ...]:
    """The drivers that installed packages add, in the order of their entry points' names.

    Raises
    ------
    DriverNotUsable
        If an entry point cannot be loaded, names no `Driver`, or two packages add the same driver.
    """
    return tuple(_loaded())


def _loaded() -> Iterator[Driver]:
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        driver = _load(entry)
        if driver.name in found:
            raise DriverNotUsable(
                f"{_title(entry)} and {_title(found[driver.name])} both add the driver {driver.name}: uninstall one."
            )
        found[driver.name] = entry
        yield driver


def _load(entry: EntryPoint) -> Driver:
    try:
        driver = entry.load()
    except Exception as error:
        raise DriverNotUsable(
            f"{_title(entry)} cannot be loaded, so repair or uninstall its package: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(driver, Driver):
        raise DriverNotUsable(f"{_title(entry)} names a {type(driver).__name__}, not a {Driver.__qualname__}.")
    return driver


def _title(entry: EntryPoint) -> str:
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    return f"The entry point {entry.name} = {entry.value}{package} (group {GROUP})"
