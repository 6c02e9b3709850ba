"""``dra-spawner classes``: announced classes, and what their rehearsals say."""

from __future__ import annotations

import json
from typing import Any, Final, TextIO

from dra_spawner.commands.asking.service_client import ServiceClient, printable
from dra_spawner.commands.asking.text_table import table

#: Begin of the service's problems about calendar entries.
_OF_ENTRIES: Final = "Scale-ahead: calendar entry "


def print_classes(client: ServiceClient, out: TextIO, *, as_json: bool) -> int:
    """Print the entries that people have added, and each verdict of the coming day but Yes; 1 if there is one, else 0.

    Raises
    ------
    NotAnswered
    """
    entries = client.items("api/calendar-entries")
    problems = client.get("api/status").get("problems", ())
    verdicts = [each.removeprefix(_OF_ENTRIES) for each in problems if each.startswith(_OF_ENTRIES)]
    if as_json:
        out.write(f"{json.dumps({'items': entries, 'verdicts': verdicts}, indent=2)}\n")
        return int(bool(verdicts))
    if entries:
        out.write(
            table(("BEGINS", "USERS", "LASTS", "EACH WEEK UNTIL", "ZONE", "NAME", "ID"), list(map(_row, entries)))
        )
    else:
        out.write("No class is announced here; calendars of the configuration are on the page Calendar.\n")
    for each in verdicts:
        out.write(f"- {printable(each)}\n")
    return int(bool(verdicts))


def _row(entry: dict[str, Any]) -> tuple[object, ...]:
    minutes = entry.get("minutes")
    return (
        entry["begins"],
        entry["users"],
        f"{minutes:g} min" if minutes is not None else "",
        entry.get("weekly_until", ""),
        entry.get("timezone", ""),
        entry.get("name", ""),
        entry["id"],
    )
