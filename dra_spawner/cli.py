"""``dra-spawner``: the commands. Each room adds its own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from dra_spawner import __version__
from dra_spawner.check import arguments as check
from dra_spawner.devcluster.demo import arguments as demo
from dra_spawner.fit import arguments as fit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code (0 done, 1 failed with a sentence on stderr, 2 wrong usage)."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == ["service"]:
        # Its settings are traitlets, which read the command line themselves.
        from dra_spawner.service import main as run_service

        return run_service(arguments[1:])
    options = _parser().parse_args(arguments)
    return int(options.run(options))


class _Command(argparse.ArgumentParser):
    """The parser of one command, whose description and examples are printed as they are written."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dra-spawner",
        description="JupyterHub on Kubernetes with shares of devices, by Dynamic Resource Allocation.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Command)
    commands.add_parser("service", help="keep places ready beside a hub, say who uses which device: page, API, metrics")
    for room in (demo, fit, check):
        room.add_commands(commands)
    return parser
