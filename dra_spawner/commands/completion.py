"""The script by which a shell completes ``dra-spawner``, made from its parsers by shtab."""

from __future__ import annotations

import argparse
from typing import Final

import shtab

#: Metavars of arguments that are files.
_FILES: Final = frozenset({"FILE", "PROFILES", "TRACE", "CLUSTER", "SOURCE"})


def completion_script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the script for bash, fish or zsh."""
    _mark_files(parser)
    return shtab.complete(parser, shell)


def _mark_files(parser: argparse.ArgumentParser) -> None:
    """Let shtab complete the names of files: it reads an attribute of the argument, which argparse does not know."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_files(command)
        elif action.metavar in _FILES:
            setattr(action, "complete", shtab.FILE)  # noqa: B010 - for mypy
