"""The command ``dra-spawner``. Each module of `dra_spawner.commands` adds its subcommands."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from dra_spawner import __version__, names
from dra_spawner.common.close_names import did_you_mean
from dra_spawner.common.project_links import project_links

_Commands: TypeAlias = "argparse._SubParsersAction[Any]"

#: Modules of `dra_spawner.commands` with their commands, in the order of the help.
_COMMANDS: Final = {
    "service": ("service",),
    "demo": ("demo",),
    "whoami": ("whoami",),
    "fit": ("fit", "utilization"),
    "check": ("check", "render", "schema"),
    "doctor": ("doctor",),
    "try_choices": ("try",),
    "operate": ("status", "classes", "idle", "drain"),
    "history": ("history",),
    "budgets": ("budgets",),
    "replay": ("replay",),
    "rehearse": ("rehearse",),
    "uninstall": ("uninstall",),
}

EXIT_INPUT: Final = 2
EXIT_DEFECT: Final = 70
"""EX_SOFTWARE of sysexits.h, which no command returns by itself."""

_DEBUG_VARIABLE: Final = "DRA_SPAWNER_DEBUG"
_OUTPUT_ERRORS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        0 done, 1 failed with a sentence on stderr, 2 wrong usage or input, 70 a defect of this program, and 128 plus
        the signal's number where a signal or a closed pipe ended it.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    name, options = " ".join([names.PROJECT, *arguments[:1]]), argparse.Namespace()
    _open_closed_streams()
    try:
        if arguments[:1] == ["service"]:
            # The service's settings are traitlets, which parse the command line themselves.
            _refuse_unknown_service_options(arguments[1:])
            from dra_spawner.service import main as run_service

            code = run_service(arguments[1:])
        else:
            for stream in (sys.stdout, sys.stderr):
                # Names of files and users may not be valid Unicode.
                if isinstance(stream, TextIOWrapper):
                    stream.reconfigure(errors="backslashreplace")
            options = command_parser(arguments[0] if arguments else "").parse_args(arguments)
            code = int(options.run(options))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        _discard_output()
        return 128 + signal.SIGPIPE
    except MemoryError:
        sys.stderr.write(f"{name}: there is not enough memory for this input\n")
        return EXIT_INPUT
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OUTPUT_ERRORS:
            _discard_output()
            sys.stderr.write(f"{name}: the output cannot be written: {error.strerror}\n")
            return 1
        # The service's output is a log, which has tracebacks.
        with_traceback = getattr(options, "debug", False) or arguments[:1] == ["service"]
        _report_defect(name, error, with_traceback=with_traceback)
        return EXIT_DEFECT
    return code


def _open_closed_streams() -> None:
    """Let standard streams that are closed (``>&-``) be empty: Python has none then."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 (for good)


def _discard_output() -> None:
    """Prevent Python's flush at exit, which would print an error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_defect(name: str, error: Exception, *, with_traceback: bool) -> None:
    if with_traceback or os.environ.get(_DEBUG_VARIABLE):
        traceback.print_exception(error)
    text = " ".join(str(error).split())[:200]
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    where = f" at {page}" if (page := _issues_page()) else ""
    sys.stderr.write(
        f"{name}: this is a defect of dra-spawner {__version__} ({what}); please report it{where}, with the input"
        f" and the traceback, which is shown with {_DEBUG_VARIABLE}=1 in the environment\n"
    )


def _issues_page() -> str:
    """The address for issues in the package's metadata; empty if there is none."""
    pages = project_links()
    return next((page for label, page in pages.items() if label.lower() in ("issues", "bug tracker", "tracker")), "")


class _Command(argparse.ArgumentParser):
    """The parser of one command; it prints description and examples unchanged."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self.set_defaults(run=self._print_help)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments here; argparse would show the usage of ``dra-spawner`` alone."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.refuse(unknown)
        return options, unknown

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """End with usage and code 2, as these arguments are unknown."""
        options = [each for each in self._option_string_actions if each.startswith("--")]
        hint = did_you_mean(unknown[0].partition("=")[0], options)
        self.error(f"unknown: {' '.join(unknown)}.{hint} {self.prog} --help shows what is allowed")

    def unknown_options(self, arguments: Sequence[str]) -> list[str]:
        """Long options among arguments that this parser does not know."""
        return [
            each
            for each in arguments
            if each.startswith("--") and each != "--" and each.partition("=")[0] not in self._option_string_actions
        ]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse's, and the allowed value that is most like a wrong one."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            hint = did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}.{hint}" if hint else error.message) from None

    def _print_help(self, options: argparse.Namespace) -> int:
        """What a command without a command of its own does."""
        self.print_help()
        return 0


def _refuse_unknown_service_options(arguments: Sequence[str]) -> None:
    """End with the usage of ``service``: traitlets, which parses the command line, would print one of its own.

    A setting has a dot in its name, such as ``--DRASpawnerService.url=…``.
    """
    commands = _Command(prog=names.PROJECT).add_subparsers(parser_class=_Command)
    import_module("dra_spawner.commands.service").add_commands(commands)
    service = commands.choices["service"]
    unknown = [each for each in service.unknown_options(arguments) if "." not in each.partition("=")[0]]
    if unknown:
        service.refuse(unknown)


def _modules(command: str) -> list[Any]:
    """The module of a command alone, if it is one; users' servers lack what the others need."""
    names_of_modules = [module for module, commands in _COMMANDS.items() if command in commands] or _COMMANDS
    return [import_module(f"dra_spawner.commands.{each}") for each in names_of_modules]


def command_parser(command: str = "") -> argparse.ArgumentParser:
    """The parser of all commands. With a command, only the parts that this command needs are loaded."""
    parser = _Command(
        prog=names.PROJECT,
        description="JupyterHub on Kubernetes with shares of devices, by Dynamic Resource Allocation.",
        epilog="exit code: 0 done, 1 what --help of the command says, 2 wrong usage or input that cannot be read,\n"
        f"{EXIT_DEFECT} a defect of dra-spawner ({_DEBUG_VARIABLE}=1 in the environment shows the traceback)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands: _Commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Command)
    for module in _modules(command):
        module.add_commands(commands)
    _add_completion(commands, parser)
    return parser


def _add_completion(commands: _Commands, parser: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "completion",
        help="print a script by which a shell completes commands and options",
        description="Print a script by which a shell completes commands, options and their values.",
        epilog="examples:\n"
        "  source <(dra-spawner completion bash)                                    in ~/.bashrc\n"
        '  eval "$(dra-spawner completion zsh)"                                    in ~/.zshrc, after compinit\n'
        "  dra-spawner completion fish > ~/.config/fish/completions/dra-spawner.fish",
    )
    command.add_argument("shell", choices=("bash", "fish", "zsh"), help="the shell")

    def run(options: argparse.Namespace) -> int:
        from dra_spawner.commands.completion import completion_script

        sys.stdout.write(completion_script(options.shell, parser))
        return 0

    command.set_defaults(run=run)
