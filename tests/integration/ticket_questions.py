"""Questions of a user's browser about tickets, as the script of a page asks them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from tests.chart.browser_session import BrowserSession

__all__ = ["ADDRESS", "asked"]

ADDRESS = "/hub/dra-spawner/tickets"


async def asked(
    session: BrowserSession, method: str, query: dict[str, str], headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """Status and answer.

    Parameters
    ----------
    headers
        Other ones than those of the page.
    """
    return await session.json(method, f"{ADDRESS}?{urllib.parse.urlencode(query)}", headers=headers)
