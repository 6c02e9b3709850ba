"""Problems in the log: each once, and again only after it was gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from logging import Logger


class LogOnce:
    """Logs problems that last when they appear.

    Parameters
    ----------
    message
        Format of the line, with one ``%s`` for the problem.
    """

    def __init__(self, log: Logger, message: str = "%s") -> None:
        self._log = log
        self._message = message
        self._logged: frozenset[str] = frozenset()

    def present(self, problems: Iterable[str] | Mapping[str, object]) -> None:
        """Log those of the present problems that were not present at the last call.

        Parameters
        ----------
        problems
            Sentences, or sentences by what stays the same while a problem lasts.
        """
        by_key = problems if isinstance(problems, Mapping) else {each: each for each in problems}
        for key in sorted(by_key.keys() - self._logged):
            self._log.warning(self._message, by_key[key])
        self._logged = frozenset(by_key)
