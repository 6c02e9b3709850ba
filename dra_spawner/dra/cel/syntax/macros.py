"""The macros: calls that are not calls but syntax of their own."""

from __future__ import annotations

from typing import Final

from dra_spawner.dra.cel.syntax.nodes import Bind, Fold, FoldKind, Ident, Node, OptionalMap, Select


class MacroError(ValueError):
    """Arguments that do not suit a macro."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


# (name, number of arguments) -> (kind, number of variables, has a predicate, has a transform)
_FOLDS: Final = {
    ("all", 2): (FoldKind.ALL, 1, True, False),
    ("exists", 2): (FoldKind.EXISTS, 1, True, False),
    ("exists_one", 2): (FoldKind.EXISTS_ONE, 1, True, False),
    ("map", 2): (FoldKind.MAP, 1, False, True),
    ("map", 3): (FoldKind.MAP, 1, True, True),
    ("filter", 2): (FoldKind.FILTER, 1, True, False),
    ("sortBy", 2): (FoldKind.SORT_BY, 1, False, True),
    ("all", 3): (FoldKind.ALL, 2, True, False),
    ("exists", 3): (FoldKind.EXISTS, 2, True, False),
    ("exists_one", 3): (FoldKind.EXISTS_ONE, 2, True, False),
    ("existsOne", 3): (FoldKind.EXISTS_ONE, 2, True, False),
    ("transformList", 3): (FoldKind.TRANSFORM_LIST, 2, False, True),
    ("transformList", 4): (FoldKind.TRANSFORM_LIST, 2, True, True),
    ("transformMap", 3): (FoldKind.TRANSFORM_MAP, 2, False, True),
    ("transformMap", 4): (FoldKind.TRANSFORM_MAP, 2, True, True),
    ("transformMapEntry", 3): (FoldKind.TRANSFORM_MAP_ENTRY, 2, False, True),
    ("transformMapEntry", 4): (FoldKind.TRANSFORM_MAP_ENTRY, 2, True, True),
}
_LIST_ONLY: Final = frozenset([FoldKind.MAP, FoldKind.FILTER, FoldKind.SORT_BY])
_ACCUMULATORS: Final = frozenset(["__result__", "@result"])


def expand_global(offset: int, name: str, args: tuple[Node, ...]) -> Node | None:
    """The node a call without target stands for, or None when it is a plain call.

    Raises
    ------
    MacroError
        When the arguments do not suit the macro.
    """
    if name != "has" or len(args) != 1:
        return None
    operand = args[0]
    if not isinstance(operand, Select) or operand.optional or operand.test_only:
        raise MacroError("invalid argument to has() macro", operand.offset)
    return Select(offset, operand.operand, operand.field, test_only=True)


def expand_member(offset: int, name: str, target: Node, args: tuple[Node, ...]) -> Node | None:
    """The node a call with a target stands for, or None when it is a plain call.

    Raises
    ------
    MacroError
        When the arguments do not suit the macro.
    """
    if name == "bind" and len(args) == 3 and isinstance(target, Ident) and target.name == "cel":
        variable = args[0]
        if not isinstance(variable, Ident):
            raise MacroError("cel.bind() variable names must be simple identifiers", variable.offset)
        return Bind(offset, variable.name, args[1], args[2])
    if name in ("optMap", "optFlatMap") and len(args) == 2:
        variable = args[0]
        if not isinstance(variable, Ident):
            raise MacroError(f"{name}() variable name must be a simple identifier", variable.offset)
        return OptionalMap(offset, target, variable.name, args[1], name == "optFlatMap")
    if (name, len(args)) not in _FOLDS:
        return None
    kind, count, has_predicate, has_transform = _FOLDS[name, len(args)]
    variables = tuple(_variable(kind, arg) for arg in args[:count])
    if count == 2 and variables[0] == variables[1]:
        raise MacroError(f"duplicate variable name: {variables[0]}", args[1].offset)
    rest = args[count:]
    return Fold(
        offset,
        kind,
        target,
        variables,
        rest[0] if has_predicate else None,
        rest[-1] if has_transform else None,
    )


def _variable(kind: FoldKind, arg: Node) -> str:
    if not isinstance(arg, Ident):
        problem = "argument is not an identifier" if kind in _LIST_ONLY else "argument must be a simple name"
        raise MacroError(problem, arg.offset)
    if arg.name in _ACCUMULATORS:
        raise MacroError("iteration variable overwrites accumulator variable", arg.offset)
    return arg.name
