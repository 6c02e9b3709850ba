"""One line in the hub's log for each refused start; JupyterHub logs up to four, some with a traceback.

A refusal is an answer to a user, and no defect: its traceback names only our own code.
"""

from __future__ import annotations

import logging
from collections import deque
from pathlib import PurePath
from typing import Final

from tornado.log import app_log, gen_log

from dra_spawner.spawner.spawn_refusal import SpawnRefused

#: Sentences whose repetition by JupyterHub is left out.
_REMEMBERED: Final = 100
_REFUSAL: Final = "spawn_refused"
_OF_OTHERS: Final = frozenset(("jupyterhub", "tornado"))
#: JupyterHub's form waits a second for a start, and forgets the task: asyncio logs a later refusal as never retrieved.
_ASYNCIO_LOG: Final = logging.getLogger("asyncio")


def filter_refusals(hub_log: logging.Logger) -> None:
    """Leave one line for each refusal in the hub's log; JupyterHub's code writes into other loggers, too."""
    if not any(isinstance(each, _RefusalFilter) for each in hub_log.filters):
        shared = _RefusalFilter()
        for log in (hub_log, app_log, gen_log, _ASYNCIO_LOG):
            for each in [each for each in log.filters if isinstance(each, _RefusalFilter)]:
                log.removeFilter(each)
            log.addFilter(shared)


class _RefusalFilter(logging.Filter):
    """Drops further lines about a refusal that is logged, and the traceback of a first one."""

    def __init__(self) -> None:
        super().__init__()
        # Not the refusals: their tracebacks hold whole starts in memory.
        self._sentences: deque[str] = deque(maxlen=_REMEMBERED)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged."""
        if isinstance(refusal := getattr(record, _REFUSAL, None), SpawnRefused):
            self._note(refusal)
            return True
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, SpawnRefused):
            if error.is_logged:
                return False
            self._note(error)
            record.msg, record.args = "%s: %s", (record.getMessage(), error)
            record.exc_info = record.exc_text = None
            record.levelno = error.log_level
            record.levelname = logging.getLevelName(record.levelno)
            return True
        if not self._sentences or _OF_OTHERS.isdisjoint(PurePath(record.pathname).parts):
            return True
        said = record.getMessage()
        return not any(each in said for each in self._sentences)

    def _note(self, refusal: SpawnRefused) -> None:
        refusal.is_logged = True
        self._sentences.append(str(refusal))
