"""Whose code raised an error: the hub's own functions and classes, or KubeSpawner and this project."""

from __future__ import annotations

import sys
import traceback
from typing import Final

#: Characters of an error's text.
_LONGEST: Final = 300
_OWN: Final = frozenset(("dra_spawner", "kubespawner"))
#: Packages that KubeSpawner and the hub's own code call alike.
_LIBRARIES: Final = sys.stdlib_module_names | {
    "aiohttp",
    "jupyterhub",
    "kubernetes_asyncio",
    "sqlalchemy",
    "tornado",
    "traitlets",
}


def failure_of_others(error: BaseException) -> str:
    """Return which function of the hub's own code raised an error, and the error; empty if none did.

    An error that KubeSpawner or this project has raised because of another one counts as that one.
    """
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        # A configuration file is no module.
        package = str(frame.f_globals.get("__name__") or "").partition(".")[0]
        if package in _OWN:
            found = None
        elif found is None and package not in _LIBRARIES:
            found = frame.f_code, line
    if found is None:
        return failure_of_others(error.__cause__) if error.__cause__ is not None else ""
    code, line = found
    return (
        f"{code.co_qualname} ({code.co_filename}, line {line}) failed: {type(error).__name__}: {str(error)[:_LONGEST]}"
    )
