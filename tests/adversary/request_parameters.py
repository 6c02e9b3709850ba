"""Parameters of requests at the service."""

from __future__ import annotations

from typing import Final

_WORDS: Final = (
    "limit after continue name server kind profile node live search before hours code state error token _xsrf"
)
PARAMETERS: Final = tuple(_WORDS.split())
