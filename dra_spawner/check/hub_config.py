"""The spawner's traits from a hub's configuration file, which is run as JupyterHub runs it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue, PyFileConfigLoader
from traitlets.utils.importstring import import_item

from dra_spawner.check.profiles_found import ProfilesFound
from dra_spawner.fit.input_errors import InputError

__all__ = ["error_in", "profiles_of_hub_config", "spawner_settings"]


def profiles_of_hub_config(path: Path) -> ProfilesFound:
    """The profiles of a ``jupyterhub_config.py``.

    Raises
    ------
    InputError
        If it cannot be run; the error has the line.
    """
    try:
        config = PyFileConfigLoader(path.name, str(path.resolve().parent)).load_config()
    except (Exception, SystemExit) as error:
        raise error_in(str(path), str(path.resolve()), error) from error
    settings = spawner_settings(config)
    return ProfilesFound(str(path), settings.pop("profile_list", None), settings)


def error_in(file: str, code_file: str, error: BaseException) -> InputError:
    """Describe an error of executed Python code, with its last line in that file.

    Parameters
    ----------
    file
        The file's name in the message.
    code_file
        The file's name in the traceback.
    """
    line = 0
    if isinstance(error, SyntaxError) and error.filename == code_file:
        line = error.lineno or 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == code_file:
            line = frame.lineno or line
    return InputError(file, line, "", f"ends with {type(error).__name__}: {error}")


def spawner_settings(config: Config) -> dict[str, Any]:
    """The configured traits of the hub's spawner; its class overrides its base classes."""
    settings: dict[str, Any] = {}
    for section in _sections(config):
        for name, value in config.get(section, {}).items():
            settings[name] = _value(name, value, settings)
    return settings


def _sections(config: Config) -> list[str]:
    # Imported here, as it loads JupyterHub: input that cannot be read is refused before.
    from dra_spawner.spawner import DRASpawner

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
    """A value as the spawner sees it: ``+=``, ``append`` and ``update`` are applied to the default."""
    if isinstance(value, LazyConfigValue):
        from dra_spawner.spawner import DRASpawner

        default = DRASpawner.class_traits()[name].default() if name in DRASpawner.class_traits() else None
        return value.get_value(before.get(name, default))
    return value.to_dict() if isinstance(value, Config) else value
