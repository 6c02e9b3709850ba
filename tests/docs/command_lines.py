"""The commands of the documentation, taken apart as a shell does, and what is known of the programs that they name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.docs.pages import Page, pages

LANGUAGES: Final = ("shell", "bash", "console", "sh")
_SEPARATORS: Final = frozenset(("|", "&&", ";", "||"))
_REDIRECTIONS: Final = frozenset((">", ">>", "<", "<<"))

KUBECTL: Final = {
    "apply": ("-f", "--dry-run", "--namespace"),
    "cordon": (),
    "create": ("-f", "--dry-run", "--as", "-n"),
    "delete": ("--namespace",),
    "label": ("--overwrite", "--dry-run"),
    "describe": ("--namespace",),
    "exec": ("--namespace",),
    "get": ("-o", "-A", "--all-namespaces", "--namespace", "--selector", "--watch"),
    "uncordon": (),
    "version": (),
}
"""The commands of kubectl in these pages, each with its options; others are typing errors until somebody looks them up."""


@dataclass(frozen=True)
class CommandLine:
    """One command of a page, without what a shell does around it."""

    page: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        return self.words[0].removeprefix(".venv/bin/")

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def command_lines() -> list[CommandLine]:
    """Every command in every block of a shell, each once."""
    found = [CommandLine(page.name, words) for page in pages() for words in commands_of(page)]
    return list(dict.fromkeys(found))


def commands_of(page: Page) -> Iterator[tuple[str, ...]]:
    """The words of each command of a page."""
    for block in page.blocks:
        if block.language in LANGUAGES:
            text = block.text
            if block.language == "console":
                text = "\n".join(re.findall(r"^\$ (.*)$", text, re.MULTILINE))
            text = re.sub(r"<<'END'\n.*?^END$", "", text, flags=re.DOTALL | re.MULTILINE)
            for line in text.replace("\\\n", " ").splitlines():
                yield from _simple_commands(line)


def _simple_commands(line: str) -> Iterator[tuple[str, ...]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
    lexer.whitespace_split = True
    words: list[str] = []
    tokens = iter(lexer)
    for token in tokens:
        if token in _SEPARATORS:
            yield tuple(words)
            words = []
        elif token in _REDIRECTIONS:
            next(tokens, None)
        else:
            words.append(token)
    if words:
        yield tuple(words)


def options_of(words: tuple[str, ...]) -> list[str]:
    """The names of the options among words."""
    return [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
