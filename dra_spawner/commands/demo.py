"""The command line of ``dra-spawner demo``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from dra_spawner.common.command_options import options_of


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "demo",
        help="try everything on this machine: a cluster, JupyterHub, five profiles",
        description="Start a small Kubernetes with four example nodes, and JupyterHub with DRASpawner on it.\n"
        "It needs only Python. Servers run as processes of this machine: as separate users if root starts\n"
        "it on Linux, else as you, with access to your files and the hub's token. Ctrl-C stops everything.",
        epilog="examples:\n"
        "  dra-spawner demo                                  then open the address it prints\n"
        "  dra-spawner demo --port 0 --no-browser            any free port\n"
        "  dra-spawner demo --kubeconfig ~/.kube/config      servers on your own cluster; its pods must be able to\n"
        "                                                    reach this machine, and this machine its pods",
    )
    command.add_argument(
        "--port", type=_port, default=8000, help="port of JupyterHub; 0 for any free port (%(default)s)"
    )
    command.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="use this existing cluster instead of the embedded one"
    )
    command.add_argument("--namespace", default="default", help="namespace of servers (%(default)s)")
    command.add_argument("--image", default="", help="with --kubeconfig: image of the servers (KubeSpawner's default)")
    command.add_argument("--no-browser", action="store_true", help="do not open the address in a browser")
    command.add_argument("--debug", action="store_true", help="show JupyterHub's log instead of keeping it in a file")
    command.set_defaults(run=_demo)


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; a port is a number from 0 to 65535")
    return int(text)


def _demo(options: argparse.Namespace) -> int:
    try:
        return _run_demo(options)
    except KeyboardInterrupt:
        # Ctrl-C before run_demo handles signals, for example during its imports: nothing has been started yet.
        return 128 + signal.SIGINT


def _run_demo(options: argparse.Namespace) -> int:
    # Imported here, so that `dra-spawner --help` does not load a web server.
    from dra_spawner.devcluster.demo.demo import DemoError, DemoOptions, run_demo

    def say(text: str) -> None:
        # A closed terminal raises on output, and the demo must still stop everything.
        with contextlib.suppress(OSError):
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    demo = options_of(DemoOptions, options, open_browser=not options.no_browser)
    try:
        asyncio.run(run_demo(demo, say))
    except DemoError as error:
        sys.stderr.write(f"dra-spawner demo: {error}\n")
        return 1
    return 0
