"""Reading API objects from texts: JSON (one value or many), JSON lines, YAML; each object knows where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dra_spawner.dra.decoding import ObjectError
from dra_spawner.fit import json_places, yaml_documents
from dra_spawner.fit.errors import InputError
from dra_spawner.fit.json_places import PathPart, parse_path, path_text

__all__ = ["Document", "PathPart", "SourceObject", "read_documents"]


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One JSON value or YAML document of a file."""

    file: str
    text: str
    start: int
    """Where it begins in the text: a position for JSON, the number of the document for YAML."""
    is_json: bool
    value: object

    def line_of(self, path: tuple[PathPart, ...]) -> int:
        """Line of a field, or of what is around it."""
        if self.is_json:
            return json_places.line_of(self.text, json_places.find(self.text, self.start, path))
        return yaml_documents.find(self.text, self.start, path)

    def error(self, path: tuple[PathPart, ...], problem: str) -> InputError:
        """An error about a field."""
        return InputError(self.file, self.line_of(path), path_text(path), problem)


@dataclass(frozen=True, slots=True, eq=False)
class SourceObject:
    """A JSON object that claims to be an API object, and where it stands."""

    document: Document
    path: tuple[PathPart, ...]
    value: Mapping[str, object]
    kind: str

    def error(self, error: ObjectError) -> InputError:
        """What is wrong with the object, told by file, line and field."""
        path = (*self.path, *parse_path(error.path))
        shown = ".".join(part for part in (path_text(self.path), error.path) if part)
        problem = error.problem if not error.object_name else f"{error.problem} ({error.object_name})"
        return InputError(self.document.file, self.document.line_of(path), shown, problem)


def read_documents(file: str, content: bytes) -> Iterator[Document]:
    """The values in a file.

    Raises
    ------
    InputError
        Where the file stops being JSON or YAML.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(file, line, "", "is not UTF-8 text") from None
    if text.lstrip()[:1] in ("{", "["):
        yield from _read_json(file, text)
    else:
        for number, value in enumerate(yaml_documents.load(file, text)):
            if value is not None:
                yield Document(file, text, number, False, value)


def _read_json(file: str, text: str) -> Iterator[Document]:
    position = json_places.skip_space(text, 0)
    while position < len(text):
        try:
            value, end = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            at, path = json_places.find_break(text, position)
            where = json_places.line_of(text, max(at, min(error.pos, len(text.rstrip()))))
            is_cut_off = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
            problem = "the text ends in the middle of it" if is_cut_off else f"is not JSON: {error.msg}"
            raise InputError(file, where, path_text(path), problem) from None
        except ValueError as error:
            raise InputError(file, json_places.line_of(text, position), "", f"is not JSON: {error}") from None
        except RecursionError:
            raise InputError(file, json_places.line_of(text, position), "", "is nested too deeply") from None
        yield Document(file, text, position, True, value)
        position = json_places.skip_space(text, end)
