"""Tasks have an owner; one that fails is logged, reported and begun again."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import itertools
import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from dra_spawner.common.owned_tasks import OwnedTasks, all_of, begin_task
from tests.all_of_them import all_of_them
from tests.jumping_loop import let_pass, run_jumping
from tests.log_messages import log_messages

PACKAGE = Path(__file__).parents[2] / "dra_spawner"

OTHERS = {
    "common/owned_tasks.py": "the helper itself",
    "commands/trying/try_command.py": "the command itself awaits both of them, and ends",
    "devcluster": "the embedded cluster and the demo: for tests and trials",
    "kube/cluster_watch.py": "informers, whose end `wait_ended` passes on: the process ends",
    "kube/informer_task.py": "an informer, whose end `wait_ended` passes on",
    "kube/leader.py": "the term and its renewal, which the elector awaits",
    "placeholders/controller/placeholder_controller.py": "`wait_ended` awaits the ends of informers",
    "service/application.py": "the service itself, which `run` awaits",
    "spawner/progress/patient_reflectors.py": "the first list of KubeSpawner's reflector, for which all who need it wait",
    "spawner/user_pages/start_handler.py": "JupyterHub's own start of a server, whose end its progress tells",
    "spawner/hub_parts/hub_wide.py": "the task that owns a hub's background work; JupyterHub awaits it at its end",
}
"""Modules that may begin a task that is not in a group, each with who awaits it."""


def bare_tasks(tree: ast.AST) -> list[int]:
    """Lines that begin a task in no group."""
    names = (
        "asyncio.create_task",
        "asyncio.ensure_future",
        "asyncio.get_running_loop().create_task",
        "loop.create_task",
    )
    return [each.lineno for each in ast.walk(tree) if isinstance(each, ast.Call) and ast.unparse(each.func) in names]


def bare_tasks_of(text: str) -> list[int]:
    """Those of a module; most have not even the word."""
    return bare_tasks(ast.parse(text)) if re.search("create_task|ensure_future", text) else []


@all_of_them("order", {"the failure first": "failure", "the cancellation first": "cancellation"})
async def test_a_cancellation_at_the_time_of_a_failure_is_not_lost(order: str) -> None:
    """`asyncio.gather` alone answers with the failure, and what goes on after failures goes on for ever."""
    new_future = asyncio.get_running_loop().create_future
    answer = new_future()

    async def read_for_ever() -> None:
        while True:
            with contextlib.suppress(ValueError):
                await all_of(asyncio.gather(answer, new_future()))
            await asyncio.sleep(0.01)

    task = asyncio.create_task(read_for_ever())
    await asyncio.sleep(0)
    if order == "cancellation":
        task.cancel()
    else:
        answer.set_exception(ValueError("no answer"))
        task.cancel()
    await asyncio.wait({task}, timeout=1)
    is_ended = task.cancelled()
    task.cancel()
    assert is_ended


def test_no_gathering_loses_a_cancellation() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {ast.unparse(each)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "asyncio.gather" in (text := path.read_text())
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.Await)
        and re.match(r"await asyncio\.gather\(", written := ast.unparse(each))
        and "return_exceptions=True" not in written
    ]
    assert not found, "use dra_spawner.common.owned_tasks.all_of"


def test_no_task_is_begun_without_an_owner() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not any(path.is_relative_to(PACKAGE / other) for other in OTHERS)
        for line in bare_tasks_of(path.read_text())
    ]
    assert not found, "use dra_spawner.common.owned_tasks"
    assert bare_tasks(ast.parse("asyncio.create_task(work())\ngroup.create_task(work())")) == [1]


def counted(name: str) -> float | None:
    """Failures of a task, by the metric of the hub."""
    return REGISTRY.get_sample_value("dra_spawner_task_failures_total", {"task": name})


def test_a_failed_task_is_begun_again_with_back_off_and_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    before = counted("failing") or 0.0

    async def scene() -> None:
        loop, begun = asyncio.get_running_loop(), list[float]()

        async def failing() -> None:
            begun.append(loop.time())
            if len(begun) < 9:
                raise RuntimeError("a defect")
            await asyncio.Event().wait()

        async def stay() -> None:
            await asyncio.Event().wait()

        owner = OwnedTasks()
        async with owner as tasks:
            tasks.begin("failing", failing)
            tasks.begin("other", stay)
            await let_pass(0.5)
            assert owner.problems() == ("The task 'failing' has failed, and is begun again: RuntimeError: a defect.",)
            await let_pass(300)
            assert len(begun) == 9
            assert counted("failing") == before + 8
            assert counted("other") == 0, "its series is there before its first failure"
            pauses = [round(later - earlier) for earlier, later in itertools.pairwise(begun)]
            assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
            await let_pass(120)
            assert owner.problems() == (), "it runs well"
        async with owner:
            assert owner.problems() == (), "a new term"

    run_jumping(scene())
    assert "task=failing" in caplog.text
    assert "task=other" not in caplog.text


def test_an_end_is_clean(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        ended = list[str]()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await let_pass(1)
                ended.append("work")

        async def body(error: Exception | None) -> None:
            async with OwnedTasks() as tasks:
                tasks.begin("work", work)
                await let_pass(1)
                if error is not None:
                    raise error
                await asyncio.Event().wait()

        with pytest.raises(KeyError):  # itself, in no group of errors
            await body(KeyError("body"))
        cancelled = asyncio.ensure_future(body(None))
        await let_pass(2)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert ended == ["work", "work"], "the owner awaits its tasks"

    run_jumping(scene())
    assert not log_messages(caplog)


def test_a_cancellation_by_nobody_is_a_defect_and_a_result_is_given(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        times = list[int]()

        async def cancelled_within() -> None:
            times.append(1)
            if len(times) == 1:
                raise asyncio.CancelledError
            await asyncio.Event().wait()

        async with OwnedTasks() as tasks:
            tasks.begin("strange", cancelled_within)
            await let_pass(5)
            assert len(times) == 2

        async def defect() -> None:
            raise RuntimeError("a defect")

        await asyncio.wait((begin_task(defect(), "once"),))

    run_jumping(scene())
    assert "task=strange" in caplog.text
    assert "task=once" in caplog.text
