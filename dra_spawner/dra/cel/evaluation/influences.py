"""Which attributes of a device can change an expression's verdict.

Unlike `references`, which tells people what is read by name, this errs on the safe side: devices that agree on these
attributes, and in all else but attributes, get the same verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from dra_spawner.dra.cel.errors import CelCompileError
from dra_spawner.dra.cel.evaluation.device import OWN_DOMAIN
from dra_spawner.dra.cel.syntax.nodes import Bind, Call, Fold, Ident, Literal, Node, OptionalMap, Select, children
from dra_spawner.dra.cel.syntax.parser import parse

_Path = tuple[str | None, ...]
"""Keys from the device on; None is one that is computed."""


@lru_cache(maxsize=1024)
def attributes_that_matter(expression: str) -> frozenset[str] | None:
    """What of the device's attributes the expression can see, be it only whether it is there.

    Returns
    -------
    frozenset[str] | None
        ``domain/name`` for an attribute, ``domain/`` for all of a domain, which may be `OWN_DOMAIN`; None when it may
        be any attribute. Empty also when the expression cannot be parsed: then it fails on every device alike.
    """
    try:
        tree = parse(expression)
    except CelCompileError:
        return frozenset()
    visitor = _Visitor()
    visitor.visit(tree, {})
    return None if visitor.sees_all else frozenset(visitor.seen)


class _Visitor:
    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.sees_all = False

    def visit(self, node: Node, aliases: Mapping[str, str]) -> None:
        """Note what an expression sees.

        Parameters
        ----------
        aliases
            Domains by the names that ``cel.bind`` gave them.
        """
        path = _path(node, aliases)
        if path is not None:
            self._note(path)
            self._visit_keys(node, aliases)
            return
        match node:
            case Call(function="@in", args=(Literal(value=str() as key), container)):
                path = _path(container, aliases)
                if path is None:
                    self.visit(container, aliases)
                else:
                    self._note((*path, key))
                    self._visit_keys(container, aliases)
            case Bind(name=name, value=value, body=body):
                path = _path(value, aliases)
                if path is not None and len(path) == 2 and path[0] == "attributes" and path[1] is not None:
                    self.visit(body, {**aliases, name: path[1]})
                else:
                    self.visit(value, aliases)
                    self.visit(body, _without(aliases, name))
            case Fold():
                self.visit(node.range, aliases)
                for part in (node.predicate, node.transform):
                    if part is not None:
                        self.visit(part, _without(aliases, *node.variables))
            case OptionalMap():
                self.visit(node.target, aliases)
                self.visit(node.body, _without(aliases, node.name))
            case _:
                for child in children(node):
                    self.visit(child, aliases)

    def _note(self, path: _Path) -> None:
        match path:
            case ("driver" | "capacity" | "allowMultipleAllocations", *_):
                pass
            case ("attributes", str() as domain):
                self.seen.add(f"{domain}/")
            case ("attributes", str() as domain, name, *_):
                self.seen.add(f"{domain}/{name or ''}")
            case _:
                self.sees_all = True

    def _visit_keys(self, node: Node, aliases: Mapping[str, str]) -> None:
        """Computed keys of a path may see attributes, too."""
        while True:
            match node:
                case Select(operand=operand):
                    node = operand
                case Call(args=(container, key)):
                    self.visit(key, aliases)
                    node = container
                case _:
                    return


def _path(node: Node, aliases: Mapping[str, str]) -> _Path | None:
    """The way from the device to what an expression stands for; None when it starts elsewhere."""
    match node:
        case Ident(name=name) if name in aliases:
            return "attributes", aliases[name]
        case Ident(name="device"):
            return ()
        case Select(operand=operand, field=field):
            container = _path(operand, aliases)
            return None if container is None else (*container, field)
        case Call(function="_[_]" | "_[?_]", args=(operand, key)):
            container = _path(operand, aliases)
            return None if container is None else (*container, _constant(key, is_domain=container == ("attributes",)))
    return None


def _constant(key: Node, *, is_domain: bool) -> str | None:
    match key:
        case Literal(value=str() as text):
            return text
        case Select(operand=Ident(name="device"), field="driver", test_only=False) if is_domain:
            return OWN_DOMAIN
    return None


def _without(aliases: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: domain for name, domain in aliases.items() if name not in names}
