"""What an administrator says about the history, read and refused early."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from dra_spawner.history.connecting import HistoryUrlError, parsed_url
from dra_spawner.history.settings import HistorySettings
from dra_spawner.history.user_names import UserNameMode
from dra_spawner.profiles.problems import Problem, shown

__all__ = ["HistorySettingsError", "read_history"]

_KEYS: Final = ("url", "keep_days", "user_names", "key_file")
_MOST_DAYS: Final = 3650


class HistorySettingsError(ValueError):
    """Raised where settings of the history make no sense; carries every problem found."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))


def read_history(value: object, path: str = "history") -> HistorySettings:
    """The settings, as configured: ``{"url": "postgresql://dra@db/history", "keep_days": 365}``.

    Raises
    ------
    HistorySettingsError
        With path, what was found and what is allowed, for everything that is wrong. It shows no password.
    """
    if not isinstance(value, Mapping):
        raise HistorySettingsError([Problem(path, shown(value), 'a mapping like {"keep_days": 365}')])
    problems = [
        Problem(f"{path}.{key}", shown(key), f"the keys {', '.join(_KEYS)}") for key in value if key not in _KEYS
    ]
    default = HistorySettings()
    url = value.get("url", "")
    if not isinstance(url, str):
        problems.append(Problem(f"{path}.url", shown(url), "a text"))
    elif url:
        try:
            parsed_url(url)
        except HistoryUrlError as error:
            problems.append(Problem(f"{path}.url", shown(_without_password(url)), str(error)))
    days = value.get("keep_days", default.keep.days)
    if not isinstance(days, int) or isinstance(days, bool) or not 0 <= days <= _MOST_DAYS:
        problems.append(Problem(f"{path}.keep_days", shown(days), f"a whole number from 0 to {_MOST_DAYS}"))
    mode = value.get("user_names", default.user_names.value)
    if mode not in [each.value for each in UserNameMode]:
        problems.append(Problem(f"{path}.user_names", shown(mode), " or ".join(UserNameMode)))
    key_file = value.get("key_file", "")
    if not isinstance(key_file, str):
        problems.append(Problem(f"{path}.key_file", shown(key_file), "the path of a file"))
    if problems:
        raise HistorySettingsError(problems)
    return HistorySettings(url, timedelta(days=days), UserNameMode(mode), key_file)


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url.partition(":")[0]
