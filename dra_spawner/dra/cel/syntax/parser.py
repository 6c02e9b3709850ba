"""From tokens to a syntax tree; macros are recognised here, as in every CEL parser."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from dra_spawner.dra.cel.errors import CelCompileError, CelUnsupportedError
from dra_spawner.dra.cel.syntax.lexer import Token, TokenKind, position_error, tokenize
from dra_spawner.dra.cel.syntax.literals import parse_bytes, parse_double, parse_int, parse_string, parse_uint
from dra_spawner.dra.cel.syntax.macros import MacroError, expand_global, expand_member
from dra_spawner.dra.cel.syntax.nodes import (
    Call,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Node,
    Select,
    children,
)

#: Nesting that the API server's parser accepts.
MAX_DEPTH: Final = 250
#: Brackets within brackets, and nodes below nodes, that are handled here: what recurses over them stays far from
#: Python's own limit.
MAX_BRACKETS: Final = 50
MAX_TREE_DEPTH: Final = 150

_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_KEYWORDS: Final = {"true": True, "false": False, "null": None}
_RELATIONS: Final = frozenset(["<", "<=", ">=", ">", "==", "!=", "in"])
_BINARY_NAMES: Final = {
    **{symbol: f"_{symbol}_" for symbol in ("<", "<=", ">=", ">", "==", "!=", "+", "-", "*", "/", "%")},
    "in": "@in",
}


_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_TOO_DEEP: Final = (
    f"more than {MAX_BRACKETS} levels of brackets, or {MAX_TREE_DEPTH} of operators, are not supported here"
)


@lru_cache(maxsize=64)
def parse(source: str) -> Node:
    """Parse an expression. Trees are immutable, and the last ones are cached.

    Raises
    ------
    CelUnsupportedError
        When it is nested more deeply than is handled here.
    CelCompileError
        At the first thing that is not CEL.
    """
    try:
        return _Parser(source).parse()
    except RecursionError:
        raise CelUnsupportedError(_TOO_DEEP) from None


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self.index = 0
        self.depth = 0

    def parse(self) -> Node:
        self.check_brackets()
        node = self.expression()
        if self.current.kind is not TokenKind.END:
            raise self.unexpected("the end")
        if _tree_depth(node) > MAX_TREE_DEPTH:
            raise CelUnsupportedError(_TOO_DEEP)
        return node

    def check_brackets(self) -> None:
        depth = deepest = 0
        for token in self.tokens:
            if token.kind is not TokenKind.SYMBOL:
                continue
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            deepest = max(deepest, depth)
            if depth > MAX_DEPTH:
                raise self.error(token.offset, f"expression recursion limit exceeded: {MAX_DEPTH}")
        if deepest > MAX_BRACKETS:
            raise CelUnsupportedError(_TOO_DEEP)

    @property
    def current(self) -> Token:
        return self.tokens[self.index]

    def error(self, offset: int, message: str) -> CelCompileError:
        return position_error(self.source, offset, message)

    def unexpected(self, wanted: str) -> CelCompileError:
        token = self.current
        found = "the end of the expression" if token.kind is TokenKind.END else f"'{token.text}'"
        return self.error(token.offset, f"Syntax error: {found} where {wanted} was expected")

    def at(self, text: str) -> bool:
        token = self.tokens[self.index]
        return token.text == text and token.kind in (TokenKind.SYMBOL, TokenKind.IDENTIFIER)

    def accept(self, text: str) -> Token | None:
        if not self.at(text):
            return None
        self.index += 1
        return self.tokens[self.index - 1]

    def expect(self, text: str) -> Token:
        token = self.accept(text)
        if token is None:
            raise self.unexpected(f"'{text}'")
        return token

    def deeper(self, offset: int) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(offset, f"expression recursion limit exceeded: {MAX_DEPTH}")

    def expression(self) -> Node:
        self.deeper(self.current.offset)
        condition = self.disjunction()
        question = self.accept("?")
        if question is not None:
            if_true = self.disjunction()
            self.expect(":")
            condition = Call(question.offset, "_?_:_", None, (condition, if_true, self.expression()))
        self.depth -= 1
        return condition

    def disjunction(self) -> Node:
        terms, offset = [self.conjunction()], 0
        while token := self.accept("||"):
            offset = offset or token.offset
            terms.append(self.conjunction())
        return terms[0] if len(terms) == 1 else Call(offset, "_||_", None, tuple(terms))

    def conjunction(self) -> Node:
        terms, offset = [self.relation()], 0
        while token := self.accept("&&"):
            offset = offset or token.offset
            terms.append(self.relation())
        return terms[0] if len(terms) == 1 else Call(offset, "_&&_", None, tuple(terms))

    def relation(self) -> Node:
        left, before = self.sum(), self.depth
        while (token := self.current).text in _RELATIONS and token.kind is not TokenKind.STRING:
            self.index += 1
            self.deeper(token.offset)
            left = Call(token.offset, _BINARY_NAMES[token.text], None, (left, self.sum()))
        self.depth = before
        return left

    def sum(self) -> Node:
        left, before = self.product(), self.depth
        while token := self.accept("+") or self.accept("-"):
            self.deeper(token.offset)
            left = Call(token.offset, _BINARY_NAMES[token.text], None, (left, self.product()))
        self.depth = before
        return left

    def product(self) -> Node:
        left, before = self.unary(), self.depth
        while token := self.accept("*") or self.accept("/") or self.accept("%"):
            self.deeper(token.offset)
            left = Call(token.offset, _BINARY_NAMES[token.text], None, (left, self.unary()))
        self.depth = before
        return left

    def unary(self) -> Node:
        token = self.current
        if self.at("!"):
            count = self.repeated("!")
            operand = self.member(self.primary())
            return operand if count % 2 == 0 else Call(token.offset, "!_", None, (operand,))
        if self.at("-"):
            count = self.repeated("-")
            if self.current.kind in (TokenKind.INT, TokenKind.DOUBLE):
                count -= 1
                operand = self.member(self.number(self.tokens[self.index - 1].offset, "-"))
            else:
                operand = self.member(self.primary())
            return operand if count % 2 == 0 else Call(token.offset, "-_", None, (operand,))
        return self.member(self.primary())

    def repeated(self, symbol: str) -> int:
        count = 0
        while self.accept(symbol):
            count += 1
        return count

    def number(self, offset: int, sign: str = "") -> Node:
        token = self.current
        self.index += 1
        try:
            if token.kind is TokenKind.INT:
                return Literal(offset, parse_int(sign + token.text))
            if token.kind is TokenKind.UINT:
                return Literal(offset, parse_uint(token.text))
            return Literal(offset, parse_double(sign + token.text))
        except ValueError as error:
            raise self.error(offset, str(error)) from None

    def member(self, node: Node) -> Node:
        before = self.depth
        while True:
            token = self.current
            if self.accept("."):
                node = self.dotted(node, token)
            elif self.accept("["):
                function = "_[?_]" if self.accept("?") else "_[_]"
                index = self.expression()
                self.expect("]")
                node = Call(token.offset, function, None, (node, index))
            elif self.at("{") and isinstance(node, Ident | Select):
                raise self.unsupported(token.offset, "message literals")
            else:
                self.depth = before
                return node
            self.deeper(token.offset)

    def dotted(self, operand: Node, dot: Token) -> Node:
        optional = self.accept("?") is not None
        token = self.current
        if token.kind is not TokenKind.IDENTIFIER or token.text in _KEYWORDS or token.text == "in":
            raise self.unexpected("a name")
        self.index += 1
        opening = None if optional else self.accept("(")
        if opening is None:
            return Select(dot.offset, operand, token.text, optional)
        args = self.arguments()
        try:
            expanded = expand_member(opening.offset, token.text, operand, args)
        except MacroError as error:
            raise self.error(error.offset, str(error)) from None
        return expanded or Call(opening.offset, token.text, operand, args)

    def arguments(self) -> tuple[Node, ...]:
        args: list[Node] = []
        if not self.at(")"):
            args.append(self.expression())
            while self.accept(","):
                args.append(self.expression())
        self.expect(")")
        return tuple(args)

    def primary(self) -> Node:
        token = self.current
        match token.kind:
            case TokenKind.IDENTIFIER:
                return self.named(token)
            case TokenKind.INT | TokenKind.UINT | TokenKind.DOUBLE:
                return self.number(token.offset)
            case TokenKind.STRING | TokenKind.BYTES:
                self.index += 1
                try:
                    convert = parse_string if token.kind is TokenKind.STRING else parse_bytes
                    return Literal(token.offset, convert(token.text))
                except ValueError as error:
                    raise self.error(token.offset, str(error)) from None
        if self.accept("("):
            node = self.expression()
            self.expect(")")
            return node
        if self.accept("["):
            return self.list_literal(token.offset)
        if self.accept("{"):
            return self.map_literal(token.offset)
        if self.accept("."):
            if self.current.kind is not TokenKind.IDENTIFIER:
                raise self.unexpected("a name")
            return self.named(self.current, rooted=True)
        raise self.unexpected("an expression")

    def named(self, token: Token, *, rooted: bool = False) -> Node:
        if token.text in _KEYWORDS and not rooted:
            self.index += 1
            return Literal(token.offset, _KEYWORDS[token.text])
        if token.text == "in" or token.text in _KEYWORDS:
            raise self.unexpected("an expression")
        self.index += 1
        if token.text in _RESERVED:
            raise self.error(token.offset, f"reserved identifier: {token.text}")
        opening = self.accept("(")
        if opening is None:
            return Ident(token.offset, token.text)
        args = self.arguments()
        try:
            expanded = None if rooted else expand_global(opening.offset, token.text, args)
        except MacroError as error:
            raise self.error(error.offset, str(error)) from None
        return expanded or Call(opening.offset, token.text, None, args)

    def list_literal(self, offset: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while not self.at("]") and not (self.at(",") and not elements):
            if self.accept("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            if not self.at(",") or self.tokens[self.index + 1].text == "]":
                break
            self.index += 1
        self.accept(",")
        self.expect("]")
        return ListLiteral(offset, tuple(elements), frozenset(optional))

    def map_literal(self, offset: int) -> Node:
        entries: list[MapEntry] = []
        while not self.at("}") and not (self.at(",") and not entries):
            optional = self.accept("?") is not None
            key = self.expression()
            self.expect(":")
            entries.append(MapEntry(key, self.expression(), optional))
            if not self.at(",") or self.tokens[self.index + 1].text == "}":
                break
            self.index += 1
        self.accept(",")
        self.expect("}")
        return MapLiteral(offset, tuple(entries))

    def unsupported(self, offset: int, what: str) -> CelUnsupportedError:
        error = self.error(offset, f"{what} are not supported here")
        return CelUnsupportedError(error.message, error.column, error.line)


def _tree_depth(root: Node) -> int:
    depth, level = 0, [root]
    while level:
        depth += 1
        level = [child for node in level for child in children(node)]
    return depth
