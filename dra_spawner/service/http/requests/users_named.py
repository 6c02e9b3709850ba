"""A user of JupyterHub with groups, as the hub names them in a question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado.web import HTTPError

USER_KEYS: Final = ("user", "groups")
MOST_GROUPS: Final = 1_000
_LONGEST: Final = 255
_NOT_UNICODE: Final = re.compile("[\ud800-\udfff]")


def user_and_groups(question: Mapping[str, Any]) -> tuple[str, list[str]]:
    """User and groups of a question; empty if it names none.

    Raises
    ------
    HTTPError
        400 for values that are no names.
    """
    user, groups = question.get("user", ""), question.get("groups", [])
    if not _is_name(user):
        raise HTTPError(400, "user: allowed: a name of a user, %d characters at most.", _LONGEST)
    if not isinstance(groups, list) or len(groups) > MOST_GROUPS or not all(map(_is_name, groups)):
        allowed = f"a list of {MOST_GROUPS} names at most, each of {_LONGEST} characters at most"
        raise HTTPError(400, "groups: allowed: %s.", allowed)
    return user, groups


def _is_name(value: object) -> bool:
    # A JSON string may not be valid Unicode, and then nothing can be computed of it.
    return isinstance(value, str) and len(value) <= _LONGEST and not _NOT_UNICODE.search(value)
