"""Background work of a hub: a defect is logged with a name, and what runs for ever is begun again."""

from __future__ import annotations

import asyncio

import pytest

from dra_spawner.spawner.hub_wide import forget_hub, in_background, run_once
from tests.jumping_loop import let_pass, run_jumping


def test_a_defect_is_logged_and_periodic_work_is_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        begun = list[int]()

        async def defect() -> None:
            begun.append(1)
            raise RuntimeError("a defect")

        await asyncio.wait((in_background(defect()),))
        assert "defect" in caplog.text
        run_once(("sweep", "users"), defect)
        await let_pass(10)
        assert len(begun) >= 4
        assert "task=sweep users" in caplog.text
        forget_hub()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "cancellation ends it"

    run_jumping(scene())
