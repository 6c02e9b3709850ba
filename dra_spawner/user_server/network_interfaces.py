"""Whether a network interface is in this server: its driver moves it there, and nobody outside can see it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from dra_spawner.user_server.shown_devices import NetworkInterface, ShownDevice

#: The kernel's interfaces of this network namespace, a folder for each (sysfs-class-net).
DIRECTORY: Final = Path("/sys/class/net")
MISSING: Final = "missing"
"""Health of such a device."""


def with_present_interface(device: ShownDevice, directory: Path = DIRECTORY) -> ShownDevice:
    """The device; with a warning if its network interface is not in this server."""
    if device.network is None:
        return device
    present = _is_present(device.network, directory)
    found = replace(device, network=replace(device.network, present=present))
    if present is not False:
        return found
    sentence = (
        f"The network interface {device.network.interface} is not in this server, although it was given to it. "
        "A new start of the server may help; else tell your administrator."
    )
    return replace(found, health=MISSING, health_sentence=sentence)


def _is_present(interface: NetworkInterface, directory: Path) -> bool | None:
    """Whether the interface is there, with its hardware address if that is known; None if that cannot be seen."""
    name = interface.interface
    # Its name comes from others.
    if not name or "/" in name or name in (".", ".."):
        return None
    try:
        if name not in {each.name for each in directory.iterdir()}:
            return False
        address = (directory / name / "address").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return not interface.hardware_address or address.lower() == interface.hardware_address.lower()
