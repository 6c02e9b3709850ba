"""Which nodes a NodeSelector (``core/v1``) selects: terms are ORed, the requirements of one are ANDed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Final

from dra_spawner.dra.model.decoding import MAX_INT64, MIN_INT64, Reader

_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")


class NodeSelectorError(ValueError):
    """A node selector that Kubernetes cannot parse."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label or a field of a node."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt or Lt; others decode, and make parsing fail."""
    values: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        obj: dict[str, object] = {"key": self.key, "operator": self.operator}
        if self.values:
            obj["values"] = list(self.values)
        return obj

    def same_as(self, other: Requirement) -> bool:
        """Whether both say the same, whatever the order of the values."""
        return self.key == other.key and self.operator == other.operator and frozenset(self.values) == set(other.values)

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                number = _parse_int64(value) if value is not None else None
                limit = _parse_int64(self.values[0])
                if number is None or limit is None:
                    return False
                return number > limit if self.operator == "Gt" else number < limit

    def matches_field(self, node_name: str) -> bool:
        """Only ``metadata.name`` has a value; any other field is the empty string."""
        value = node_name if self.key == "metadata.name" else ""
        return (value == self.values[0]) == (self.operator == "In")

    def check_label(self) -> None:
        """Raise :class:`NodeSelectorError` unless this is a well-formed condition on a label."""
        match self.operator:
            case "In" | "NotIn" if not self.values:
                raise NodeSelectorError(f"{self.key} {self.operator}: needs at least one value")
            case "Exists" | "DoesNotExist" if self.values:
                raise NodeSelectorError(f"{self.key} {self.operator}: must not have values")
            case "Gt" | "Lt" if len(self.values) != 1 or _parse_int64(self.values[0]) is None:
                raise NodeSelectorError(f"{self.key} {self.operator}: needs exactly one integer")
            case "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt":
                pass
            case _:
                raise NodeSelectorError(f"{self.key}: unknown operator {self.operator!r}")
        if not _is_label_key(self.key):
            raise NodeSelectorError(f"{self.key!r} is not a label key")
        for value in self.values:
            if value and not (len(value) <= 63 and _NAME.match(value)):
                raise NodeSelectorError(f"{self.key}: {value!r} is not a label value")

    def check_field(self) -> None:
        """Raise :class:`NodeSelectorError` unless this is a well-formed condition on a field."""
        if self.operator not in ("In", "NotIn"):
            raise NodeSelectorError(f"field {self.key}: unknown operator {self.operator!r}")
        if len(self.values) != 1:
            raise NodeSelectorError(f"field {self.key} {self.operator}: needs exactly one value")


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Conditions that must all hold; a term without any selects nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.match_expressions and not self.match_fields

    def to_json(self) -> dict[str, object]:
        obj: dict[str, object] = {}
        if self.match_expressions:
            obj["matchExpressions"] = [requirement.to_json() for requirement in self.match_expressions]
        if self.match_fields:
            obj["matchFields"] = [requirement.to_json() for requirement in self.match_fields]
        return obj

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        if not all(requirement.matches_labels(labels) for requirement in self.match_expressions):
            return False
        # A node without a name has no fields at all: then they are not asked.
        return not node_name or all(requirement.matches_field(node_name) for requirement in self.match_fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Selects nodes; without terms it selects none."""

    terms: tuple[NodeSelectorTerm, ...] = ()
    problem: str = field(init=False, compare=False, repr=False)
    """What is malformed in it; empty if nothing is."""
    valid_terms: tuple[NodeSelectorTerm, ...] = field(init=False, compare=False, repr=False)
    """Terms that may select something: neither malformed nor empty."""

    def __post_init__(self) -> None:
        problem = _first_problem(self.terms)
        valid = self.terms
        if problem or any(term.is_empty for term in valid):
            valid = tuple(term for term in valid if not term.is_empty and not _first_problem((term,)))
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "valid_terms", valid)

    @classmethod
    def decode(cls, reader: Reader) -> NodeSelector:
        return cls(
            tuple(
                NodeSelectorTerm(
                    match_expressions=_decode_requirements(term, "matchExpressions"),
                    match_fields=_decode_requirements(term, "matchFields"),
                )
                for term in reader.children("nodeSelectorTerms")
            )
        )

    def to_json(self) -> dict[str, object]:
        return {"nodeSelectorTerms": [term.to_json() for term in self.terms]}

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node is selected.

        Raises
        ------
        NodeSelectorError
            When any term, matching or not, is malformed.
        """
        if self.problem:
            raise NodeSelectorError(self.problem)
        return any(not term.is_empty and term.matches(node_name, labels) for term in self.terms)


def node_name_selector(node_name: str) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", (node_name,)),)),))


def _first_problem(terms: tuple[NodeSelectorTerm, ...]) -> str:
    try:
        for term in terms:
            for requirement in term.match_expressions:
                requirement.check_label()
            for requirement in term.match_fields:
                requirement.check_field()
    except NodeSelectorError as error:
        return str(error)
    return ""


def _decode_requirements(term: Reader, key: str) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(intern(item.text("key")), intern(item.text("operator")), item.texts("values") or ())
        for item in term.children(key)
    )


def add_missing(requirements: list[Requirement], more: Iterable[Requirement]) -> None:
    """Append the requirements that are not in the list yet."""
    for requirement in more:
        if not any(requirement.same_as(known) for known in requirements):
            requirements.append(requirement)


def _parse_int64(text: str) -> int | None:
    if len(text) > 40 or not _INTEGER.match(text):
        return None
    number = int(text)
    return number if MIN_INT64 <= number <= MAX_INT64 else None


def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.match(prefix)):
        return False
    return len(name) <= 63 and _NAME.match(name) is not None
