"""From the text of a selector to a program: parsing, types, Kubernetes' own checks, the estimate of its cost."""

from __future__ import annotations

from typing import Never

from dra_spawner.dra.cel.cel_types import ANY, BOOL, DYN, CelType
from dra_spawner.dra.cel.checker import Checked, check
from dra_spawner.dra.cel.errors import (
    CelBudgetExceeded,
    CelCompileError,
    CelTooComplexError,
    CelUnsupportedError,
    EvaluationError,
)
from dra_spawner.dra.cel.estimation.estimate import estimate_cost
from dra_spawner.dra.cel.evaluation.compiler import Program, compile_checked
from dra_spawner.dra.cel.library.cost import COST_LIMIT
from dra_spawner.dra.cel.library.formatting import ALLOWED, complaint, parse_format
from dra_spawner.dra.cel.library.regular_expressions import compile_pattern
from dra_spawner.dra.cel.syntax.lexer import position_error
from dra_spawner.dra.cel.syntax.nodes import Call, ListLiteral, Literal, MapLiteral, Node, children
from dra_spawner.dra.cel.syntax.parser import parse


def _validate(checked: Checked, source: str) -> None:
    """Check constant patterns, constant format strings and that lists and maps hold values of one type.

    Raises
    ------
    CelCompileError
        At the first that is wrong.
    """
    _Validator(checked, source).visit(checked.root, in_format=False)


class _Validator:
    def __init__(self, checked: Checked, source: str) -> None:
        self.checked = checked
        self.source = source

    def fail(self, node: Node, message: str) -> Never:
        raise position_error(self.source, node.offset, message)

    def kind(self, node: Node) -> CelType:
        return self.checked.types[id(node)]

    def visit(self, node: Node, *, in_format: bool) -> None:
        match node:
            case Call():
                self.call(node)
                in_format = in_format or node.function == "format"
            case ListLiteral() if not in_format:
                self.one_type(list(node.elements), node.optional)
            case MapLiteral() if not in_format:
                self.one_type([entry.key for entry in node.entries], frozenset())
                optional = frozenset(index for index, entry in enumerate(node.entries) if entry.optional)
                self.one_type([entry.value for entry in node.entries], optional)
        for child in children(node):
            self.visit(child, in_format=in_format)

    def one_type(self, nodes: list[Node], optional: frozenset[int]) -> None:
        expected: CelType | None = None
        for index, node in enumerate(nodes):
            kind = self.kind(node)
            if index in optional and kind.params:
                kind = kind.params[0]
            if expected is None:
                expected = kind
            elif kind != expected:
                self.fail(node, f"expected type '{expected}' but found '{kind}'")

    def call(self, node: Call) -> None:
        match node:
            case Call(function="matches", args=(Literal(value=str() as pattern) as literal, *_)):
                # Of matches(text, pattern) the API server checks the first argument here, too.
                if not _is_pattern(pattern):
                    self.fail(literal, "invalid matches argument")
            case Call(function="format", target=Literal(value=str() as text), args=(ListLiteral() as args,)):
                self.format_call(node, text, args)

    def format_call(self, node: Call, text: str, args: ListLiteral) -> None:
        try:
            pieces = parse_format(text, len(args.elements))
        except EvaluationError as error:
            self.fail(node, str(error))
        clauses = [piece for piece in pieces if not isinstance(piece, str)]
        for (verb, _), arg in zip(clauses, args.elements, strict=False):
            self.formatted(verb, arg)
        if len(args.elements) > len(clauses):
            expected, given = len(clauses), len(args.elements)
            self.fail(node, f"too many arguments supplied to string.format (expected {expected}, got {given})")

    def formatted(self, verb: str, node: Node) -> None:
        """Check that a value may be formatted, and what is inside of it."""
        kind = self.kind(node)
        if kind.name != "dyn" and kind.name not in ALLOWED[verb]:
            self.fail(node, complaint(verb, "google.protobuf.Any" if kind == ANY else kind.name))
        if verb == "s" and isinstance(node, ListLiteral | MapLiteral):
            for child in children(node):
                self.formatted(verb, child)


def _is_pattern(text: str) -> bool:
    try:
        compile_pattern(text)
    except CelBudgetExceeded as error:
        raise CelUnsupportedError(str(error)) from None
    except EvaluationError:
        return False
    return True


def compile_program(expression: str, *, list_attributes: bool) -> Program:
    """Compile a selector, see `dra_spawner.dra.cel.selector.compile_selector`.

    Raises
    ------
    CelCompileError
        When it is no valid selector, or uses what is not implemented here.
    RecursionError
        When it is nested too deeply.
    """
    checked = check(parse(expression), expression, list_attributes=list_attributes)
    _validate(checked, expression)
    accepted = (BOOL, ANY, DYN) if list_attributes else (BOOL, ANY)
    if checked.type_of_result not in accepted:
        kind = str(checked.type_of_result).replace("any", "google.protobuf.Any")
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {kind}")
    estimate = estimate_cost(checked)
    if estimate > COST_LIMIT:
        raise CelTooComplexError(estimate)
    return compile_checked(checked)
