"""Groups of JupyterHub's users: from the hub's REST API, or from a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from dra_spawner.history.imports.http_source import hub_items, is_http, read_json, shown_source
from dra_spawner.history.imports.imported_rows import SourceError, quoted

_ALLOWED: Final = 'a list like [{"name": "maths", "users": ["ada"]}], as GET /groups answers, or {"maths": ["ada"]}'


def read_groups(source: str, token: str, stored: Callable[[str], str]) -> Mapping[str, tuple[str, ...]]:
    """Groups of each user.

    Parameters
    ----------
    source
        URL of the hub's REST API, or a file with the answer to ``GET /groups``; empty for no groups.
    token
        Token for the REST API, with the scopes ``list:groups`` and ``read:groups``.
    stored
        The form in which the history has a user's name.

    Raises
    ------
    SourceError
        If it cannot be read.
    """
    if not source:
        return {}
    items: Iterable[Any]
    if is_http(source):
        items = hub_items(source, "groups", token)
    else:
        found = read_json(source)
        is_mapping = isinstance(found, dict)
        items = [{"name": name, "users": users} for name, users in found.items()] if is_mapping else found
        if not isinstance(items, list):
            raise SourceError(f"{source}: found {quoted(found)}; allowed: {_ALLOWED}")
    groups: dict[str, set[str]] = defaultdict(set)
    for item in items:
        name, users = (item.get("name"), item.get("users")) if isinstance(item, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(users, list) or not all(isinstance(each, str) for each in users):
            raise SourceError(f"{shown_source(source)}: found {quoted(item)}; allowed: {_ALLOWED}")
        for user in users:
            groups[stored(user)].add(name)
    return {user: tuple(sorted(of_user)) for user, of_user in groups.items()}
