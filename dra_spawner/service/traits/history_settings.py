"""Settings of the history: read and checked at the start."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from dra_spawner.history.connecting import HistoryUrlError, parsed_url, url_without_password
from dra_spawner.history.settings import HistorySettings
from dra_spawner.history.user_names import UserNameMode
from dra_spawner.profiles.syntax.problems import shown
from dra_spawner.profiles.syntax.settings_reader import SettingsReader, refuse_settings

_MAX_DAYS: Final = 3650


def read_history(value: object, path: str = "history") -> HistorySettings:
    """The settings, as configured: ``{"url": "postgresql://dra@db/history", "keep_days": 365}``.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem. It shows no password.
    """
    reader = SettingsReader(value, path, 'a mapping like {"keep_days": 365}')
    default = HistorySettings()
    url = reader.value("url") or ""
    if not isinstance(url, str):
        reader.refuse("url", "a text")
    elif url:
        try:
            parsed_url(url)
        except HistoryUrlError as error:
            reader.refuse("url", str(error), shown(url_without_password(url)))
    days = reader.whole_number("keep_days", default.keep.days, 0, _MAX_DAYS)
    mode = reader.checked("user_names", UserNameMode, " or ".join(UserNameMode)) or default.user_names
    key_file = reader.text("key_file", allowed="the path of a file")
    reader.refuse_other_keys()
    refuse_settings(reader.problems)
    return HistorySettings(str(url), timedelta(days=days), mode, key_file)
