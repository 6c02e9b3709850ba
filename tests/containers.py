"""How much objects of ours hold, whatever their attributes are called."""

from __future__ import annotations

from collections import deque
from types import MethodType

__all__ = ["containers", "max_held"]


def containers(root: object) -> dict[str, int]:
    """How much is in each collection that objects of ours hold, by class and attribute; the biggest of each."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    to_visit: list[object] = [root]
    while to_visit:
        each = to_visit.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            to_visit += [*dict.keys(each), *dict.values(each)]
        elif isinstance(each, list | tuple | set | frozenset | deque):
            to_visit += each
        elif isinstance(each, MethodType):
            to_visit.append(each.__self__)
        elif type(each).__module__.startswith("dra_spawner."):
            names = {name for cls in type(each).__mro__ for name in getattr(cls, "__slots__", ())}
            names.update(getattr(each, "__dict__", ()))
            for name in names:
                value = getattr(each, name, None)
                if isinstance(value, dict | list | set | deque):
                    path = f"{type(each).__name__}.{name}"
                    found[path] = max(found.get(path, 0), len(value))
                to_visit.append(value)
    return found


def max_held(root: object, *, but: frozenset[str] = frozenset()) -> int:
    """How much is in the biggest collection; `but` has the names of collections that are bounded otherwise."""
    return max((size for path, size in containers(root).items() if path not in but), default=0)
