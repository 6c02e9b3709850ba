"""What is wrong in a profile, and where, in words an administrator can act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
    """Raised where nothing is wrong but that access for administration is asked for one who is no administrator."""


def shown(value: object) -> str:
    """A value as it may stand in a message: short, on one line, hostile text made harmless."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def on_one_line(text: str) -> str:
    """Text that may be anything, such as a path with somebody's keys, made harmless for logs and terminals."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
