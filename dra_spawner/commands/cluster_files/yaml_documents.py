"""YAML as Kubernetes reads it: JSON's values, no dates. Parsed without recursion, within limits."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

import yaml

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.json_places import PathPart, path_text
from dra_spawner.commands.cluster_files.limits import Limits

_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG_DIRECTIVE: Final = re.compile(r"^%TAG", re.MULTILINE)
_MAX_TAG_DIRECTIVES: Final = 100
_REMEMBERED_SCALARS: Final = 10_000
_LONGEST_REMEMBERED: Final = 64
_NO_KEY: Final = object()
_MERGE: Final = "<<"
_Lines = Mapping[int, "array[int]"]
"""Lines of the members of each mapping or list, in order, by its identity."""


class YamlPlaces:
    """Lines of the fields of one YAML document."""

    def __init__(self, value: object, line: int, lines: _Lines) -> None:
        self._value = value
        self._line = line
        self._lines = lines

    def line_of(self, path: Sequence[PathPart]) -> int:
        """Line of a field, or of the innermost existing field around it, counted from one."""
        value, line = self._value, self._line
        for part in path:
            if isinstance(value, dict) and part in value:
                line = self._lines[id(value)][list(value).index(part)]
                value = value[part]
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                line = self._lines[id(value)][part]
                value = value[part]
            else:
                break
        return int(line)


def load(file: str, text: str, limits: Limits) -> Iterator[tuple[object, YamlPlaces]]:
    """Each document that is not empty, with the lines of its fields.

    Raises
    ------
    InputError
        Where the text is no YAML, has a value that JSON lacks, or exceeds a limit.
    """
    if len(_TAG_DIRECTIVE.findall(text)) > _MAX_TAG_DIRECTIVES:
        # The parser compares each directive with all others.
        raise InputError(file, 0, "", f"has more than {_MAX_TAG_DIRECTIVES} directives %TAG")
    builder = _Builder(file, limits)
    try:
        yield from _load(text, builder)
    except InputError as error:
        if "{{" in text and "{{" in "".join(text.splitlines()[max(error.line - 2, 0) : error.line]):
            problem = "is a template with {{ }}, not YAML; give the file that is rendered from it"
            raise InputError(file, error.line, "", problem) from None
        raise


def _load(text: str, builder: _Builder) -> Iterator[tuple[object, YamlPlaces]]:
    file = builder.file
    try:
        for event in yaml.parse(text, _Loader):
            if isinstance(event, yaml.ScalarEvent):
                builder.scalar(event)
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                builder.begin(event)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                builder.end()
            elif isinstance(event, yaml.AliasEvent):
                builder.alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                builder.begin_document()
            elif isinstance(event, yaml.DocumentEndEvent) and builder.document is not None:
                yield builder.document, YamlPlaces(builder.document, builder.line, builder.lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InputError(file, mark.line + 1 if mark else 0, "", f"is not YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        problem = f"has the character U+{_code(error.character):04X}, which YAML does not allow"
        raise InputError(file, text.count("\n", 0, position) + 1, "", problem) from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(file, 0, "", f"is not YAML: {error}") from None


def _code(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[:1] or "\0")


class _Open:
    """A mapping or list that is still open."""

    __slots__ = ("anchor", "characters", "height", "is_merge", "key", "line", "lines", "merged", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.lines = array("I")
        self.key: Any = _NO_KEY
        self.is_merge = False
        """Whether the key is a ``<<`` without quotes."""
        self.merged: list[dict[str, Any]] | None = None
        """Values of ``<<``; None without that key."""
        self.characters = 2
        self.height = 1


class _Anchor:
    """A value with an anchor; unfinished while it is being read."""

    __slots__ = ("characters", "height", "is_finished", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.characters = 0
        self.height = 0
        self.is_finished = False


class _Builder:
    """Builds values from events. The size of a value is its text's, with aliases written out."""

    def __init__(self, file: str, limits: Limits) -> None:
        self.file = file
        self._limits = limits
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchor] = {}
        self._scalars: dict[str, Any] = {}
        self._repeated = 0
        self.document: Any = None
        self.line = 1
        self.lines: dict[int, array[int]] = {}

    def begin_document(self) -> None:
        """Forget the previous document."""
        self._open, self._anchors = [], {}
        self.document, self.lines = None, {}

    def begin(self, event: Any) -> None:
        """Open a mapping or list."""
        line = event.start_mark.line + 1
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        kind = TAGS.get(event.tag) if event.tag not in (None, "!") else None
        if event.tag not in (None, "!") and kind != ("map" if is_mapping else "seq"):
            self._fail(line, f"has the tag {event.tag}, which JSON does not have")
        if self._awaits_key():
            self._fail(line, "a key must be a string, not a mapping or list")
        if len(self._open) >= self._limits.levels:
            self._too_deep(line)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor()
        self._open.append(_Open({} if is_mapping else [], event.anchor, line))

    def scalar(self, event: Any) -> None:
        """Add a text, number, boolean or null."""
        line = event.start_mark.line + 1
        text, tag = event.value, event.tag
        if text == _MERGE and tag is None and event.implicit[0] and self._awaits_key():
            self._open[-1].is_merge = True
            self._open[-1].key = _MERGE
            return
        try:
            if tag is None or tag == "!":
                value = self._plain(text) if tag is None and event.implicit[0] else text
            elif tag in TAGS:
                value = explicit_value(TAGS[tag], text, self._limits.number_characters)
            else:
                self._fail(line, f"has the tag {tag}, which JSON does not have")
        except ValueError as error:
            self._fail(line, str(error))
        if event.anchor is not None:
            self._anchors[event.anchor] = anchor = _Anchor()
            anchor.value, anchor.characters, anchor.is_finished = value, 1 + len(text), True
        self._put(value, 1 + len(text), 0, line)

    def alias(self, event: Any) -> None:
        """Add the value of an anchor again."""
        line = event.start_mark.line + 1
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            self._fail(line, f"*{event.anchor} names an anchor that does not exist")
        if not anchor.is_finished:
            self._fail(line, f"*{event.anchor} is inside the value that it stands for, which would never end")
        if len(self._open) + anchor.height > self._limits.levels:
            self._too_deep(line)
        self._repeated += anchor.characters
        if self._repeated > self._limits.repeated_characters:
            most = self._limits.repeated_characters
            self._fail(line, f"aliases repeat more than is allowed, {most:,} characters in all")
        self._put(anchor.value, anchor.characters, anchor.height, line)

    def end(self) -> None:
        """Close the innermost mapping or list."""
        closed = self._open.pop()
        value, lines = closed.value, closed.lines
        if closed.merged is not None and isinstance(value, dict):
            value, lines = _with_merged(value, lines, closed.merged, closed.line)
        self.lines[id(value)] = lines
        if closed.anchor is not None:
            anchor = self._anchors[closed.anchor]
            anchor.value, anchor.characters, anchor.height = value, closed.characters, closed.height
            anchor.is_finished = True
        self._put(value, closed.characters, closed.height, closed.line)

    def _put(self, value: Any, characters: int, height: int, line: int) -> None:
        """Attach a value as a key, the value of a key, an item, or the document."""
        if not self._open:
            self.document, self.line = value, line
            return
        top = self._open[-1]
        top.characters += characters
        if height >= top.height:
            top.height = height + 1
        if isinstance(top.value, list):
            top.lines.append(line)
            top.value.append(value)
        elif top.key is _NO_KEY:
            self._put_key(top, value, line)
        elif top.is_merge:
            self._merge(top, value, line)
            top.key, top.is_merge = _NO_KEY, False
        else:
            top.value[top.key] = value
            top.key = _NO_KEY

    def _put_key(self, top: _Open, key: Any, line: int) -> None:
        if self._limits.has_text_keys and isinstance(key, bool | int | float):
            key = json.dumps(key)
        if not isinstance(key, str):
            self._fail(line, f"the key {key!r} must be a string: put it in quotes")
        if key in top.value:
            top.key = key
            self._fail(line, "appears twice; a key may appear once")
        top.key = key
        top.lines.append(line)

    def _merge(self, top: _Open, value: Any, line: int) -> None:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in sources):
            self._fail(line, "<< takes a mapping or a list of mappings")
        if top.merged is None:
            top.merged = []
        top.merged.extend(sources)

    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is _NO_KEY

    def _plain(self, text: str) -> Any:
        value = self._scalars.get(text, _NO_KEY)
        if value is _NO_KEY:
            value = plain_value(text, self._limits.number_characters)
            if len(self._scalars) < _REMEMBERED_SCALARS and len(text) <= _LONGEST_REMEMBERED:
                self._scalars[text] = value
        return value

    def _too_deep(self, line: int) -> NoReturn:
        self._fail(line, f"is nested too deeply; at most {self._limits.levels} levels are allowed")

    def _fail(self, line: int, problem: str) -> NoReturn:
        path = [len(each.value) if isinstance(each.value, list) else each.key for each in self._open]
        shown = [part for part in path if part is not _NO_KEY]
        raise InputError(self.file, line, path_text(shown), problem)


def _with_merged(
    own: dict[str, Any], lines: array[int], merged: Sequence[dict[str, Any]], line: int
) -> tuple[dict[str, Any], array[int]]:
    """A mapping merged with others, which come first and have the lowest precedence; the first of them wins."""
    value: dict[str, Any] = {}
    for source in reversed(merged):
        value.update(source)
    places = dict.fromkeys(value, line) | dict(zip(own, lines, strict=True))
    value.update(own)
    return value, array("I", [places[key] for key in value])


_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS: Final = {
    spelling: value
    for value, names in ((True, ("y", "true", "yes", "on")), (False, ("n", "false", "no", "off")))
    for name in names
    for spelling in (name, name.capitalize(), name.upper())
}
_INTEGER: Final = re.compile(r"[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)")
_FLOAT: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1
_WHOLE: Final = 1e21
"""Go writes whole numbers below this one without an exponent."""
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_PREFIX: Final = "tag:yaml.org,2002:"

TAGS: Final = {f"{_PREFIX}{name}": name for name in ("str", "int", "float", "bool", "null", "map", "seq")}
"""Allowed tags, and the kind of value of each."""


def plain_value(text: str, longest_number: int) -> str | int | float | bool | None:
    """Value of a scalar without quotes, as kubectl reads it: what JSON has, no dates, no numbers of base 60.

    kubectl reads a scalar as an integer where Go's ``strconv.ParseInt`` with base 0 does, else as a number of YAML's
    form, and writes a whole number without a point to the API server (sigs.k8s.io/yaml). So ``08``, ``0o1`` and
    ``12e5`` are numbers, and ``y`` is true.

    Raises
    ------
    ValueError
        With the end of a sentence, if it is a number that JSON or Kubernetes lacks.
    """
    if text in _NULL:
        return None
    if text[0] not in _NUMBER_STARTS:
        return _BOOLEANS.get(text, text)
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        number = _integer(plain, longest_number)
        return number if _SMALLEST <= number <= _LARGEST else _float(plain, longest_number)
    if _FLOAT.fullmatch(plain):
        return _float(plain, longest_number)
    return text


def explicit_value(kind: str, text: str, longest_number: int) -> str | int | float | bool | None:
    """Value of a scalar with a tag.

    Raises
    ------
    ValueError
        If it is no value of this kind.
    """
    value: str | int | float | bool | None = text if kind == "str" else plain_value(text, longest_number)
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    types = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}
    if type(value) is not types.get(kind):
        raise ValueError(f"is not what its tag !!{kind} says")
    return value


def _integer(text: str, longest: int) -> int:
    _check_length(text, longest)
    negative, digits = text.startswith("-"), text.lstrip("+-")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2].lower())
    if base is not None:
        digits = digits[2:]
    else:
        base = 8 if digits[0] == "0" else 10
    return -int(digits, base) if negative else int(digits, base)


def _float(text: str, longest: int) -> int | float:
    _check_length(text, longest)
    # Of the texts that match the pattern, only infinity and NaN have an n.
    number = math.nan if "n" in text.lower() else float(text)
    if not math.isfinite(number):
        raise ValueError(f"is {text}, which is no value of JSON")
    return int(number) if number.is_integer() and abs(number) < _WHOLE else number


def _check_length(text: str, longest: int) -> None:
    if len(text) > longest:
        raise ValueError(f"is a number of {len(text):,} characters, at most {longest} are allowed")
