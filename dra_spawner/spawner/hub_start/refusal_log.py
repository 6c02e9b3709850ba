"""One line in the hub's log for each refused start; JupyterHub logs up to four, some with a traceback.

A refusal is an answer to a user, and no defect: its traceback names only our own code.
"""

from __future__ import annotations

import logging
from collections import deque
from pathlib import PurePath
from typing import Final

from dra_spawner.spawner.spawn_refusal import SpawnRefused

__all__ = ["RefusalFilter"]

#: Sentences whose repetition by JupyterHub is left out.
_REMEMBERED: Final = 100
_REFUSAL: Final = "spawn_refused"
_OF_OTHERS: Final = frozenset(("jupyterhub", "tornado"))


class RefusalFilter(logging.Filter):
    """Drops further lines about a refusal that is logged, and the traceback of a first one."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: deque[SpawnRefused] = deque(maxlen=_REMEMBERED)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged."""
        if isinstance(refusal := getattr(record, _REFUSAL, None), SpawnRefused):
            self._logged.append(refusal)
            return True
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, SpawnRefused):
            if any(each is error for each in self._logged):
                return False
            self._logged.append(error)
            record.msg, record.args = "%s: %s", (record.getMessage(), error)
            record.exc_info = record.exc_text = None
            record.levelno = error.log_level
            record.levelname = logging.getLevelName(record.levelno)
            return True
        if not self._logged or _OF_OTHERS.isdisjoint(PurePath(record.pathname).parts):
            return True
        said = record.getMessage()
        return not any(str(each) in said for each in self._logged)
