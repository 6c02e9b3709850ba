"""Requests of a user's browser to a hub, through its proxy."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.polling import eventually

_SECONDS = 240


class BrowserSession:
    """Cookies of one user.

    Parameters
    ----------
    url
        Of the hub, with its base URL, without a slash at its end.
    """

    def __init__(self, url: str, user: str, password: str = "") -> None:
        self.url = url
        self.user = user
        self._password = password
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True), timeout=aiohttp.ClientTimeout(total=_SECONDS)
        )

    async def __aenter__(self) -> Self:
        page = await self.get("/hub/login")
        form = {"username": self.user, "password": self._password, "_xsrf": field(page, "_xsrf")}
        async with self._session.post(f"{self.url}/hub/login", data=form, allow_redirects=False) as answer:
            assert answer.status == 302, await answer.text()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str) -> str:
        """A page; redirections are followed, as for a service's login at the hub."""
        status, text = await self.ask(path)
        assert status == 200, f"{path}: {status} {text[:2000]}"
        return text

    async def ask(self, path: str) -> tuple[int, str]:
        """Status and text of a page."""
        async with self._session.get(self.url + path) as answer:
            return answer.status, await answer.text()

    async def json(self, method: str, path: str, *, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Status and answer of a question of a page's script, decoded if it is JSON.

        Parameters
        ----------
        headers
            Other ones than those of the page.
        """
        sent = await self._headers() if headers is None else headers
        async with self._session.request(method, self.url + path, headers=sent, allow_redirects=False) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await answer.json() if is_json else await answer.text()

    async def start(self, **chosen: str) -> list[dict[str, Any]]:
        """Choose in the form, and follow the progress to its end; the events."""
        await self.get("/hub/spawn")
        async with self._session.post(
            f"{self.url}/hub/spawn", data=chosen, headers=await self._headers(), allow_redirects=False
        ) as answer:
            assert answer.status == 302, await answer.text()
        events = []
        async with self._session.get(
            f"{self.url}/hub/api/users/{self.user}/server/progress", headers=await self._headers()
        ) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if line.startswith(b"data:"):
                    events.append(json.loads(line[5:]))
        return events

    async def refusal(self, method: str = "POST", **request: Any) -> tuple[int, str]:
        """Status and text of the page that answers a form, or a link, whose choices are refused.

        JupyterHub shows a start that fails after a second on another page; the request is repeated then.
        """

        async def answer() -> tuple[int, str] | None:
            async with self._session.request(
                method,
                f"{self.url}/hub/spawn/{self.user}",
                headers=await self._headers(),
                allow_redirects=False,
                **request,
            ) as page:
                return None if page.status == HTTPStatus.FOUND else (page.status, await page.text())

        return await eventually(answer, "JupyterHub answers with the form")

    async def stop(self) -> None:
        """Stop the server, as the button of the home page does."""
        async with self._session.delete(
            f"{self.url}/hub/api/users/{self.user}/server", headers=await self._headers()
        ) as answer:
            assert answer.status in (202, 204), await answer.text()

    async def change(self, path: str, body: Any, method: str = "PUT") -> None:
        """Change something of a service, as a user's script does: with a token that the user makes for it."""
        tokens = f"{self.url}/hub/api/users/{self.user}/tokens"
        async with self._session.post(tokens, json={}, headers=await self._headers()) as answer:
            assert answer.status == 201, await answer.text()
            headers = {"Authorization": f"token {(await answer.json())['token']}"}

        async def is_changed() -> bool:
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.request(method, self.url + path, json=body) as answer,
            ):
                # 503 while another replica becomes the leader.
                assert answer.status in (200, 201, 503), await answer.text()
                return answer.status != 503

        await eventually(is_changed, f"{method} {path}")

    async def _headers(self) -> dict[str, str]:
        found = re.search(r'xsrf_token: "([^"]+)"', await self.get("/hub/home"))
        assert found is not None
        return {"X-XSRFToken": found[1]}


def field(page: str, name: str) -> str:
    """Value of a hidden field of a form."""
    found = re.search(rf'name="{name}"\s+value="([^"]*)"', page)
    assert found is not None, page[:2000]
    return found[1]


def error_in(page: str) -> str:
    """The sentence above a form whose choices were refused."""
    found = re.search(r"spawn-error-msg[^>]*>(.*?)</p>", page, re.DOTALL)
    return html.unescape(found[1]).strip() if found else ""
