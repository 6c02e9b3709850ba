"""From text to tokens."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from dra_spawner.dra.cel.errors import CelCompileError


class TokenKind(StrEnum):
    DOUBLE = "double"
    UINT = "uint"
    INT = "int"
    BYTES = "bytes"
    STRING = "string"
    IDENTIFIER = "identifier"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    """A piece of the expression and where it starts (offset in characters)."""

    kind: TokenKind
    text: str
    offset: int


_ESCAPE: Final = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_QUOTED: Final = rf"""
      [rR](?:\"\"\"(?s:.)*?\"\"\"|'''(?s:.)*?'''|"[^"\n\r]*"|'[^'\n\r]*')
    | \"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"
    | '''(?:{_ESCAPE}|[^\\])*?'''
    | "(?:{_ESCAPE}|[^\\"\n\r])*"
    | '(?:{_ESCAPE}|[^\\'\n\r])*'
"""
_TOKEN: Final = re.compile(
    rf"""
    (?P<skip>[\t\ \r\n\f]+|//[^\n]*)
    | (?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<bytes>[bB](?:{_QUOTED}))
    | (?P<string>{_QUOTED})
    | (?P<identifier>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<symbol>==|!=|<=|>=|&&|\|\||[-\[\]{{}}().,!?:+*/%<>])
    """,
    re.VERBOSE,
)
_KINDS: Final = {kind.value: kind for kind in TokenKind}


def position_error(source: str, offset: int, message: str) -> CelCompileError:
    """Error about the given offset of the source."""
    line_start = source.rfind("\n", 0, offset) + 1
    return CelCompileError(message, offset - line_start + 1, source.count("\n", 0, offset) + 1)


def tokenize(source: str) -> list[Token]:
    """Split the source; the last token is of kind END.

    Raises
    ------
    CelCompileError
        At the first character that starts no token.
    """
    tokens: list[Token] = []
    offset = 0
    match_at = _TOKEN.match
    while offset < len(source):
        match = match_at(source, offset)
        if match is None:
            char = source[offset]
            known = "unsupported syntax: '`'" if char == "`" else f"Syntax error: token recognition error at: {char!r}"
            raise position_error(source, offset, known)
        group = match.lastgroup or ""
        if group != "skip":
            tokens.append(Token(_KINDS[group], match.group(), offset))
        offset = match.end()
    tokens.append(Token(TokenKind.END, "", len(source)))
    return tokens
