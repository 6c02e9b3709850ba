"""The promises to users, each with the test that holds it: ``python -m tests.promises`` writes their page of the docs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PAGE", "Promise", "page", "promises"]

TESTS: Final = Path(__file__).parent
PAGE: Final = TESTS.parent / "docs" / "explanation" / "promises.md"

#: Headings, and the directories or modules below ``tests`` whose promises they hold; the first that matches counts.
_PARTS: Final = {
    "Trying it: the demo and the embedded cluster": ("devcluster", "integration/test_kubelet"),
    "Profiles, and the claims that they compile to": ("profiles", "dra"),
    "The form": (
        "spawner/availability",
        "spawner/test_spawn_form",
        "integration/test_form",
        "integration/test_profile",
    ),
    "A start, and what users read": ("spawner", "integration", "user_server"),
    "Placeholders": ("placeholders",),
    "The simulator, and scaling ahead": (
        "simulator",
        "scale_ahead",
        "history",
        "commands/rehearsing",
        "commands/replaying",
    ),
    "The service: API, pages and metrics": ("service", "kube"),
    "Commands": ("",),
}
_HEAD: Final = """# What is promised

For administrators who judge the project, and for developers. After this page you know what users can count on, and which test holds each promise.

`pytest` runs nine of ten of these tests, and all that need no cluster, in five minutes on two cores, or seven on a slow machine. Those that need a cluster run on the embedded
one; most run on a real kube-apiserver and kube-scheduler, too. One of ten needs these (`pytest -m real`), or runs each night.
`python -m tests.promises` makes this page from the tests.
"""


@dataclass(frozen=True, slots=True, order=True)
class Promise:
    """A promise, as a test's mark ``promise`` states it.

    Attributes
    ----------
    path
        Of the test's module, below ``tests``.
    line
        Of its function.
    test
        Name of its function.
    sentence
        What a user counts on.
    """

    path: str
    line: int
    test: str
    sentence: str


def promises(tests: Path = TESTS) -> Iterator[Promise]:
    """Yield the promises of all test modules, in their order."""
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text()
        if "mark.promise(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for mark in node.decorator_list:
                    match mark:
                        case ast.Call(ast.Attribute(attr="promise"), [ast.Constant(str(sentence))]):
                            yield Promise(path.relative_to(tests).as_posix(), node.lineno, node.name, sentence)


def page(found: list[Promise]) -> str:
    """Return the page: a table of promises for each part of the product."""
    lines = [_HEAD]
    for heading in _PARTS:
        of_part = [each for each in found if _part_of(each) == heading]
        if of_part:
            lines += [f"## {heading}\n", "| promise | test |", "|---|---|"]
            lines += [f"| {each.sentence} | `{each.path}::{each.test}` |" for each in sorted(of_part)]
            lines.append("")
    return "\n".join(lines)


def _part_of(promise: Promise) -> str:
    return next(heading for heading, prefixes in _PARTS.items() if promise.path.startswith(prefixes))


if __name__ == "__main__":
    PAGE.write_text(page(list(promises())))
