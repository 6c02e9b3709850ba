"""Containerfiles as far as ours use them: stages, their instructions, and the commands that RUN executes."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
IMAGES: Final = ROOT / "images"
#: Seconds of a command: it ends only what hangs. On a busy machine a package that takes 5 s has taken 300.
LIMIT: Final = 1800
_OPTION = re.compile(r"--[a-z]+=\S+\s+")


@dataclass(frozen=True)
class Stage:
    """A FROM and its instructions: pairs of an instruction and its text."""

    base: str
    name: str
    instructions: tuple[tuple[str, str], ...]

    def texts(self, word: str) -> list[str]:
        return [text for each, text in self.instructions if each == word]

    def commands(self) -> list[str]:
        """The commands of the shell, without the options of RUN."""
        return [re.sub(rf"^({_OPTION.pattern})+", "", text) for text in self.texts("RUN")]


@dataclass(frozen=True)
class Containerfile:
    arguments: Mapping[str, str]
    """ARG before the first FROM, with defaults."""
    stages: tuple[Stage, ...]


def read_containerfile(path: Path) -> Containerfile:
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[tuple[str, str]]]] = []
    for line in filter(None, map(str.strip, lines)):
        word, rest = line.split(None, 1)
        if word == "FROM":
            words = _OPTION.sub("", rest).split()
            stages.append((words[0], words[2] if len(words) == 3 else "", []))
        elif stages:
            stages[-1][2].append((word, rest))
        else:
            assert word == "ARG", f"{word} before the first FROM"
            name, _, value = rest.partition("=")
            arguments[name] = value
    return Containerfile(arguments, tuple(Stage(base, name, tuple(found)) for base, name, found in stages))


def execute(command: str, paths: Mapping[str, Path], environment: Mapping[str, str]) -> None:
    """Execute a command of RUN on this machine.

    Parameters
    ----------
    paths
        Replacements of paths of the image, the longer ones first.
    """
    inside = re.compile(rf"(?<![\w/])({'|'.join(map(re.escape, paths))})(?=[/\s]|$)")
    command = inside.sub(lambda found: shlex.quote(str(paths[found[1]])), command)
    subprocess.run(["sh", "-ec", command], env=dict(environment), check=True, timeout=LIMIT)
