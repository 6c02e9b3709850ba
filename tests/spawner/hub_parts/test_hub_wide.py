"""Background work of a hub: its owner logs and counts a defect, begins it again, and ends it with the hub."""

from __future__ import annotations

import asyncio
import logging

import pytest
from prometheus_client import REGISTRY

from dra_spawner.kube.client.api_errors import KubernetesError, RequestTarget
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub, retry_until_done, run_periodically, this_hub
from tests.jumping_loop import let_pass, run_jumping

LOG = logging.getLogger("test.hub")


def counted(name: str) -> float:
    return REGISTRY.get_sample_value("dra_spawner_task_failures_total", {"task": name}) or 0.0


def test_a_defect_is_logged_and_counted_and_the_work_is_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        begun = {"once": 0, "sweep users": 0, "serving": 0}

        async def defect(name: str) -> bool:
            begun[name] += 1
            if begun[name] < 4:
                raise RuntimeError("a defect")
            return True

        async def sweep() -> None:
            await defect("sweep users")

        before = {name: counted(name) for name in begun}
        once = this_hub().begin(defect("once"), "once")
        serving = this_hub().begin(retry_until_done(lambda: defect("serving"), "serve forms", LOG), "serving")
        this_hub().run_once(("sweep", "users"), lambda: run_periodically(sweep, lambda: 300.0, "Not swept", LOG))
        await let_pass(10)
        assert once.done()
        assert serving.done(), "a clean-up goes on after a defect"
        assert begun == {"once": 1, "sweep users": 4, "serving": 4}
        assert {name: counted(name) - before[name] for name in begun} == {"once": 1, "sweep users": 3, "serving": 3}
        await let_pass(300)
        assert begun["sweep users"] == 5
        forget_hub()
        await let_pass(1)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "cancellation ends it"

    run_jumping(scene())
    for name in ("once", "sweep users", "serving"):
        assert f"task={name}" in caplog.text


@pytest.mark.parametrize(("status", "is_given_up"), [(0, False), (503, False), (403, True)])
def test_a_clean_up_waits_for_an_api_server_that_is_away(status: int, is_given_up: bool) -> None:
    async def scene() -> None:
        away = True

        async def delete() -> bool:
            if away:
                raise KubernetesError(RequestTarget("delete", "pods"), status=status, reason="", message="")
            return True

        removal = this_hub().begin(retry_until_done(delete, "delete a pod", LOG), "removal")
        await let_pass(3600)
        assert removal.done() is is_given_up
        away = False
        await let_pass(60)
        assert removal.done()

    run_jumping(scene())


@pytest.mark.parametrize("how", ["all tasks are cancelled, as JupyterHub does", "the hub is forgotten at once"])
def test_the_end_of_the_hub_awaits_all_background_work(how: str) -> None:
    async def scene() -> None:
        ended = list[str]()

        async def work(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await let_pass(1)
                ended.append(name)

        this_hub().run_once("periodic", lambda: work("periodic"))
        this_hub().begin(work("single"), "single")
        await let_pass(1)
        if how.startswith("all"):
            (owner,) = (each for each in asyncio.all_tasks() if each.get_name() == "background work of the hub")
            owner.cancel()
            await asyncio.wait((owner,))
            assert sorted(ended) == ["periodic", "single"], "the owner awaits them"
        else:
            forget_hub()
            this_hub().begin(work("next"), "of the next hub")  # is not ended
            await let_pass(3)
            assert sorted(ended) == ["periodic", "single"]
        forget_hub()
        await let_pass(3)

    run_jumping(scene())


def test_a_clean_up_that_begins_at_the_end_of_the_hub_delays_it_by_seconds_only() -> None:
    async def scene() -> None:
        loop, cleaned = asyncio.get_running_loop(), list[str]()

        async def clean_up(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            cleaned.append(name)

        async def start() -> None:
            try:
                await loop.create_future()
            finally:
                this_hub().begin(clean_up("quick", 1), "quick")
                this_hub().begin(clean_up("slow", 600), "slow")

        started = asyncio.create_task(start())
        this_hub().begin(clean_up("cancelled", 600), "single")
        await let_pass(1)
        others, ends = asyncio.all_tasks() - {asyncio.current_task()}, loop.time() + 10
        for each in others:
            each.cancel()
        await asyncio.wait(others)
        assert started.done()
        assert cleaned == ["quick"]
        assert loop.time() < ends
        forget_hub()

    run_jumping(scene())
