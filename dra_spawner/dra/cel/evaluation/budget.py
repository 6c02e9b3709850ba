"""Limits of one evaluation, so that a tenant's expression cannot stall the caller.

Kubernetes' own limit counts what its interpreter was expected to do: comparing two lists costs one step there, however
much is inside of them, and a formatted number costs nothing for its digits. Here the values that are looked at and the
memory of what is built count, too, before it happens. Nothing but sizes is counted, so an expression has the same
outcome on each machine.
"""

from __future__ import annotations

from typing import Final

from dra_spawner.dra.cel.errors import CelBudgetExceeded
from dra_spawner.dra.cel.values import OptionalValue, Value

#: Steps of an evaluation, in the units of :mod:`.cost`; a tenth of what Kubernetes allows.
MAX_STEPS: Final = 100_000
#: Memory of all that an evaluation builds.
MAX_BYTES: Final = 8 * 2**20
#: Nesting of values that are compared, searched or printed.
MAX_DEPTH: Final = 64

#: What one element of a list takes, a number in it included.
ELEMENT_BYTES: Final = 64
_PRINTED_SCALAR: Final = 24

#: Number of values inside of a value, itself included, and of characters that printing them takes at most. What
#: occurs twice counts twice.
Extent = tuple[int, int]


def extent(value: Value) -> Extent:
    """How much a value holds, computed in time proportional to what is really stored.

    Raises
    ------
    CelBudgetExceeded
        When it is nested too deeply.
    """
    if not _is_container(value):
        return 1, _printed(value)
    known: dict[int, tuple[int, int, int]] = {}
    pending = [(value, False)]
    while pending:
        node, seen = pending.pop()
        if id(node) in known:
            continue
        parts = _parts(node)
        inner = [part for part in parts if _is_container(part)]
        if not seen:
            pending.append((node, True))
            pending.extend((part, False) for part in inner if id(part) not in known)
            continue
        count, printed, depth = 1 + len(parts), 2 * len(parts), 1
        for part in parts:
            if _is_container(part):
                inner_count, inner_printed, inner_depth = known[id(part)]
                count, printed, depth = count + inner_count, printed + inner_printed, max(depth, inner_depth + 1)
            else:
                printed += _printed(part)
        if depth > MAX_DEPTH:
            raise CelBudgetExceeded(f"a value is nested deeper than {MAX_DEPTH} levels, which is not supported here")
        known[id(node)] = count, printed, depth
    count, printed, _ = known[id(value)]
    return count, printed


def _is_container(value: Value) -> bool:
    return isinstance(value, list | dict | OptionalValue)


def _parts(value: Value) -> list[Value]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [*value, *value.values()]
    return [value.value]


def _printed(value: Value) -> int:
    return 6 * len(value) + 2 if isinstance(value, str | bytes) else _PRINTED_SCALAR


def bytes_of(value: Value) -> int:
    """Memory of a text or a list, without what is inside of the list; others count nothing."""
    if isinstance(value, str):
        return len(value) if value.isascii() else 4 * len(value)
    if isinstance(value, bytes):
        return len(value)
    return ELEMENT_BYTES * len(value) if isinstance(value, list | dict) else 0


def refuse_bytes(size: int) -> None:
    """Refuse to build something that large.

    Raises
    ------
    CelBudgetExceeded
        When it is more than one evaluation may build.
    """
    if size > MAX_BYTES:
        raise CelBudgetExceeded(f"evaluating it takes more than {MAX_BYTES // 2**20} MiB of memory")
