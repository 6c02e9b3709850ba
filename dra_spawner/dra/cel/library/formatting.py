"""``string.format()`` in the American English that Kubernetes is set to."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from dra_spawner.dra.cel.errors import EvaluationError
from dra_spawner.dra.cel.library.standard_functions import go_format_g
from dra_spawner.dra.cel.values import INT_MAX, TypeValue, Uint, Value, from_map_key, type_name

_DEFAULT_PRECISION: Final = 6
_CLAUSE: Final = re.compile(r"%(?:(?P<percent>%)|(?:\.(?P<precision>[0-9]*))?(?P<verb>.)?)", re.DOTALL)
#: As Go writes characters in quoted text.
GO_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_MAX_DIGITS: Final = 1000
#: The x/text printer reads no number on from here. What it prints then is no error.
_UNREADABLE: Final = 10_000_010
_NO_VERB: Final = "%!(NOVERB)"
#: It keeps a precision in 8 bits where it adds zeros, in 16 with a sign where it rounds; and a width in 16.
_PADDED: Final = 2**8
_ROUNDED: Final = 2**15
_WIDTHS: Final = 2**16
#: Digits and commas that a double may have before its point.
_MAX_WHOLE: Final = 420
_MAX_FRACTION: Final = 1074
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Clause = tuple[str, int | None]

#: What may be formatted with what, by the names of the types; checked at compile time where types are known.
ALLOWED: Final[dict[str, frozenset[str]]] = {
    "s": frozenset(["list", "map", "int", "uint", "double", "bool", "string", "bytes", "type", "null"]),
    "d": frozenset(["int", "uint"]),
    "f": frozenset(["double", "string"]),
    "e": frozenset(["double", "string"]),
    "b": frozenset(["int", "uint", "bool"]),
    "x": frozenset(["int", "uint", "string", "bytes"]),
    "X": frozenset(["int", "uint", "string", "bytes"]),
    "o": frozenset(["int", "uint"]),
}
_COMPLAINTS: Final = {
    "s": (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
        "and timestamps, was given %s"
    ),
    "d": "decimal clause can only be used on integers, was given %s",
    "f": "fixed-point clause can only be used on doubles, was given %s",
    "e": "scientific clause can only be used on doubles, was given %s",
    "b": "only integers and bools can be formatted as binary, was given %s",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given %s",
    "o": "octal clause can only be used on integers, was given %s",
}


def complaint(verb: str, kind: str) -> str:
    """What Kubernetes says of a value of the wrong type."""
    return "error during formatting: " + _COMPLAINTS[verb.lower()] % kind


def parse_format(text: str, count: int) -> list[str | Clause]:
    """Literal pieces and clauses (verb, precision) of a format string.

    Raises
    ------
    EvaluationError
        When it is malformed, or has more clauses than there are values.
    """
    pieces: list[str | Clause] = []
    end, used = 0, 0
    for match in _CLAUSE.finditer(text):
        pieces.append(text[end : match.start()])
        end = match.end()
        if match["percent"]:
            pieces.append("%")
            continue
        if used >= count:
            raise EvaluationError(f"index {used} out of range")
        used += 1
        pieces.append(_clause(match["verb"], match["precision"]))
    pieces.append(text[end:])
    return pieces


def _clause(verb: str | None, precision: str | None) -> Clause:
    problem = "could not parse formatting clause: "
    if verb is None:
        raise EvaluationError(
            "unexpected end of string"
            if precision is None
            else f"{problem}error while parsing precision: could not find end of precision specifier"
        )
    if precision is not None and not (0 < len(precision) <= _MAX_DIGITS and int(precision) <= INT_MAX):
        raise EvaluationError(f"{problem}error while parsing precision: error while converting precision to integer")
    if verb not in ALLOWED:
        raise EvaluationError(f'{problem}unrecognized formatting clause "{verb}"')
    return verb, None if precision is None else int(precision)


def format_bytes(text: str, values: Sequence[Value]) -> int:
    """Bytes that numbers take at most, be it only for blanks."""
    try:
        clauses = [piece for piece in parse_format(text, len(values)) if not isinstance(piece, str)]
    except EvaluationError:
        return 0
    widths = ((precision or 0) % _WIDTHS if verb == "e" else _MAX_FRACTION for verb, precision in clauses)
    return sum(_MAX_WHOLE + width for width in widths)


def format_string(text: str, values: Sequence[Value]) -> str:
    """Fill the values in.

    Raises
    ------
    EvaluationError
        When format and values do not go together.
    """
    rest = iter(values)
    return "".join(
        piece if isinstance(piece, str) else _format_value(*piece, next(rest))
        for piece in parse_format(text, len(values))
    )


def _format_value(verb: str, precision: int | None, value: Value) -> str:
    kind = type_name(value).removesuffix("_type")
    if kind not in ALLOWED[verb] or (verb in "fe" and type(value) is str and value not in _NOT_FINITE):
        raise EvaluationError(complaint(verb, type_name(value)))
    match verb:
        case "s":
            return _plain(value)
        case "d":
            return str(int(value))
        case "f":
            return _fixed(value, _DEFAULT_PRECISION if precision is None else precision)
        case "e":
            return _scientific(value, _DEFAULT_PRECISION if precision is None else precision)
        case "b":
            return f"{int(value):b}"
        case "o":
            return f"{int(value):o}"
    hexadecimal = _hexadecimal(value)
    return hexadecimal.upper() if verb == "X" else hexadecimal


def _fixed(value: float | str, precision: int) -> str:
    if precision >= _UNREADABLE:
        return _NO_VERB
    number = _NOT_FINITE[value] if isinstance(value, str) else value
    if not math.isfinite(number):
        return _not_finite(number)
    if precision < _PADDED:
        return f"{number or 0.0:,.{precision}f}"
    rounded = (precision + _ROUNDED) % _WIDTHS - _ROUNDED
    # Below 0 it does not round, and prints as few digits as tell the number from others.
    digits = f"{number or 0.0:,.{rounded}f}" if rounded >= 0 else f"{Decimal(repr(number or 0.0)):,f}"
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0").ljust(precision % _PADDED, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _scientific(value: float | str, width: int) -> str:
    """Six digits after the point always: Kubernetes takes the precision for the width."""
    if width >= _UNREADABLE:
        return _NO_VERB
    number = _NOT_FINITE[value] if isinstance(value, str) else value
    width %= _WIDTHS
    if not math.isfinite(number):
        return _not_finite(number).rjust(width)
    digits, _, power = f"{number or 0.0:.{_DEFAULT_PRECISION}e}".partition("e")
    return f"{digits}\N{MULTIPLICATION SIGN}10{power.removeprefix('+').translate(_SUPERSCRIPTS)}".rjust(width)


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _hexadecimal(value: Value) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    return value.hex() if isinstance(value, bytes) else f"{int(value):x}"


def _plain(value: Value) -> str:
    """As ``%s`` prints it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return go_format_g(value)
        case str():
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("error during formatting: could not convert argument to string") from None
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(map(_element, value))}]"
    pairs = sorted((_element(from_map_key(key)), _element(inner)) for key, inner in value.items())
    return "{" + ", ".join(f"{key}:{inner}" for key, inner in pairs) + "}"


def _element(value: Value) -> str:
    """As a value prints inside of a list or map: as a CEL literal."""
    match value:
        case None | bool() | list() | dict() | TypeValue():
            return _plain(value)
        case int() | Uint():
            return str(int(value))
        case float():
            if math.isnan(value):
                return '"NaN"'
            if math.isinf(value):
                return '"+Inf"' if value > 0 else '"-Inf"'
            return f"{value:.6f}"
        case str():
            return _go_quote(value)
        case bytes():
            return "b" + _go_quote(_plain(value))
    raise EvaluationError(f"error during formatting: no formatting function for {type_name(value)}")


def _go_quote(text: str) -> str:
    return '"' + "".join(map(_go_escape, text)) + '"'


def _go_escape(char: str) -> str:
    if char in GO_ESCAPES:
        return GO_ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
