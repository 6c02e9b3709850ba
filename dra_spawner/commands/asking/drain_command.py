"""``dra-spawner drain``: no new server comes to a node or gets a device, and servers that run stay."""

from __future__ import annotations

import json
from typing import Final, TextIO
from urllib.parse import quote

from dra_spawner.commands.asking.service_client import ServiceClient, printable
from dra_spawner.commands.asking.text_table import moment, table

_KINDS: Final = {"draining": "node", "devices": "device"}


def print_drains(client: ServiceClient, out: TextIO, *, as_json: bool) -> int:
    """Print the nodes and devices that are drained.

    Raises
    ------
    NotAnswered
    """
    drains = [each for each in client.items("api/settings") if each.get("kind") in _KINDS]
    if as_json:
        out.write(f"{json.dumps({'items': drains}, indent=2)}\n")
    elif drains:
        rows = [
            (_KINDS[each["kind"]], each["name"], each["by"], moment(each["at"]), moment(each["until"]), each["reason"])
            for each in drains
        ]
        out.write(table(("KIND", "NAME", "BY", "SINCE", "UNTIL", "REASON"), rows))
    else:
        out.write("Nothing is drained.\n")
    return 0


def begin_drain(client: ServiceClient, name: str, reason: str, until: str, out: TextIO, *, as_json: bool) -> int:
    """Drain a node, or a device ``driver/pool/device``.

    Raises
    ------
    NotAnswered
    """
    body = {key: value for key, value in (("reason", reason), ("until", until)) if value}
    setting = client.send("PUT", _address(name), body)
    if as_json:
        out.write(f"{json.dumps(setting, indent=2)}\n")
    else:
        end = f" until {printable(moment(setting['until']))}" if setting.get("until") else ""
        what = "gets no new server" if "/" in name else "gets no placeholder and no new server"
        out.write(f"{printable(name)} is drained{end}: it {what}. Servers that run there stay.\n")
    return 0


def end_drain(client: ServiceClient, name: str, out: TextIO, *, as_json: bool) -> int:
    """End a drain.

    Raises
    ------
    NotAnswered
    """
    client.send("DELETE", _address(name))
    out.write(f"{json.dumps({'name': name})}\n" if as_json else f"{printable(name)} is not drained any more.\n")
    return 0


def _address(name: str) -> str:
    part = quote(name, safe="", errors="replace")  # an argument may be no valid text
    return f"api/devices/{part}/drain" if "/" in name else f"api/settings/draining/{part}"
