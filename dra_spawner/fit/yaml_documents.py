"""YAML as Kubernetes reads it: values that JSON has, no dates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

import yaml

from dra_spawner.fit.errors import InputError
from dra_spawner.fit.json_places import PathPart, path_text

__all__ = ["find", "load"]

_Base: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """Times stay the text they are in JSON."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def load(file: str, text: str) -> Iterator[object]:
    """Each document's value; None for empty ones.

    Raises
    ------
    InputError
        Where the text stops being YAML, or has what JSON has not.
    """
    documents = yaml.load_all(text, _Loader)
    number = 0
    while True:
        try:
            value = next(documents, _END)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise InputError(file, mark.line + 1 if mark else 0, "", f"is not YAML: {error.problem}") from None
        except (yaml.YAMLError, ValueError) as error:
            raise InputError(file, 0, "", f"is not YAML: {error}") from None
        except RecursionError:
            raise InputError(file, 0, "", "is nested too deeply") from None
        if value is _END:
            return
        _check(file, text, number, value)
        yield value
        number += 1


_END = object()


def find(text: str, number: int, path: Sequence[PathPart]) -> int:
    """Line, counted from one, of a field of a document, or of the innermost thing around it that is there."""
    for position, node in enumerate(yaml.compose_all(text, _Loader)):
        if position == number:
            return _line(node, path)
    return 0


def _line(node: yaml.Node, path: Sequence[PathPart]) -> int:
    line = node.start_mark.line + 1
    for part in path:
        inner = None
        if isinstance(node, yaml.MappingNode):
            inner = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            inner = (node.value[part], node.value[part])
        if inner is None:
            break
        line, node = inner[0].start_mark.line + 1, inner[1]
    return int(line)


def _check(file: str, text: str, number: int, value: object) -> None:
    """Raise for keys that are no strings and values that JSON does not have."""
    pending: list[tuple[tuple[PathPart, ...], object]] = [((), value)]
    seen: set[int] = set()
    while pending:
        path, item = pending.pop()
        if isinstance(item, (dict, list)):
            if id(item) in seen:
                continue
            seen.add(id(item))
        if isinstance(item, dict):
            for key, inner in item.items():
                if not isinstance(key, str):
                    line = find(text, number, path)
                    raise InputError(file, line, path_text(path), f"the key {key!r} must be a string: put it in quotes")
                pending.append(((*path, key), inner))
        elif isinstance(item, list):
            pending.extend(((*path, index), inner) for index, inner in enumerate(item))
        elif item is not None and not isinstance(item, (str, int, float, bool)):
            raise InputError(file, find(text, number, path), path_text(path), "has a value of a kind JSON has not")
