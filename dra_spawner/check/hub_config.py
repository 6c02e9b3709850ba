"""The spawner's traits out of a hub's configuration file, which is run as JupyterHub runs it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue, PyFileConfigLoader
from traitlets.utils.importstring import import_item

from dra_spawner.check.profiles_found import ProfilesFound
from dra_spawner.fit.errors import InputError
from dra_spawner.spawner import DRASpawner

__all__ = ["error_in", "profiles_of_hub_config", "spawner_settings"]


def profiles_of_hub_config(path: Path) -> ProfilesFound:
    """What a ``jupyterhub_config.py`` configures.

    Raises
    ------
    InputError
        When it cannot be run, with the line.
    """
    try:
        config = PyFileConfigLoader(path.name, str(path.resolve().parent)).load_config()
    except (Exception, SystemExit) as error:
        raise error_in(str(path), str(path.resolve()), error) from error
    settings = spawner_settings(config)
    return ProfilesFound(str(path), settings.pop("profile_list", None), settings)


def error_in(file: str, code_file: str, error: BaseException) -> InputError:
    """What went wrong when Python code was run, with its last line in that file.

    Parameters
    ----------
    file
        What to call it.
    code_file
        What the traceback calls it.
    """
    line = 0
    if isinstance(error, SyntaxError) and error.filename == code_file:
        line = error.lineno or 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == code_file:
            line = frame.lineno or line
    return InputError(file, line, "", f"ends with {type(error).__name__}: {error}")


def spawner_settings(config: Config) -> dict[str, Any]:
    """The traits of the hub's spawner that are set: those of its class, over those of the classes it is made of."""
    settings: dict[str, Any] = {}
    for section in _sections(config):
        for name, value in config.get(section, {}).items():
            settings[name] = _value(name, value, settings)
    return settings


def _sections(config: Config) -> list[str]:
    chosen = config.get("JupyterHub", {}).get("spawner_class")
    if isinstance(chosen, str) and "." in chosen:
        try:
            chosen = import_item(chosen)
        except ImportError:
            chosen = None
    spawner = chosen if isinstance(chosen, type) and issubclass(chosen, DRASpawner) else DRASpawner
    names = [each.__name__ for each in reversed(spawner.__mro__)]
    return [name for name in names if name in config]


def _value(name: str, value: object, before: Mapping[str, Any]) -> object:
    """A value as the spawner would see it: ``+=``, ``append`` and ``update`` on what is the default."""
    if isinstance(value, LazyConfigValue):
        default = DRASpawner.class_traits()[name].default() if name in DRASpawner.class_traits() else None
        return value.get_value(before.get(name, default))
    return value.to_dict() if isinstance(value, Config) else value
