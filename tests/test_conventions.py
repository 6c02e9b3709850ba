"""Discouraged patterns that some tests still have: the numbers only go down."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent

PRIVATE_NAMES: Final = 0
"""Uses of a name with an underscore that belongs to something else: an attribute, an import, a name that is patched."""
IMPORTS_FROM_TESTS: Final = 0
"""Imports from a module of tests: what several of them need is in a module of its own."""
POLLING_LOOPS: Final = 1
"""Loops that sleep and look: `tests.polling` does."""
LONG_SLEEPS: Final = 0
"""Sleeps of more than 0.05 s: an event, `tests.polling` or a clock that the test sets is quicker and surer."""
_SHORT_SECONDS: Final = 0.05
_REAL_TIME: Final = ("bench", "node")
"""Directories about what takes real time: benchmarks, and pods on a real kubelet."""

_OWN = ("self", "cls", "super()")
_STANDARD_LIBRARY = ("os._exit", "sys._getframe")
#: Names of JupyterHub and KubeSpawner: a test calls, fills or reads them as the hub does.
_OF_THE_HUB = frozenset(
    [
        "_check_pending",
        "_ensure_namespace",
        "_make_create_pod_request",
        "_make_create_pvc_request",
        "_oauth_states",
        "_options_form_default",
        "_render_options_form",
        "_run_apply_user_options",
        "_service_map",
        "_start_future",
        "_stop_all_reflectors",
    ]
)
_PATCHES = ("setattr", "getattr", "delattr", "hasattr", "raising")


def private_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.Attribute(value, name) if _is_private(name):
                written = ast.unparse(node)
                if ast.unparse(value) not in _OWN and written not in _STANDARD_LIBRARY and name not in _OF_THE_HUB:
                    yield node.lineno, written
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, f"import {each.name}") for each in names if _is_private(each.name))
            case ast.Call(ast.Name(patch) | ast.Attribute(_, patch), [_, ast.Constant(str(name)), *_]):
                if patch in _PATCHES and _is_private(name):
                    yield node.lineno, ast.unparse(node)


def imports_from_tests(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and re.search(r"(^|\.)test_\w+$", node.module or ""):
            yield node.lineno, ast.unparse(node)


def polling_loops(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Loops with a condition or an end, whose last step is to sleep."""
    for node in nodes:
        if isinstance(node, ast.While) and re.match(r"(await asyncio|time)\.sleep\(", ast.unparse(node.body[-1])):
            is_endless = ast.unparse(node.test) == "True"
            if not is_endless:
                yield node.lineno, f"while {ast.unparse(node.test)}"


def long_sleeps(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.Call(func, [ast.Constant(int() | float() as seconds)]) if seconds > _SHORT_SECONDS:
                if ast.unparse(func) in ("asyncio.sleep", "time.sleep"):
                    yield node.lineno, ast.unparse(node)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


_LOOKED_AT: Final = (ast.Attribute, ast.Call, ast.ImportFrom, ast.While)
#: Each with the largest number of places.
PATTERNS: Final[Mapping[Callable[[Iterable[ast.AST]], Iterator[tuple[int, str]]], int]] = {
    private_names: PRIVATE_NAMES,
    imports_from_tests: IMPORTS_FROM_TESTS,
    polling_loops: POLLING_LOOPS,
    long_sleeps: LONG_SLEEPS,
}


def test_the_numbers_only_go_down() -> None:
    """If one is lower than here, write it down."""
    places = defaultdict[str, list[str]](list)
    for path in sorted(TESTS.rglob("*.py")):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, _LOOKED_AT)]
        for pattern in PATTERNS:
            if pattern is not long_sleeps or path.relative_to(TESTS).parts[0] not in _REAL_TIME:
                where = path.relative_to(TESTS.parent)
                places[pattern.__name__] += [f"{where}:{line}: {written}" for line, written in pattern(nodes)]
    for pattern, most in PATTERNS.items():
        lines = places[pattern.__name__]
        assert len(lines) <= most, f"{pattern.__name__}: {len(lines)}, and there may be {most}:\n" + "\n".join(lines)


EXAMPLE = """
from tests.spawner.steps.test_placement import NONSENSE, _hidden
async def test(spawner, monkeypatch):
    spawner._plan, spawner.__dict__, os._exit, self._own, super()._own
    monkeypatch.setattr(spawner, "_values", {})
    while not spawner.plan:
        await asyncio.sleep(1)
    while True:
        measure()
        time.sleep(1)
"""


def test_each_is_found() -> None:
    tree = list(ast.walk(ast.parse(EXAMPLE)))
    private = ["import _hidden", "spawner._plan", "monkeypatch.setattr(spawner, '_values', {})"]
    assert sorted(written for _, written in private_names(tree)) == sorted(private)
    assert list(imports_from_tests(tree)) == [(2, "from tests.spawner.steps.test_placement import NONSENSE, _hidden")]
    assert list(polling_loops(tree)) == [(6, "while not spawner.plan")]
    assert sorted(long_sleeps(tree)) == [(7, "asyncio.sleep(1)"), (10, "time.sleep(1)")]
