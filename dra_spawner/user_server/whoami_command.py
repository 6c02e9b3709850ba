"""``dra-spawner whoami``: the devices of the server in which it runs."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping

from dra_spawner.user_server.own_devices import devices_of_server
from dra_spawner.user_server.shown_devices import ShownDevice, ShownDevices, text


def run_whoami(options: Namespace) -> int:
    """Print the devices; return 1 if they are not known."""
    found = devices_of_server(os.environ)
    if options.format == "json":
        print(json.dumps({**_server(os.environ), **found.as_json()}, indent=2))  # noqa: T201 - the command's output
    else:
        for line in lines(found, os.environ):
            print(line)  # noqa: T201 - the command's output
        if found.sentence:
            sys.stderr.write(f"dra-spawner whoami: {found.sentence}\n")
    return 0 if found.known else 1


def _server(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        "user": text(environment.get("JUPYTERHUB_USER")),
        "server": text(environment.get("JUPYTERHUB_SERVER_NAME")),
    }


def lines(found: ShownDevices, environment: Mapping[str, str]) -> Iterator[str]:
    """The devices in words, for a terminal."""
    server = _server(environment)
    name = f"Server {server['server']}" if server["server"] else "Server"
    owner = f" of {server['user']}" if server["user"] else ""
    node = f" on {found.node}" if found.node else ""
    warm = ", prepared before it started" if found.warm else ""
    yield f"{name}{owner}{node}{warm}"
    if found.end_text:
        yield f"  {found.end_text}"
    yield from (f"  {each}" for each in found.use)
    if not found.known:
        yield "  devices not known"
    elif not found.devices:
        yield "  no devices"
    for device in found.devices:
        yield from _device_lines(device, is_only_one=len(found.devices) == 1)


def _device_lines(device: ShownDevice, *, is_only_one: bool) -> Iterator[str]:
    yield ""
    yield f"{device.name} ({device.product})" if device.product else device.name
    warning = "WARNING: " if device.is_faulty else ""
    share = ", ".join(each.words for each in device.share)
    rows = {
        "share": share,
        "enforced": device.enforcement,
        "health": f"{warning}{device.health_sentence or device.health}",
        # A word of the profile, which tells devices apart.
        "for": "" if is_only_one else device.claim,
    }
    if device.network is not None:
        there = {True: ", found in this server", False: ", not in this server", None: ""}[device.network.present]
        rows["interface"] = f"{device.network.interface}{there}"
        rows["hardware"] = device.network.hardware_address
        rows["addresses"] = ", ".join(device.network.addresses)
    for title, value in rows.items():
        if value:
            yield f"  {title:<11}{value}"
    for title, value in device.attributes.items():
        yield f"  {title} = {value}"
