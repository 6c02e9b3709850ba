"""A class as people write it, as a calendar entry, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from tornado.web import HTTPError

from dra_spawner.common.json_types import JsonObject
from dra_spawner.scale_ahead.calendars.demand_lines import MAX_USERS, DemandLine, demand_line, read_demand_line
from dra_spawner.scale_ahead.controller.demand_settings import entry_name
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.schemas.class_schemas import LONGEST_NAME, MAX_BREAKS

_KEPT: Final = ("begins", "minutes", "weekly_until", "skipped", "timezone", "name")
_KEYS: Final = (*_KEPT, "choice", "users", "within_minutes", "group")
_LONGEST_CHOICE: Final = 250
_MAX_RAMP_MINUTES: Final = 24 * 60


def read_class(body: bytes) -> tuple[JsonObject, str]:
    """The calendar entry that a request's body announces, and the group.

    Raises
    ------
    HTTPError
        400 with the key, what was found and what is allowed; the entry's own values are checked later.
    """
    found = json_object(body, _KEYS)
    read_sentence(found, "name", LONGEST_NAME)
    choice = read_sentence(found, "choice", _LONGEST_CHOICE)
    if '"' in choice:
        raise HTTPError(400, "choice: allowed: a name without quotation marks.")
    users = _number(found, "users", MAX_USERS)
    within = _number(found, "within_minutes", _MAX_RAMP_MINUTES) if found.get("within_minutes") is not None else None
    skipped = found.get("skipped")
    if isinstance(skipped, list) and len(skipped) > MAX_BREAKS:
        raise HTTPError(400, "skipped: found %d days; allowed: at most %d.", len(skipped), MAX_BREAKS)
    group = read_sentence(found, "group", LONGEST_NAME) if found.get("group") else ""
    ramp = timedelta(minutes=within) if within is not None else None
    line = demand_line(DemandLine(users, choice, ramp=ramp))
    return {"users": line, **{key: found[key] for key in _KEPT if found.get(key) is not None}}, group


def read_sentence(found: Mapping[str, Any], key: str, longest: int) -> str:
    """A printable text of one line that is not empty.

    Raises
    ------
    HTTPError
    """
    value = found.get(key)
    if isinstance(value, str) and value.isprintable() and value.strip() and len(value) <= longest:
        return value
    raise HTTPError(400, "%s: allowed: a text of one line with at most %d characters.", key, longest)


def class_members(written: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a class that a calendar entry is."""
    demand = read_demand_line(str(written["users"]))
    ramp = {"within_minutes": int(demand.ramp.total_seconds() // 60)} if demand.ramp is not None else {}
    return {
        "name": entry_name(written.get("name") or "", written["users"]),
        "choice": demand.profile,
        "users": demand.users,
        **ramp,
        **{key: written[key] for key in _KEPT if key in written and key != "name"},
    }


def _number(found: Mapping[str, Any], key: str, most: int) -> int:
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        told = f"found {value!r:.60}" if key in found else "nothing found"
        raise HTTPError(400, "%s: %s; allowed: a whole number from 1 to %d.", key, told, most)
    return value
