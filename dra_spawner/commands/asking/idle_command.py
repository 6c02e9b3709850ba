"""``dra-spawner idle``: servers that hold devices but are idle."""

from __future__ import annotations

import json
from typing import Any, TextIO

from dra_spawner.commands.asking.service_client import ServiceClient, printable
from dra_spawner.commands.asking.text_table import moment, table


def print_idle(client: ServiceClient, out: TextIO, *, as_json: bool) -> int:
    """Print servers with devices, the most idle device-hours first; 1 if a server is idle, else 0.

    Raises
    ------
    NotAnswered
    """
    found = client.get("api/idle-servers")
    servers = found["items"]
    idle = [each for each in servers if each["use"] == "idle"]
    if as_json:
        out.write(f"{json.dumps(found, indent=2)}\n")
        return int(bool(idle))
    for each in (found["incomplete_because"], *found["problems"]):
        if each:
            out.write(f"- {printable(each)}\n")
    if servers:
        out.write(
            table(("SERVER", "CHOICE", "DEVICES", "USE", "IDLE SINCE", "HOURS", "NEXT"), list(map(_row, servers)))
        )
        hours = sum(each["idle_device_hours"] or 0.0 for each in servers)
        out.write(f"{len(idle)} of {len(servers)} servers with devices are idle, with {hours:.1f} device-hours.\n")
    else:
        out.write("No server with devices was seen.\n")
    return int(bool(idle))


def _row(each: dict[str, Any]) -> tuple[object, ...]:
    name = f"{each['user']}/{each['server']}".rstrip("/") or "(hidden)"
    hours = each["idle_device_hours"]
    if each["warned_at"]:
        what = f"stops at {moment(each['stops_at'])}"
    elif each["kept_until"]:
        what = f"kept until {moment(each['kept_until'])}, time {each['kept']}"
    else:
        what = "" if each["has_policy"] else "no policy"
    is_idle = each["use"] == "idle"
    return (
        name,
        each["choice"],
        ", ".join(each["devices"]),
        each["use"],
        moment(each["idle_since"]),
        f"{hours:.2f}" if is_idle and hours is not None else "",
        what if is_idle else f"{each['reason']} {what}".rstrip(),
    )
