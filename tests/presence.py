"""Optional values that are present in a test."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return `value`, which is not ``None``: for a test that goes on with it."""
    assert value is not None
    return value
