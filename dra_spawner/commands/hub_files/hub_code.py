"""Runs code of a hub's configuration in a process of its own, within limits."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from dra_spawner.commands.hub_files.code_exchange import ANSWER, KNOWN_CLASSES, OBJECT, QUESTION, SECTIONS

SECONDS: Final = 60.0
"""Longest time of one piece of code."""
_PIECES_AT_MOST: Final = 3
"""All pieces together may take this many times the time of one."""
_MAX_ANSWER_BYTES: Final = 64 * 2**20

Settings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class HubCode:
    """Code of a hub's configuration, and what it finds in the hub.

    Attributes
    ----------
    file
        Path of a ``jupyterhub_config.py``; empty for Helm values, which have the other fields.
    settings
        Settings by section before the pieces run.
    pieces
        Name and code of each piece, in the order in which the hub runs them.
    files
        Text of files in the hub's container, by path.
    environment
        Variables of the hub's container.
    values
        Values of the chart, for ``z2jh.get_config``.
    names_prefix
        Beginning of the names of the chart's objects.
    """

    file: str = ""
    settings: Settings = field(default_factory=dict)
    pieces: Sequence[tuple[str, str]] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    names_prefix: str = ""


@dataclass(frozen=True, slots=True)
class SpawnerClass:
    """The hub's spawner class.

    Attributes
    ----------
    name
        Empty if the configuration sets none.
    is_ours
        Whether it is DRASpawner, or derived from it; None if that is not known.
    set_by
        The piece of code that set it last; empty if none did.
    problem
        Why it is not known; empty if it is.
    """

    name: str = ""
    is_ours: bool | None = False
    set_by: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CodeProblem:
    """Code that could not be run to its end.

    Attributes
    ----------
    piece
        Name of the piece; empty for a file, or for all pieces.
    line
        Counted from one; 0 if it is not known.
    sentence_end
        What happened, as the end of a sentence.
    is_certain
        Whether the hub, too, cannot run it, as it is no Python.
    """

    piece: str
    line: int
    sentence_end: str
    is_certain: bool = False


@dataclass(frozen=True, slots=True)
class CodeOutcome:
    """Settings of the spawner after the code has run.

    Attributes
    ----------
    settings
        Merged settings; the section of a class overrides the sections of its base classes.
    service
        Settings of ``dra-spawner service``, if the code is its configuration.
    """

    settings: dict[str, Any]
    spawner: SpawnerClass
    problems: tuple[CodeProblem, ...] = ()
    service: Mapping[str, Any] = field(default_factory=dict)


def settings_without_code(sections: Mapping[str, Any]) -> CodeOutcome:
    """The outcome of a configuration with the given sections and no code."""
    name = sections.get("JupyterHub", {}).get("spawner_class") or ""
    spawner = SpawnerClass(str(name), KNOWN_CLASSES.get(name, None if name else False))
    bases = (str(name).rpartition(".")[2],)
    merged: dict[str, Any] = {}
    for section in dict.fromkeys((*SECTIONS[:2], *bases, SECTIONS[2])):
        merged |= sections.get(section, {})
    return CodeOutcome(merged, spawner)


def run_hub_code(code: HubCode, seconds: float = SECONDS) -> CodeOutcome:
    """Run code in a process of its own, and return the settings that it leaves.

    The process has this process' rights. Its output is discarded, and it is ended when its time is over.
    """
    question = {
        "settings": code.settings,
        "pieces": code.pieces,
        "files": code.files,
        "environment": code.environment,
        "values": code.values,
        "names_prefix": code.names_prefix,
        "seconds": seconds,
        **({"file": code.file} if code.file else {}),
    }
    with tempfile.TemporaryDirectory(prefix="dra-spawner-check-") as directory:
        (Path(directory) / QUESTION).write_text(json.dumps(question))
        ended = _run_process(directory, seconds * min(len(code.pieces) + 1, _PIECES_AT_MOST))
        answer = _answer(Path(directory) / ANSWER)
    try:
        return _outcome(answer)
    except (AttributeError, KeyError, TypeError):
        problem = CodeProblem("", 0, "ended the process that ran it" if ended else "did not end in time")
        before = settings_without_code(code.settings)
        return CodeOutcome(
            before.settings, replace(before.spawner, is_ours=None, problem=problem.sentence_end), (problem,)
        )


def _outcome(answer: Any) -> CodeOutcome:
    merged: dict[str, Any] = {}
    for settings in answer["settings"].values():
        merged |= settings
    spawner = answer["spawner"]
    return CodeOutcome(
        merged,
        SpawnerClass(spawner["name"], spawner["is_ours"], spawner["set_by"], spawner["problem"]),
        tuple(_problem(each) for each in answer["problems"]),
        answer["service"],
    )


def _run_process(directory: str, seconds: float) -> bool:
    """Run the process; whether it ended in time. What it began in the background is ended, too."""
    process = subprocess.Popen(  # noqa: S603 (this Python)
        [sys.executable, "-P", "-m", "dra_spawner.commands.hub_files.code_process", directory],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answer(path: Path) -> Any:
    """The answer; None if there is none, or what code has put in its place."""
    try:
        if path.stat().st_size > _MAX_ANSWER_BYTES:
            return None
        return json.loads(path.read_text(), object_hook=_decoded)
    except (OSError, ValueError, RecursionError):
        return None


class _CodeObject:
    """A value that exists only in the process of the code."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class _CodeFunction(_CodeObject):
    """A function that exists only in the process of the code."""

    def __call__(self, *_: object, **__: object) -> None:
        raise TypeError(f"{self} can be called in a hub only")


def _decoded(value: dict[str, Any]) -> Any:
    if OBJECT not in value:
        return value
    found = value[OBJECT]
    if isinstance(found, list):
        return {key if isinstance(key, str | int | float | bool | None) else repr(key): each for key, each in found}
    return (_CodeFunction if found["is_callable"] else _CodeObject)(found["text"])


def _problem(found: Mapping[str, Any]) -> CodeProblem:
    kind, message = found["type"], found["message"]
    is_certain = kind in ("SyntaxError", "IndentationError", "TabError")
    return CodeProblem(found["piece"], found["line"], f"ends with {kind}: {message}" if kind else message, is_certain)
