"""The dra-spawner service as the hub's process sees it: an entry among the hub's services, and a server that answers."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

from aiohttp import web
from jupyterhub.app import JupyterHub

from tests.local_server import serving_app

TOKEN = "the-service's-own-token"
PREFIX = "/services/dra-spawner/"

#: Availability of a choice.
WAITS = {"state": "when-stopped", "sentence": "All are in use.", "wait": {"low_seconds": 240, "high_seconds": 360}}
FREE = {"state": "free", "sentence": "It is free.", "wait": None}

Answer = Callable[[dict[str, Any]], Awaitable[web.StreamResponse | dict[str, Any]]]


class ServiceStandIn:
    """Answers as a test says.

    Attributes
    ----------
    answer
        Gets the decoded question; a mapping is sent as JSON.
    profiles
        The same for questions about availability, which have the query.
    class_news
        What is said of coming classes, as JSON; or a function that returns the whole response.
    questions
        Questions with the right token.
    """

    def __init__(self) -> None:
        self.url = ""
        self.questions: list[dict[str, Any]] = []
        self.answer: Answer = self._fresh
        self.profiles: Answer = self._none
        self.class_news: Any = {"items": []}
        self.settings: Any = {"items": []}

    @staticmethod
    async def _fresh(_: dict[str, Any]) -> dict[str, Any]:
        return {"state": "free", "node": "", "reason": "", "claims": {}, "until": None}

    @staticmethod
    async def _none(_: dict[str, Any]) -> dict[str, Any]:
        return {"items": [], "total": 0, "problem": ""}

    def always(self, response: Any) -> None:
        """Answer every question with this response."""

        async def answer(_: dict[str, Any]) -> Any:
            return response() if callable(response) else response

        self.answer = answer

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"token {TOKEN}":
            return web.json_response({"message": "who are you?"}, status=401)
        question = await request.json() if request.method == "POST" else dict(request.query)
        self.questions.append(question)
        answer = await (self.answer if request.method == "POST" else self.profiles)(question)
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    async def _tell(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"token {TOKEN}"
        told = self.settings if request.path.endswith("api/settings") else self.class_news
        return told() if callable(told) else web.json_response(told)

    @contextlib.asynccontextmanager
    async def listening(self, encryption: ssl.SSLContext | None = None) -> AsyncIterator[ServiceStandIn]:
        app = web.Application()
        app.router.add_post(f"{PREFIX}api/placements", self._handle)
        app.router.add_get(f"{PREFIX}api/profiles", self._handle)
        app.router.add_get(f"{PREFIX}api/class-news", self._tell)
        app.router.add_get(f"{PREFIX}api/settings", self._tell)
        app.router.add_post(f"{PREFIX}api/standing", self._handle)
        app.router.add_post(f"{PREFIX}api/idle-servers/keep", self._handle)
        async with serving_app(app, encryption=encryption) as self.url:
            yield self


def profile_items(**states: Any) -> dict[str, Any]:
    """Answer about availability: by choice a state, or the whole availability."""
    return {
        "items": [
            {
                "name": name,
                "availability": state
                if isinstance(state, dict)
                else {"node": "", "reason": "", "state": state, "sentence": "", "wait": None},
            }
            for name, state in states.items()
        ]
    }


@contextlib.contextmanager
def service_of_the_hub(url: str, token: str = TOKEN, name: str = "dra-spawner") -> Iterator[None]:
    """Let this process be a hub's, with a service."""
    hub = JupyterHub.instance()
    hub._service_map = {name: SimpleNamespace(url=url, prefix=f"/services/{name}/", api_token=token)}
    try:
        yield
    finally:
        JupyterHub.clear_instance()
