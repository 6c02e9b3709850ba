"""The devices of this server: what drivers wrote into it, and what the hub tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dra_spawner.user_server.hub_question import NotKnown, ask_hub
from dra_spawner.user_server.metadata_files import DIRECTORY, devices_in_files
from dra_spawner.user_server.network_interfaces import DIRECTORY as INTERFACES
from dra_spawner.user_server.network_interfaces import with_present_interface
from dra_spawner.user_server.shown_devices import ShownDevice, ShownDevices


def is_hub_server(environment: Mapping[str, str], directory: Path = DIRECTORY) -> bool:
    """Whether there is anybody to ask: a hub, or a driver's files."""
    return bool(environment.get("JUPYTERHUB_API_URL")) or directory.is_dir()


def devices_of_server(
    environment: Mapping[str, str], directory: Path = DIRECTORY, interfaces: Path = INTERFACES
) -> ShownDevices:
    """Return the devices of this server. Never raises: what is not known is said in a sentence.

    The files are of this container and say which devices it has. The hub alone knows share, enforcement and health.
    Whether a network interface is there, only this server can see.
    """
    found = _devices(environment, directory)
    return replace(found, devices=tuple(with_present_interface(each, interfaces) for each in found.devices))


def _devices(environment: Mapping[str, str], directory: Path) -> ShownDevices:
    written = {device.key: device for device in devices_in_files(directory)}
    try:
        answer = ask_hub(environment)
    except NotKnown as unknown:
        if not written:
            return ShownDevices(known=False, sentence=str(unknown))
        missing = f"Share, enforcement and health are not known. {unknown}"
        return ShownDevices(tuple(written.values()), sentence=missing)
    told = [_with_facts(device, written.pop(device.key, None)) for device in answer.devices]
    return replace(answer, devices=(*told, *written.values()))


def _with_facts(told: ShownDevice, written: ShownDevice | None) -> ShownDevice:
    """A device of the hub's answer, with what its driver wrote."""
    if written is None:
        return told
    return replace(
        told,
        product=told.product or written.product,
        network=written.network or told.network,
        attributes=written.attributes,
    )
