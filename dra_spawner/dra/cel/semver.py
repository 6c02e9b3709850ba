"""Versions: semver 2.0, as device attributes and ``semver()`` hold them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

_UINT64_MAX: Final = 2**64 - 1
_MAX_KEPT: Final = 256
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER: Final = rf"(?:{_NUMBER}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_SYNTAX: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?\Z"
)
_Key: TypeAlias = tuple[int, int, int, int, tuple[tuple[int, int | str], ...]]


class SemverError(ValueError):
    """A text that is no version."""


class Semver:
    """A version. Order and equality are semver's: build metadata does not count.

    Parameters
    ----------
    text
        ``major.minor.patch[-prerelease][+build]``, numbers within 64 bits.

    Raises
    ------
    SemverError
        When the text is something else.
    """

    __slots__ = ("key", "text")

    key: _Key
    """What order and equality go by."""

    text: str
    """As written, build metadata included."""

    def __init__(self, text: str) -> None:
        match = _SYNTAX.match(text)
        if match is None:
            raise SemverError(f"{text[:64]!r} is not a semantic version")
        major, minor, patch, prerelease, _ = match.groups()
        identifiers = prerelease.split(".") if prerelease else []
        self.text = text
        self.key = (
            _number(major),
            _number(minor),
            _number(patch),
            0 if identifiers else 1,
            tuple((0, _number(part)) if part.isdigit() else (1, part) for part in identifiers),
        )

    @classmethod
    def parse(cls, text: str, *, normalize: bool = False) -> Semver:
        """Parse, keeping the last results.

        Parameters
        ----------
        normalize
            Also accept a leading ``v``, one or two parts instead of three, and leading zeros.

        Raises
        ------
        SemverError
            When it is none.
        """
        parse = _parse_normalized if normalize else _parse
        return parse(text) if len(text) <= _MAX_KEPT else parse.__wrapped__(text)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Semver) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Semver({self.text!r})"


def is_version(text: object) -> bool:
    """Whether this is a semantic version."""
    try:
        Semver.parse(str(text))
    except SemverError:
        return False
    return True


def _number(digits: str) -> int:
    if len(digits) > 20 or int(digits) > _UINT64_MAX:
        raise SemverError(f"{digits[:64]} is more than 64 bits")
    return int(digits)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Semver:
    return Semver(text)


@lru_cache(maxsize=1024)
def _parse_normalized(text: str) -> Semver:
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if any(char in "+-" for char in parts[-1]):
            raise SemverError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return Semver.parse(".".join(parts))


def _without_leading_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in tuple("0123456789") else f"0{stripped}"
