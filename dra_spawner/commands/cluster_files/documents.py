"""API objects read from JSON (one value or many), JSON lines or YAML; each knows its place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dra_spawner.commands.cluster_files import json_documents, yaml_documents
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.json_places import PathPart, parse_path, path_text
from dra_spawner.commands.cluster_files.limits import Limits
from dra_spawner.dra.model.decoding import ObjectError

__all__ = ["Document", "PathPart", "SourceObject", "read_documents"]


class _Places(Protocol):
    """The lines of a value's fields in its file."""

    def line_of(self, path: Sequence[PathPart], /) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One JSON value or YAML document of a file."""

    file: str
    value: object
    places: _Places

    def line_of(self, path: tuple[PathPart, ...]) -> int:
        """Line of a field, or of the innermost field around it."""
        return self.places.line_of(path)

    def error(self, path: tuple[PathPart, ...], problem: str) -> InputError:
        """An error about a field."""
        return InputError(self.file, self.line_of(path), path_text(path), problem)


@dataclass(frozen=True, slots=True, eq=False)
class SourceObject:
    """A JSON object that should be an API object, and its place in a document."""

    document: Document
    path: tuple[PathPart, ...]
    value: Mapping[str, object]
    kind: str

    def error(self, error: ObjectError) -> InputError:
        """An error about the object, with file, line and field."""
        path = (*self.path, *parse_path(error.path))
        shown = ".".join(part for part in (path_text(self.path), error.path) if part)
        problem = error.problem if not error.object_name else f"{error.problem} ({error.object_name})"
        return InputError(self.document.file, self.document.line_of(path), shown, problem)


def read_documents(file: str, text: str, limits: Limits) -> Iterator[Document]:
    """The values in a file.

    Raises
    ------
    InputError
        Where the file is no JSON or YAML, or exceeds a limit.
    """
    is_json = text.lstrip()[:1] in ("{", "[")
    for value, places in (json_documents if is_json else yaml_documents).load(file, text, limits):
        yield Document(file, value, places)
