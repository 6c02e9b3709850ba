"""How large a file may be that a command reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CLUSTER_FILES", "PROFILE_FILES", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is refused before it costs memory or time."""

    file_bytes: int
    """Of one file."""
    levels: int = 100
    """Of mappings and lists in one another. Objects of the API have about 20, schemas of custom resources up to 60."""
    repeated_characters: int = 4_000_000
    """What aliases and merge keys of YAML may add in all, as if it was written out."""
    number_characters: int = 100
    """Of a number. Longer ones fit in no field of the API."""


CLUSTER_FILES: Final = Limits(file_bytes=2**30)
"""What kubectl printed: 40,000 devices and their pods are some hundred MB of JSON."""

PROFILE_FILES: Final = Limits(file_bytes=4 * 2**20)
"""Values of a chart or a list of profiles, written by people. Helm keeps values in a Secret of at most 1 MiB."""
