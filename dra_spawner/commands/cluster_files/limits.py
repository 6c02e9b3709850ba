"""Limits of files that a command reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that keep input from costing memory or time."""

    file_bytes: int
    """Maximum size of one file."""
    levels: int = 100
    """Maximum nesting. Objects of the API have about 20 levels, schemas of custom resources up to 60."""
    repeated_characters: int = 4_000_000
    """Maximum of characters that aliases and merge keys of YAML add, when written out."""
    number_characters: int = 100
    """Maximum length of a number. Longer ones fit in no field of the API."""
    has_text_keys: bool = False
    """Whether a key that is a number becomes its text, as Helm reads values; else it is refused."""


CLUSTER_FILES: Final = Limits(file_bytes=2**30)
"""Limits of kubectl's output: 40,000 devices and their pods are some hundred MB of JSON."""

PROFILE_FILES: Final = Limits(file_bytes=4 * 2**20, has_text_keys=True)
"""Limits of Helm values and lists of profiles, written by people. Helm stores values in a Secret of at most 1 MiB."""
