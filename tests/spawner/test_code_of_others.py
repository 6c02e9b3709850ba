"""Whose code raised an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from dra_spawner.spawner.code_of_others import failure_of_others
from tests.all_of_them import all_of_them


def code_of(text: str, module: str | None) -> Any:
    """The function ``run`` of a text, in a module, or in a configuration file, which is none."""
    variables: dict[str, Any] = {"asyncio": asyncio, "json": json}
    if module is not None:
        variables["__name__"] = module
    exec(compile(text, f"{module or 'jupyterhub_config'}.py", "exec"), variables)
    return variables["run"]


FAILS = "def run(call=None):\n    return 1 / 0\n"
IN_A_LIBRARY = "def run(call=None):\n    return json.loads('{')\n"
OF_A_CLASS = "class Own:\n    async def start(self):\n        return {}['x']\n\n\nasync def run(call=None):\n    await Own().start()\n"
WAITS = "async def run(call=None):\n    async with asyncio.timeout(0):\n        await asyncio.sleep(9)\n"
AWAITS = "async def run(call):\n    found = call()\n    return await found if asyncio.iscoroutine(found) else found\n"
CALLS = "def run(call):\n    return call()\n"
WRAPS = "def run(call):\n    try:\n        call()\n    except Exception as error:\n        raise RuntimeError('refused') from error\n"
OURS, KUBESPAWNER, LIBRARY = "dra_spawner.spawner.x", "kubespawner.spawner", "jupyterhub.utils"


@all_of_them(
    "text, module, callers, named",
    {
        "a configuration file": (FAILS, None, (), "run (jupyterhub_config.py, line 2) failed: ZeroDivisionError: division"),
        "a module": (FAILS, "my_hub.spawner", (), "run (my_hub.spawner.py, line 2) failed"),
        "a library that it calls": (IN_A_LIBRARY, None, (), "run (jupyterhub_config.py, line 2) failed: JSONDecodeError"),
        "a method": (OF_A_CLASS, None, (), "run (jupyterhub_config.py, line 7) failed: KeyError: 'x'"),
        "a time limit of its own": (WAITS, None, (), "run (jupyterhub_config.py, line 2) failed: TimeoutError"),
        "by KubeSpawner": (FAILS, None, ((CALLS, KUBESPAWNER),), "run (jupyterhub_config.py"),
        "by KubeSpawner and JupyterHub": (FAILS, None, ((CALLS, LIBRARY), (CALLS, KUBESPAWNER)), "run (jupyterhub_config"),
        "by another function": (FAILS, "a", ((CALLS, "b"), (CALLS, OURS)), "run (b.py, line 2) failed"),
        "told as a refusal": (FAILS, None, ((WRAPS, OURS),), "run (jupyterhub_config.py, line 2) failed: ZeroDivision"),
        "ours": (FAILS, OURS, (), ""),
        "KubeSpawner's": (FAILS, KUBESPAWNER, (), ""),
        "a library's that KubeSpawner calls": (FAILS, LIBRARY, ((CALLS, KUBESPAWNER),), ""),
        "ours below the hub's class": (FAILS, OURS, ((CALLS, "my_hub"), (CALLS, KUBESPAWNER)), ""),
    },
)  # fmt: skip
async def test_an_error_has_the_name_of_the_hubs_own_code(
    text: str, module: str | None, callers: tuple[tuple[str, str], ...], named: str
) -> None:
    work: Callable[[], Any] = code_of(text, module)
    # The test's own frames count as others' code, too: ours follow them.
    for caller, of in (*callers, (AWAITS, OURS)):
        work = partial(code_of(caller, of), work)
    try:
        await work()
    except Exception as error:
        found = failure_of_others(error)
    assert found.startswith(named)
    assert bool(found) == bool(named)


def test_an_error_that_was_never_raised_is_nobodys() -> None:
    assert failure_of_others(ValueError("x")) == ""
