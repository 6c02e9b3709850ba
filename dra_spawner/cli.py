"""The command ``dra-spawner``. Each package adds its subcommands."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, metadata
from io import TextIOWrapper
from typing import Any, Final

from dra_spawner import __version__, names
from dra_spawner.user_server import whoami_arguments

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
    if arguments[:1] == ["service"]:
        # The service's settings are traitlets, which parse the command line themselves.
        from dra_spawner.service import main as run_service

        return run_service(arguments[1:])
    for stream in (sys.stdout, sys.stderr):
        # Names of files and users may not be valid Unicode.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = _parser(arguments[0] if arguments else "").parse_args(arguments)
    name = f"dra-spawner {arguments[0]}"
    try:
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
        _report_defect(name, error, with_traceback=getattr(options, "debug", False))
        return EXIT_DEFECT
    return code


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
    try:
        links = metadata(names.PROJECT).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    pages = dict(link.split(", ", 1) for link in links if ", " in link)
    return next((page for label, page in pages.items() if label.lower() in ("issues", "bug tracker", "tracker")), "")


class _Command(argparse.ArgumentParser):
    """The parser of one command; it prints description and examples unchanged."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def _packages(command: str) -> Sequence[Any]:
    """The packages of the commands; of `whoami` alone where that is asked for, as users' servers have no other."""
    if command == "whoami":
        return (whoami_arguments,)
    from dra_spawner.check import check_arguments
    from dra_spawner.devcluster.demo import demo_arguments
    from dra_spawner.fit import fit_arguments
    from dra_spawner.history_commands import history_arguments
    from dra_spawner.rehearsal_commands import rehearse_arguments
    from dra_spawner.replay import simulate_arguments
    from dra_spawner.uninstall import uninstall_arguments

    return (
        demo_arguments,
        whoami_arguments,
        fit_arguments,
        check_arguments,
        history_arguments,
        simulate_arguments,
        rehearse_arguments,
        uninstall_arguments,
    )


def _parser(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=names.PROJECT,
        description="JupyterHub on Kubernetes with shares of devices, by Dynamic Resource Allocation.",
        epilog="exit code: 0 done, 1 what --help of the command says, 2 wrong usage or input that cannot be read,\n"
        f"{EXIT_DEFECT} a defect of dra-spawner ({_DEBUG_VARIABLE}=1 in the environment shows the traceback)",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Command)
    commands.add_parser(
        "service", help="manage warm placeholders for a hub, and show who uses which device: page, API, metrics"
    )
    for package in _packages(command):
        package.add_commands(commands)
    return parser
