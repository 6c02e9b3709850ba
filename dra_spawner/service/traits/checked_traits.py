"""Settings that are mappings: checked when they are set, and without secrets in messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from traitlets import Dict, TraitError

from dra_spawner.profiles.syntax.settings_reader import SettingsError


def checked(proposal: Any, read: Callable[[Any], object]) -> Any:
    """The proposed value of a setting.

    Raises
    ------
    TraitError
        If the setting's reader refuses it.
    """
    try:
        read(proposal["value"])
    except SettingsError as error:
        raise TraitError(str(error)) from None
    return proposal["value"]


class SecretDict(Dict):  # type: ignore[misc]
    """A mapping that no error message shows."""

    def error(self, obj: Any, value: Any, error: Exception | None = None, info: str | None = None) -> NoReturn:
        """Refuse a value by its type.

        Raises
        ------
        TraitError
            Always.
        """
        raise TraitError(f"{self.name} must be a mapping; found a value of the type {type(value).__name__}")
