"""Names of users in the database: keyed hashes by default, or plain names."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

KEY_BYTES: Final = 32
_SHOWN_CHARACTERS: Final = 32


class UserNameMode(StrEnum):
    """Form in which names of users are stored."""

    HASHED = "hashed"
    PLAIN = "plain"


class UserNames:
    """Converts names into their stored form.

    Parameters
    ----------
    key
        At least `KEY_BYTES` random bytes. Without the key a hash can neither be reversed nor compared with a name.
    """

    def __init__(self, key: bytes, mode: UserNameMode = UserNameMode.HASHED) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"a key of {len(key)} bytes is too short; it needs {KEY_BYTES}")
        self._key = key
        self.mode = mode

    @property
    def is_hashed(self) -> bool:
        """Whether names are stored as hashes."""
        return self.mode is UserNameMode.HASHED

    def hash(self, name: str) -> str:
        """The keyed hash of a name: HMAC with SHA-256, 128 bits in hexadecimal digits; empty for an empty name."""
        if not name:
            return ""
        return hmac.digest(self._key, name.encode(errors="surrogatepass"), "sha256").hex()[:_SHOWN_CHARACTERS]

    def stored(self, name: str) -> str:
        """The stored form of a name."""
        return self.hash(name) if self.is_hashed else name

    def stored_text(self, names: Iterable[str], text: str) -> str:
        """A text in which each of the names, as a whole word, is replaced by its stored form."""
        wanted = sorted(filter(None, set(names)), key=len, reverse=True)
        if not wanted or not text:
            return text
        # A name in Kubernetes may have dots and hyphens inside; it ends before the full stop of a sentence.
        words = rf"(?<![\w.-])(?:{'|'.join(map(re.escape, wanted))})(?![\w-])(?!\.\w)"
        return re.sub(words, lambda found: self.stored(found[0]), text)
