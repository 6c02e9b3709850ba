"""A start that a page begins: what it refuses at once, and what fails later."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.web import HTTPError

from dra_spawner.spawner.user_pages.start_handler import BeginningHandler


class Beginning(BeginningHandler):
    """Without a request."""

    def __init__(self) -> None:
        self.fails = asyncio.Event()

    async def spawn_single_user(self, user: Any, server_name: Any = "", options: Any = None) -> None:
        await self.fails.wait()
        raise HTTPError(429, "too many starts")


async def test_a_start_that_fails_at_once_is_refused_and_one_that_fails_later_ends_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dra_spawner.spawner.user_pages.start_handler._BEGIN_SECONDS", 0.05)
    unseen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context["message"]))
    spawner, beginning = SimpleNamespace(name="", _spawn_future="of the last start"), Beginning()
    await beginning.begin_start(None, spawner, {})
    beginning.fails.set()
    with pytest.raises(HTTPError, match="too many starts"):
        await beginning.begin_start(None, spawner, {})
    await asyncio.sleep(0)
    gc.collect()
    assert (unseen, vars(spawner)["_spawn_future"]) == ([], None)
