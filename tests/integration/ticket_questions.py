"""Questions of a user's browser about tickets, as the script of a page asks them."""

from __future__ import annotations

import urllib.parse
from typing import Any

from tests.chart.browser_session import BrowserSession

__all__ = ["ADDRESS", "asked"]

ADDRESS = "/hub/dra-spawner/tickets"


async def asked(session: BrowserSession, method: str, query: dict[str, str], **more: Any) -> tuple[int, Any]:
    """Status and answer, decoded if it is JSON."""
    headers = more.pop("headers", None) or await session._headers()
    url = f"{session.url}{ADDRESS}?{urllib.parse.urlencode(query)}"
    async with session._session.request(method, url, headers=headers, allow_redirects=False, **more) as answer:
        is_json = answer.content_type == "application/json"
        return answer.status, await answer.json() if is_json else await answer.text()
