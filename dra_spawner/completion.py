"""Scripts by which bash, zsh and fish complete ``dra-spawner``, made from its parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dra_spawner import names

__all__ = ["SHELLS", "CompletedCommand", "command_tree", "completion_script"]

SHELLS: Final = ("bash", "fish", "zsh")
_PROGRAM: Final = names.PROJECT
_FUNCTION: Final = "_dra_spawner"
_FILES: Final = ("FILE", "PROFILES", "TRACE", "CLUSTER", "SOURCE")
"""Metavars of arguments that are files."""


@dataclass(frozen=True, slots=True)
class CompletedArgument:
    """An option or a positional argument."""

    names: tuple[str, ...]
    """Spellings of an option; empty for a positional argument."""
    help: str
    choices: tuple[str, ...]
    is_file: bool
    takes_value: bool


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """A command, and the commands below it."""

    path: tuple[str, ...]
    """Words after the program's name; empty for the program itself."""
    help: str
    arguments: tuple[CompletedArgument, ...]
    commands: tuple[CompletedCommand, ...]

    def all(self) -> Iterator[CompletedCommand]:
        """The command itself, and all below it."""
        yield self
        for command in self.commands:
            yield from command.all()

    @property
    def options(self) -> list[CompletedArgument]:
        return [each for each in self.arguments if each.names]

    @property
    def words(self) -> list[str]:
        """Commands, or the choices of positional arguments."""
        choices = [choice for each in self.arguments if not each.names for choice in each.choices]
        return [command.path[-1] for command in self.commands] or choices


def command_tree(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), help_text: str = "") -> CompletedCommand:
    """The commands, options and choices of a parser."""
    arguments: list[CompletedArgument] = []
    commands: list[CompletedCommand] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {each.dest: each.help or "" for each in action._choices_actions}
            for name, below in action.choices.items():
                commands.append(command_tree(below, (*path, name), texts.get(name, "")))
        elif action.help != argparse.SUPPRESS:
            arguments.append(_argument(action))
    return CompletedCommand(path, help_text, tuple(arguments), tuple(commands))


def _argument(action: argparse.Action) -> CompletedArgument:
    help_text = (action.help or "") % {**vars(action), "prog": _PROGRAM} if "%" in (action.help or "") else action.help
    return CompletedArgument(
        names=tuple(action.option_strings),
        help=" ".join((help_text or "").split()),
        choices=tuple(map(str, action.choices or ())),
        is_file=action.metavar in _FILES,
        takes_value=action.nargs != 0,
    )


def completion_script(shell: str, tree: CompletedCommand) -> str:
    """The script of a shell, which is evaluated or put into the shell's directory of completions."""
    return {"bash": _bash, "fish": _fish, "zsh": _zsh}[shell](tree)


def _bash(tree: CompletedCommand) -> str:
    paths = "|".join(f'"{" ".join(each.path)}"' for each in tree.all() if each.path)
    values, words = [], []
    for command in tree.all():
        path = " ".join(command.path)
        for option in command.options:
            if option.takes_value:
                patterns = "|".join(f'"{path}:{name}"' for name in option.names)
                offer = f'-W "{" ".join(option.choices)}"' if option.choices else "-f" if option.is_file else '-W ""'
                values.append(f'    {patterns}) COMPREPLY=($(compgen {offer} -- "$current")); return ;;')
        names = " ".join(name for option in command.options for name in option.names)
        words.append(f'    "{path}") options="{names}" words="{" ".join(command.words)}" ;;')
    return f"""# bash completion of {_PROGRAM}: source <({_PROGRAM} completion bash)
{_FUNCTION}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} path="" next options words i
  # Bash splits --option=value into three words.
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $before == "=" ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="${{path:+$path }}${{COMP_WORDS[i]}}"
    case "$next" in
    {paths}) path=$next ;;
    esac
  done
  COMPREPLY=()
  case "$path:$before" in
{chr(10).join(values)}
  esac
  case "$path" in
{chr(10).join(words)}
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F {_FUNCTION} {_PROGRAM}
"""


def _fish(tree: CompletedCommand) -> str:
    lines = [
        f"# fish completion of {_PROGRAM}: {_PROGRAM} completion fish | source",
        f"function {_FUNCTION}_at --description 'Whether these are the words before the options'",
        "  set -l words (commandline -opc)[2..]",
        "  set -l commands (string match --invert -- '-*' $words)",
        f"  set -l known {' '.join(sorted({word for each in tree.all() for word in each.path}))}",
        "  set -l path",
        "  for word in $commands",
        "    contains -- $word $known; and set -a path $word; or break",
        "  end",
        '  test "$path" = "$argv"',
        "end",
        f"complete -c {_PROGRAM} -f",
    ]
    for command in tree.all():
        at = f'complete -c {_PROGRAM} -n "{_FUNCTION}_at {" ".join(command.path)}"'
        for below in command.commands:
            lines.append(f"{at} -a {below.path[-1]} -d {_quoted(below.help)}")
        for argument in command.arguments:
            names = "".join(f" {'-l' if name.startswith('--') else '-s'} {name.lstrip('-')}" for name in argument.names)
            value = ""
            if argument.choices:
                value = f" -x -a {_quoted(' '.join(argument.choices))}"
            elif argument.takes_value:
                value = " -r -F" if argument.is_file else " -x"
            if argument.names or argument.choices or argument.is_file:
                lines.append(f"{at}{names}{value} -d {_quoted(argument.help)}")
    return "\n".join(lines) + "\n"


def _zsh(tree: CompletedCommand) -> str:
    functions = "\n".join(_zsh_function(each) for each in tree.all())
    return f"""#compdef {_PROGRAM}
# zsh completion of {_PROGRAM}: source <({_PROGRAM} completion zsh), after compinit
{functions}
if [[ $funcstack[1] == _{_PROGRAM} ]]; then
  {_FUNCTION} "$@"
else
  compdef {_FUNCTION} {_PROGRAM}
fi
"""


def _zsh_function(command: CompletedCommand) -> str:
    specs = [spec for argument in command.arguments for spec in _zsh_specs(argument)]
    function = "_".join((_FUNCTION, *command.path)).replace("-", "_")
    if not command.commands:
        return f"{function}() {{\n  _arguments -s {_zsh_lines(specs)}\n}}"
    described = " ".join(_quoted(f"{each.path[-1]}:{each.help}") for each in command.commands)
    cases = " ".join(f"{each.path[-1]}) {function}_{each.path[-1].replace('-', '_')} ;;" for each in command.commands)
    return f"""{function}() {{
  local context state line
  local -a commands=({described})
  _arguments -C {_zsh_lines([*specs, "'1: :->command'", "'*:: :->arguments'"])}
  case $state in
    command) _describe command commands ;;
    arguments) case $words[1] in {cases} esac ;;
  esac
}}"""


def _zsh_lines(specs: Sequence[str]) -> str:
    return " \\\n    ".join(specs)


def _zsh_specs(argument: CompletedArgument) -> Iterator[str]:
    action = f"({' '.join(argument.choices)})" if argument.choices else "_files" if argument.is_file else " "
    text = re.sub(r"([\[\]:\\])", r"\\\1", argument.help)
    if not argument.names:
        yield _quoted(f"*:{text}:{action}")
    for name in argument.names:
        value = f": :{action}" if argument.takes_value else ""
        equals = "=" if argument.takes_value and name.startswith("--") else ""
        yield _quoted(f"*{name}{equals}[{text}]{value}")


def _quoted(text: str) -> str:
    """A word in single quotes, which every shell takes as it is."""
    return "'" + text.replace("'", "`") + "'"
