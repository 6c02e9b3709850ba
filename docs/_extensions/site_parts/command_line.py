"""The command line, from the parsers that read it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dra_spawner.cli import command_parser

from .markdown import table

__all__ = ["command_line"]


def command_line() -> str:
    """Each command with its arguments, options, examples and exit codes."""
    return "\n".join(_section(parser) for parser in _commands(command_parser()))


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser, then the parsers of its commands; a command comes before its own commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _commands(command)


def _section(parser: argparse.ArgumentParser) -> str:
    parts = [f"## {parser.prog}\n"]
    if parser.description:
        parts.append(f"{_text(parser, parser.description)}\n")
    parts.append(table(("argument", "meaning"), (_row(parser, each) for each in parser._actions if _is_shown(each))))
    if parser.epilog:
        parts.append(f"```text\n{_text(parser, parser.epilog)}\n```\n")
    return "\n".join(parts)


def _text(parser: argparse.ArgumentParser, text: str) -> str:
    """A text as argparse shows it."""
    return text.replace("%(prog)s", parser.prog)


def _is_shown(action: argparse.Action) -> bool:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)
    return not isinstance(action, hidden) and action.help is not argparse.SUPPRESS


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    formatter = parser.formatter_class(parser.prog)
    value = (
        "" if action.nargs == 0 else formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    )
    names = ", ".join(action.option_strings)
    return f"`{f'{names} {value}'.strip()}`", formatter._expand_help(action) if action.help else ""
