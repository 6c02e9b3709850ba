"""Scopes of the hub's service by which `helm test` tries choices, and a token with them."""

from __future__ import annotations

from typing import Final

import aiohttp

from dra_spawner.devcluster.demo import demo
from tests.integration.hub_with_service import log_in

__all__ = ["SCOPES", "token_of_the_chart"]

SCOPES: Final = (
    "admin:users!user={0}",
    "admin:servers!user={0}",
    "access:servers!user={0}",
    "access:services!service=dra-spawner",
    "custom:dra-spawner:read",
)
"""As the chart gives them (tests/chart/test_helm_test.py compares them); ``{0}`` stands for the user."""


async def token_of_the_chart(running: demo.Running, user: str) -> str:
    """A token of the demo's hub with these scopes, for a user of this name, and no others."""
    scopes = [each.format(user) for each in SCOPES]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await log_in(session, running.address, running.admin, running.password)
        async with session.get(f"{running.address}/hub/token"):
            pass
        (xsrf,) = {each.value for each in session.cookie_jar if each.key == "_xsrf"}
        url = f"{running.address}/hub/api/users/{running.admin}/tokens"
        async with session.post(url, json={"scopes": scopes}, headers={"X-XSRFToken": xsrf}) as answer:
            assert answer.status == 201, await answer.text()
            return str((await answer.json())["token"])
