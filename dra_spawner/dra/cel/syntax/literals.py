"""Literals: reading them, and writing any text as one."""

from __future__ import annotations

import math
import re
from typing import Final

from dra_spawner.dra.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{char: char for char in "\\'\"`?"},
}
_ESCAPES: Final = re.compile(r"\\([abfnrtv\\'\"`?]|[xX]..|u....|U........|[0-3]..)", re.DOTALL)
_UNSAFE: Final = re.compile(r"[\x00-\x1f\"\\\x7f-\xa0\xad\u2028\u2029\ufeff\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
_WRITTEN_ESCAPES: Final = {value: f"\\{char}" for char, value in _SIMPLE_ESCAPES.items() if char not in "'`?"}


def cel_string_literal(text: str) -> str:
    """Quote any text so that it stands for itself inside an expression and cannot end the literal it stands in.

    Control characters, quotes, backslashes and invisible characters are escaped; the rest stays readable.

    Raises
    ------
    ValueError
        When the text holds a lone surrogate: that is no Unicode text, and CEL cannot express it.
    """
    for char in text:
        if "\ud800" <= char <= "\udfff":
            raise ValueError(f"not Unicode text: lone surrogate {ord(char):#06x}")
    return '"' + _UNSAFE.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    return _WRITTEN_ESCAPES.get(char) or f"\\u{ord(char):04x}"


def parse_int(text: str) -> int:
    """Value of an int literal (decimal or ``0x``, with or without a minus).

    Raises
    ------
    ValueError
        When it does not fit 64 bits.
    """
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    value = sign * _natural(digits)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def parse_uint(text: str) -> Uint:
    """Value of a uint literal, the ``u`` included.

    Raises
    ------
    ValueError
        When it does not fit 64 bits.
    """
    value = _natural(text[:-1])
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return Uint(value)


def parse_double(text: str) -> float:
    """Value of a double literal.

    Raises
    ------
    ValueError
        When it is too large for a double.
    """
    value = float(text)
    if math.isinf(value):
        raise ValueError("invalid double literal")
    return value


def parse_string(token: str) -> str:
    """Value of a string token.

    Raises
    ------
    ValueError
        When an escape names no character.
    """
    body, raw = _body(token)
    if raw or "\\" not in body:
        return body
    return _ESCAPES.sub(_unescape_char, body)


def parse_bytes(token: str) -> bytes:
    r"""Value of a bytes token: text as UTF-8, ``\x`` and octal escapes as single bytes.

    Raises
    ------
    ValueError
        For ``\u`` and ``\U``, which bytes literals do not have.
    """
    body, raw = _body(token[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPES.finditer(body):
        parts.append(body[end : match.start()].encode())
        parts.append(_unescape_byte(match[1]))
        end = match.end()
    parts.append(body[end:].encode())
    return b"".join(parts)


def _natural(digits: str) -> int:
    if digits.startswith("0x"):
        return int(digits, 16)
    return int(digits) if len(digits) < 100 else UINT_MAX + 1


def _body(token: str) -> tuple[str, bool]:
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    width = 3 if len(token) >= 6 and token[:3] in ('"""', "'''") else 1
    return token[width:-width], raw


def _unescape_char(match: re.Match[str]) -> str:
    escape = match[1]
    simple = _SIMPLE_ESCAPES.get(escape)
    if simple is not None:
        return simple
    code = int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _unescape_byte(escape: str) -> bytes:
    simple = _SIMPLE_ESCAPES.get(escape)
    if simple is not None:
        return simple.encode()
    if escape[0] in "uU":
        raise ValueError("unable to unescape string")
    return bytes([int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)])
