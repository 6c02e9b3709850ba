"""The function table: declarations for the checker, implementations for the compiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from dra_spawner.dra.cel.cel_types import CelType, parse_type
from dra_spawner.dra.cel.library import cost as costs
from dra_spawner.dra.cel.library.cost import CostFunction
from dra_spawner.dra.cel.quantities import CelQuantity
from dra_spawner.dra.cel.semver import Semver
from dra_spawner.dra.cel.values import DefaultMap, OptionalValue, TypeValue, Uint, Value

Implementation = Callable[..., Value]
_F = TypeVar("_F", bound=Implementation)

_PYTHON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "uint": (Uint,),
    "double": (float,),
    "string": (str,),
    "bytes": (bytes,),
    "list": (list,),
    "map": (dict, DefaultMap),
    "optional_type": (OptionalValue,),
    "type": (TypeValue,),
    "kubernetes.Quantity": (CelQuantity,),
    "kubernetes.Semver": (Semver,),
}


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function; a member's first parameter is its target."""

    function: str
    member: bool
    params: tuple[CelType, ...]
    result: CelType
    implementation: Implementation
    cost: CostFunction

    def accepts(self, kinds: tuple[type, ...]) -> bool:
        """Whether values of these Python types may be passed."""
        return len(kinds) == len(self.params) and all(map(_accepts, self.params, kinds))


def _accepts(param: CelType, kind: type) -> bool:
    return param.is_param or param.name == "dyn" or kind in _PYTHON_TYPES[param.name]


#: Name to its overloads, in the order of their declaration.
FUNCTIONS: Final[dict[str, list[Overload]]] = {}

# Either "name(params) result" or "target.name(params) result"; the target's type is written before ` . `.
_SIGNATURE: Final = re.compile(r"(?:(?P<target>\S.*?) \. )?(?P<name>[^ (]+)\((?P<params>.*)\) -> (?P<result>.+)")


def _split_types(text: str) -> Iterable[str]:
    depth = 0
    start = 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            yield text[start:index].strip()
            start = index + 1
    if text.strip():
        yield text[start:].strip()


def declare(signature: str, implementation: Implementation, cost: CostFunction = costs.one) -> None:
    """Add an overload to the table.

    Parameters
    ----------
    signature
        ``name(int, list(A)) -> bool``, or ``string . name(int) -> bool`` for a method of strings.
    implementation
        Takes the values (a method's target first); its arguments have the declared types.
    cost
        What a call costs.
    """
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature
    params = [parse_type(text) for text in _split_types(match["params"])]
    if match["target"]:
        params.insert(0, parse_type(match["target"]))
    result = parse_type(match["result"])
    name = match["name"]
    FUNCTIONS.setdefault(name, []).append(
        Overload(name, bool(match["target"]), tuple(params), result, implementation, cost)
    )


def overload(*signatures: str, cost: CostFunction = costs.one) -> Callable[[_F], _F]:
    """Declare the decorated function under these signatures."""

    def decorate(function: _F) -> _F:
        for signature in signatures:
            declare(signature, function, cost)
        return function

    return decorate


def implementation_for(candidates: Iterable[Overload], kinds: tuple[type, ...]) -> Overload | None:
    """The first of the overloads that takes values of these Python types."""
    for candidate in candidates:
        if candidate.accepts(kinds):
            return candidate
    return None
