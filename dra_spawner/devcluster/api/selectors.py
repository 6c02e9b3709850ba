"""Label and field selectors, parsed and matched as in kube-apiserver."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from dra_spawner.devcluster.api.event_forms import STORED_NAMES
from dra_spawner.devcluster.api.resource_types import (
    EVENTS,
    GROUP_EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCESLICES,
    SECRETS,
    ResourceType,
)
from dra_spawner.devcluster.api.validation.names import check_label_value, qualified_name_problems


class SelectorError(ValueError):
    """Raised for a selector that cannot be parsed, or that names an unsupported field."""


class Operator(StrEnum):
    """Operator of a label requirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy it; an absent label satisfies NotIn."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER | Operator.LESS:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        (bound,) = self.values
        if value is None or not re.fullmatch(r"[+-]?\d+", value):
            return False
        return int(value) > int(bound) if self.operator is Operator.GREATER else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions on labels, which must all hold."""

    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        known = labels or {}
        return all(requirement.matches(known) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)


_TOKEN = re.compile(r"\s*(?:(?P<symbol>==|!=|[=!<>(),])|(?P<word>[^\s=!<>(),]+))")
_SYMBOLS = ("==", "!=", *"=!<>(),")


class _LabelParser:
    """Recursive descent over the tokens of a label selector."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            assert match is not None, "the pattern covers every character"
            self.tokens.append(match["symbol"] or match["word"])
            position = match.end()
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def selector(self) -> LabelSelector:
        requirements: list[LabelRequirement] = []
        while self.peek():
            if self.peek() in _SYMBOLS and self.peek() != "!":
                raise SelectorError(f"found '{self.peek()}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            if not self.peek():
                break
            if (found := self.take()) != ",":
                raise SelectorError(f"found '{found}', expected: ',' or 'end of string'")
            if self.peek() in ("", *_SYMBOLS) and self.peek() != "!":
                raise SelectorError(f"found '{self.peek()}', expected: identifier after ','")
        return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))

    def requirement(self) -> LabelRequirement:
        absent = self.peek() == "!"
        if absent:
            self.take()
        key = self.take()
        if not key or key in _SYMBOLS:
            raise SelectorError(f"found '{key}', expected: identifier")
        if problems := qualified_name_problems(key):
            raise SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(problems)}')
        if absent:
            return LabelRequirement(key, Operator.DOES_NOT_EXIST)
        if self.peek() in ("", ","):
            return LabelRequirement(key, Operator.EXISTS)
        operator = self.take()
        match operator:
            case "=" | "==":
                return LabelRequirement(key, Operator.IN, frozenset({self.value(key)}))
            case "!=":
                return LabelRequirement(key, Operator.NOT_IN, frozenset({self.value(key)}))
            case "in" | "notin":
                kind = Operator.IN if operator == "in" else Operator.NOT_IN
                return LabelRequirement(key, kind, self.value_set(key))
            case "<" | ">":
                bound = self.value(key)
                if not re.fullmatch(r"[+-]?\d+", bound):
                    rule = "for 'Gt', 'Lt' operators, the value must be an integer"
                    raise SelectorError(f'values[0]: Invalid value: "{bound}": {rule}')
                return LabelRequirement(key, Operator.GREATER if operator == ">" else Operator.LESS, frozenset({bound}))
        raise SelectorError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def value(self, key: str) -> str:
        if self.peek() in ("", ","):
            return ""
        value = self.take()
        if value in _SYMBOLS:
            raise SelectorError(f"found '{value}', expected: identifier")
        for error in check_label_value(value, f"values[0][{key}]"):
            raise SelectorError(str(error))
        return value

    def value_set(self, key: str) -> frozenset[str]:
        if (found := self.take()) != "(":
            raise SelectorError(f"found '{found}' expected: '('")
        if not self.peek():
            raise SelectorError("found '', expected: ',', ')' or identifier")
        values = {self.value(key) if self.peek() != ")" else ""}
        while self.peek() == ",":
            self.take()
            values.add(self.value(key) if self.peek() != ")" else "")
        if (found := self.take()) != ")":
            raise SelectorError(f"found '{found}', expected: ',' or ')'")
        return frozenset(values)


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> LabelSelector:
    """A label selector from its text form, e.g. ``app=hub,tier in (a, b),!gone``.

    Raises
    ------
    SelectorError
        When the text is not a selector.
    """
    return _LabelParser(text).selector()


def structured_label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """A label selector from its object form, ``{"matchLabels": …, "matchExpressions": […]}``."""
    requirements = [
        LabelRequirement(key, Operator.IN, frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        values = frozenset(expression.get("values") or ())
        requirements.append(LabelRequirement(expression["key"], Operator(expression["operator"]), values))
    return LabelSelector(tuple(requirements))


_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: dict[ResourceType, tuple[str, ...]] = {
    PODS: (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    EVENTS: (*(f"involvedObject.{field}" for field in _INVOLVED), "reason", "reportingComponent", "source", "type"),
    GROUP_EVENTS: (*(f"regarding.{field}" for field in _INVOLVED), "reason", "reportingController", "type"),
    NODES: ("spec.unschedulable",),
    NAMESPACES: ("status.phase",),
    SECRETS: ("type",),
    RESOURCESLICES: ("spec.nodeName", "spec.driver"),
}


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions on fields, which must all hold."""

    terms: tuple[tuple[str, bool, str], ...] = ()
    """Terms: dotted path, whether the field must equal the value (else differ from it), and value."""

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether the object is selected; an absent field reads as the empty string."""
        return all((_field(obj, path) == value) is equal for path, equal, value in self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)


def _field(obj: Mapping[str, Any], path: str) -> str:
    if path == "source":  # of an event: old clients set `source`, newer clients `reportingComponent`
        return (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if path == "status.podIPs":
        return ",".join(entry.get("ip", "") for entry in value or ())
    if path in ("spec.unschedulable", "spec.hostNetwork"):
        return "true" if value else "false"
    return "" if value is None else str(value)


@lru_cache(maxsize=1024)
def parse_field_selector(text: str, resource_type: ResourceType) -> FieldSelector:
    """A field selector, e.g. ``status.phase!=Running,spec.nodeName=n1``, for objects of one kind.

    Raises
    ------
    SelectorError
        If the text is not a selector, or the API does not support the field for this kind.
    """
    terms: list[tuple[str, bool, str]] = []
    for term in _split_terms(text):
        match = re.match(r"([^=!]*)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, raw = match.groups()
        known = ("metadata.name", "metadata.namespace") if resource_type.namespaced else ("metadata.name",)
        if path not in known and path not in _FIELDS.get(resource_type, ()):
            raise SelectorError(_unknown_field(path, resource_type))
        if re.search(r"(?<!\\)=", raw):
            raise SelectorError("invalid field selector: unescaped character in value: 61")
        if resource_type is GROUP_EVENTS:
            head, dot, rest = path.partition(".")
            path = STORED_NAMES.get(head, head) + dot + rest
        terms.append((path, operator != "!=", re.sub(r"\\(.)", r"\1", raw)))
    return FieldSelector(tuple(terms))


def _unknown_field(path: str, resource_type: ResourceType) -> str:
    if resource_type in _FIELDS:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _split_terms(text: str) -> list[str]:
    """The terms between commas; a backslash escapes the next character."""
    return [term for term in re.findall(r"(?:\\.|[^,\\])+", text) if term]


ObjectFilter = Callable[[Mapping[str, Any]], bool]


def object_filter(
    resource_type: ResourceType, label_selector: str = "", field_selector: str = ""
) -> ObjectFilter | None:
    """A predicate for both selectors; None if they select every object.

    Raises
    ------
    SelectorError
        If one of them cannot be parsed.
    """
    labels = parse_label_selector(label_selector)
    fields = parse_field_selector(field_selector, resource_type)
    if not labels and not fields:
        return None
    return lambda obj: labels.matches(obj["metadata"].get("labels")) and fields.matches(obj)
