"""Whether an answer can be the present state of a collection, or is a proxy's, an old state or another kind."""

from __future__ import annotations

from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.versions import OLDER_STATE, is_older


class WrongAnswer(Exception):
    """Raised for an answer that cannot be the present state of a collection; the message says why."""


class AnswerChecks:
    """Checks lists and watch events of one collection against the newest version that was seen.

    Informers list with no ``resourceVersion``, to which an API server answers with its newest state. So an older list
    is a failure, whatever it lacks. A newer list is believed: an empty one is legitimate, but must come twice in a row.

    Attributes
    ----------
    newest
        Version of the last list or event that was taken in; empty before the first.
    """

    def __init__(self, kind: str, plural: str) -> None:
        self.newest = ""
        self._kind = kind
        self._plural = plural
        self._is_emptied = False

    def version_of_list(self, page: JsonObject) -> str:
        """The version of a page of a list.

        Raises
        ------
        WrongAnswer
            If it has another kind, objects of another kind or no version, or is older than what was seen.
        """
        for item in page.get("items") or ():
            if isinstance(item, dict):
                _check_kind(item, self._kind)
        return self._version(page, f"{self._kind}List")

    def version_of_event(self, obj: Any) -> str:
        """The version of the object of a watch event; raises as `version_of_list`."""
        return self._version(obj, self._kind)

    def check_removal(self, gone: int, known: int, version: str) -> None:
        """Check a list that lacks objects.

        Parameters
        ----------
        gone
            Number of known objects that it lacks.
        known
            Number of all known objects, with those that are new in the list.

        Raises
        ------
        WrongAnswer
            If they may still exist.
        """
        if gone and version == self.newest:
            raise WrongAnswer(f"the API server lists {gone} {self._plural} less than before, in the same version")
        # That all objects of a kind are gone is rare, and has the largest effect.
        was_emptied, self._is_emptied = self._is_emptied, bool(gone) and gone == known
        if self._is_emptied and not was_emptied:
            raise WrongAnswer(f"the API server lists no {self._plural}, where {gone} were; it is asked again")

    def _version(self, obj: JsonObject, kind: str) -> str:
        _check_kind(obj, kind)
        version = obj["metadata"].get("resourceVersion")
        if not isinstance(version, str) or not version:
            raise WrongAnswer(f"the API server answers with a {kind} without a resourceVersion")
        if is_older(version, self.newest):
            raise WrongAnswer(OLDER_STATE.format(version=version, newest=self.newest))
        return version


def _check_kind(obj: JsonObject, kind: str) -> None:
    """Raise if an object says that it is of another kind; objects in lists do not say their kind."""
    if obj.get("kind", kind) != kind:
        raise WrongAnswer(f"the API server answers with a {obj['kind']!s:.100} instead of a {kind}")
