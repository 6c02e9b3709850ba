"""When drained nodes are back: the service of this hub knows it, and their labels do not say it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import aiohttp

from dra_spawner.placeholders.planner.targets.overrides import OverrideKind
from dra_spawner.spawner.placement.service import ServiceAddress, whole_body

_LIMIT_SECONDS: Final = 2.0
_MAX_BYTES: Final = 2**21


async def drain_ends(address: ServiceAddress | None) -> Mapping[str, datetime]:
    """The known ends of drains, by node; empty without an answer in time: a sentence can do without them."""
    if address is None:
        return {}
    try:
        async with (
            asyncio.timeout(_LIMIT_SECONDS),
            address.session() as session,
            # The token is for the service alone, not for an address that an answer points to.
            session.get(f"{address.url}api/settings", allow_redirects=False) as answer,
        ):
            found = json.loads(await whole_body(answer, _MAX_BYTES)) if answer.status == 200 else {}
    except (aiohttp.ClientError, OSError, ValueError, RecursionError):  # TimeoutError is an OSError
        return {}
    items = found.get("items") if isinstance(found, dict) else None
    return dict(filter(None, map(_end, items if isinstance(items, list) else ())))


def _end(setting: Any) -> tuple[str, datetime] | None:
    with suppress(AttributeError, KeyError, TypeError, ValueError, OverflowError):
        if setting["kind"] == OverrideKind.DRAINING and isinstance(setting["name"], str):
            until = datetime.fromisoformat(setting["until"])
            return (setting["name"], until) if until.tzinfo is not None else None
    return None
