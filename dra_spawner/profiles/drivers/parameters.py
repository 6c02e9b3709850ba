"""What a driver takes as opaque parameters: shapes of JSON values, and what is wrong with a value.

Drivers decode their parameters strictly when a pod is prepared, long after its claim was allocated; the pod then hangs
with an event that its user does not see. So unknown fields and values are looked for here. As in Go's decoder, ``null``
is nothing said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dra_spawner.dra.model.claim_sizes import is_size
from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles.syntax.problems import Problem, shown
from dra_spawner.profiles.syntax.rules import ValueRule

#: Text with a variable in it is filled in for each user; it is not known yet what it will be.
_VARIABLE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_.]*\}")


@dataclass(frozen=True, slots=True)
class Field:
    shape: Shape
    required: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with known fields.

    Attributes
    ----------
    fields
        Name -> field, or a shape for one that may be left out.
    open
        Whether others may stand there, too.
    hint
        Where that stands which people look for among these fields.
    check
        What else is wrong with an object whose fields are all right, such as two that exclude each other.
    """

    fields: Mapping[str, Field | Shape]
    open: bool = False
    hint: str = ""
    check: Callable[[Mapping[str, object], str], Iterator[Problem]] | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of values of one shape."""

    of: Shape


@dataclass(frozen=True, slots=True)
class Mapped:
    """An object whose fields have any name that a rule accepts, and values of one shape."""

    names: ValueRule
    values: Shape


@dataclass(frozen=True, slots=True)
class AnyJson:
    """Whatever JSON can say."""


Shape = ValueRule | Fields | Listed | Mapped | AnyJson


def parameter_problems(shape: Shape, value: object, path: str) -> Iterator[Problem]:
    """Everything that a driver would refuse in a value.

    Parameters
    ----------
    shape
        What may be there.
    value
        JSON. Text with a variable such as ``{username}`` is accepted wherever one value may be.
    path
        Where it stands.
    """
    if value is None or isinstance(shape, AnyJson):
        return
    if isinstance(shape, ValueRule):
        if not shape.accepts(value) and not has_variable(value):
            yield Problem(path, shown(value), shape.allowed)
    elif isinstance(shape, Listed):
        yield from _list_problems(shape, value, path)
    elif not isinstance(value, Mapping):
        yield Problem(path, shown(value), "a mapping")
    elif isinstance(shape, Mapped):
        yield from _map_problems(shape, value, path)
    else:
        yield from _object_problems(shape, value, path)


def has_variable(value: object) -> bool:
    """Whether it is text that is filled in for each user."""
    return isinstance(value, str) and _VARIABLE.search(value) is not None


def _list_problems(shape: Listed, value: object, path: str) -> Iterator[Problem]:
    if not isinstance(value, list | tuple):
        yield Problem(path, shown(value), "a list")
        return
    for index, item in enumerate(value):
        yield from parameter_problems(shape.of, item, f"{path}[{index}]")


def _map_problems(shape: Mapped, value: Mapping[str, object], path: str) -> Iterator[Problem]:
    for name, item in value.items():
        if not shape.names.accepts(name):
            yield Problem(f"{path}.{name}", shown(name), shape.names.allowed)
        yield from parameter_problems(shape.values, item, f"{path}.{name}")


def _object_problems(shape: Fields, value: Mapping[str, object], path: str) -> Iterator[Problem]:
    found = False
    for name, item in value.items():
        field = shape.fields.get(name)
        if field is not None:
            problems = list(
                parameter_problems(field.shape if isinstance(field, Field) else field, item, f"{path}.{name}")
            )
        elif shape.open:
            problems = []
        else:
            problems = [Problem(f"{path}.{name}", shown(name), _known(shape))]
        found = found or bool(problems)
        yield from problems
    for name, field in shape.fields.items():
        if isinstance(field, Field) and field.required and value.get(name) is None:
            found = True
            allowed = field.shape.allowed if isinstance(field.shape, ValueRule) else "a value"
            yield Problem(f"{path}.{name}", "", allowed)
    if shape.check is not None and not found:
        yield from shape.check(value, path)


def _known(shape: Fields) -> str:
    known = f"the driver's fields: {', '.join(shape.fields)}" if shape.fields else "no field at all"
    return f"{known} ({shape.hint})" if shape.hint else known


def least_quantity(least: str) -> ValueRule:
    """A quantity of at least so much."""
    minimum = Quantity.parse(least)

    def accepts(value: object) -> bool:
        return is_size(value) and isinstance(value, str | int) and Quantity.parse(value) >= minimum

    return ValueRule(f"a quantity of at least {least}", {"type": ["string", "integer"]}, accepts)


TEXT = ValueRule("text", {"type": "string"}, lambda value: isinstance(value, str))
FLAG = ValueRule("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))
