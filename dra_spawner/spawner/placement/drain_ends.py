"""When drained nodes are back: the service of this hub knows it, and their labels do not say it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from dra_spawner.placeholders.planner.targets.overrides import OverrideKind
from dra_spawner.spawner.placement.service_address import NoAnswer, ServiceAddress

_LIMIT_SECONDS: Final = 2.0
_MAX_BYTES: Final = 2**21


async def drain_ends(address: ServiceAddress | None) -> Mapping[str, datetime]:
    """The known ends of drains, by node; empty without an answer in time: a sentence can do without them."""
    if address is None:
        return {}
    try:
        found = await address.ask_for_json("GET", "api/settings", limit_seconds=_LIMIT_SECONDS, most_bytes=_MAX_BYTES)
    except NoAnswer:
        return {}
    items = found.get("items") if isinstance(found, dict) else None
    return dict(filter(None, map(_end, items if isinstance(items, list) else ())))


def _end(setting: Any) -> tuple[str, datetime] | None:
    with suppress(AttributeError, KeyError, TypeError, ValueError, OverflowError):
        if setting["kind"] == OverrideKind.DRAINING and isinstance(setting["name"], str):
            until = datetime.fromisoformat(setting["until"])
            return (setting["name"], until) if until.tzinfo is not None else None
    return None
