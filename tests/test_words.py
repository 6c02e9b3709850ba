"""One word for one thing: no name in the package or in its tests has a word that another word replaced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

INSTEAD: Final = {
    "headroom": "placeholders",
    "keeper": "controller, or the noun of what it is",
    "promise": "reservation",
    "promised": "reserved",
    "yielding": "preemption",
    "yielded": "preempted",
    "forsaken": "unused",
    "rivals": "nominated_pods",
    "leg": "interface",
    "room": "capacity",
    "seat": "slot",
    "seats": "slots",
}
"""Words that are not used, and the word for the same thing."""

OTHER_MEANING: Final = {"tests/promises.py", "tests/docs/test_promises.py"}
"""Modules about what users count on: there, a promise is not a reservation."""

PHRASES: Final = {
    "head_room": "placeholders",
    "make_way": "are_preempted",
    "makes_way": "is_preempted",
    "take_over": "handover",
    "takes_over": "gets_the_warm_claim",
    "taken_over": "handed_over",
    "taking_over": "handover",
    "let_go": "release, delete or preempt",
    "who_waits": "pending",
}
"""The same for several words."""


def names_of(tree: ast.AST) -> Iterator[str]:
    """All names that a module defines."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name) | ast.arg(name):
                yield name
            case ast.Name(name, ast.Store()) | ast.Attribute(_, name, ast.Store()):
                yield name


def names_of_text(text: str) -> Iterator[str]:
    """Those of a module that may be wrong: none, if no wrong word stands anywhere in its text."""
    if wrong_word(text):
        yield from names_of(ast.parse(text))


def wrong_word(name: str) -> str:
    """The word or the words of a name that are not used; empty if there are none."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    found = re.search(rf"(?<![a-z])({'|'.join([*PHRASES, *INSTEAD])})(?![a-z])", words)
    return found[1] if found is not None else ""


@pytest.mark.parametrize("directory", ["dra_spawner", "tests"])
def test_names_have_the_words_of_the_project(directory: str) -> None:
    wrong = sorted(
        {
            f"{path.relative_to(ROOT)}: {name}: write {(INSTEAD | PHRASES)[word]!r} instead of {word!r}"
            for path in (ROOT / directory).rglob("*.py")
            if path.relative_to(ROOT).as_posix() not in OTHER_MEANING
            for name in (path.stem, *names_of_text(path.read_text()))
            if (word := wrong_word(name))
        }
    )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("head_room", "head_room"),
        ("HeadRoom", "head_room"),
        ("NO_ROOM", "room"),
        ("test_a_placeholder_makes_way", "makes_way"),
        ("roommate", ""),
        ("legal", ""),
        ("makes_way_for", "makes_way"),
    ],
)
def test_a_wrong_word_is_found(name: str, word: str) -> None:
    assert wrong_word(name) == word
