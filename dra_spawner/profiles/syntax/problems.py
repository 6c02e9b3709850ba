"""What is wrong in a profile, and where, in words an administrator can act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Problem:
    """One wrong value in the configuration.

    Attributes
    ----------
    path
        Where it stands, for example ``profile_list[1].kubespawner_override.device_claims.gpu.count``.
    found
        What stands there, as Python or YAML would write it; empty if something is missing.
    allowed
        What may stand there, as the rest of a sentence ("a whole number from 1 to 32").
    """

    path: str
    found: str
    allowed: str

    @property
    def message(self) -> str:
        """What is wrong, without the place."""
        found = f"found {self.found}" if self.found else "nothing found"
        return f"{found}; allowed: {self.allowed}"

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class ProfileError(ValueError):
    """Raised where ``device_claims`` or a profile list cannot be used; carries every problem found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class AdminAccessRefused(ProfileError):
    """Raised where the only problem is administrative access for a user who is no administrator."""


_LONGEST_SHOWN: Final = 80
_LARGE_BITS: Final = 1_000
"""Numbers that Python may refuse to print have more."""


def shown(value: object) -> str:
    """A value as it may stand in a message: short, on one line, hostile text made harmless."""
    text = _beginning(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _beginning(value: object, levels: int = 20) -> str:
    """What ``repr`` says, for values of any size: as much of it as is shown, and a little more."""
    if type(value) is str:
        return repr(value[: _LONGEST_SHOWN + 1])
    if type(value) is int:
        return repr(value) if value.bit_length() < _LARGE_BITS else "a very large number"
    if type(value) not in (dict, list) or not value:
        return repr(value)
    opening, closing = "{}" if type(value) is dict else "[]"
    if not levels:
        return f"{opening}...{closing}"
    text = ""
    for key in value:  # type: ignore[attr-defined]
        text += f"{', ' if text else opening}{_beginning(key, levels - 1)}"
        if type(value) is dict:
            text += f": {_beginning(value[key], levels - 1)}"
        if len(text) > _LONGEST_SHOWN:
            return text
    return text + closing


def on_one_line(text: str) -> str:
    """Any text, such as a path with a user's keys, made harmless for logs and terminals."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


_LONGEST_ALLOWED: Final = 3_000
"""Characters; names of 32 requests are two thirds of that."""


def allowed_text(text: str) -> str:
    """What may stand somewhere, in words that may quote names of any length: bounded, and on one line."""
    return on_one_line(text if len(text) <= _LONGEST_ALLOWED else f"{text[:_LONGEST_ALLOWED]}...")
