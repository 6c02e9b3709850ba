"""Settings whose values may be secret, such as addresses with passwords."""

from __future__ import annotations

from typing import Any, NoReturn

from traitlets import Dict, TraitError

__all__ = ["SecretDict"]


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
