"""The command lines of ``dra-spawner status``, ``classes``, ``idle`` and ``drain``, which ask a running service."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dra_spawner.commands.asking.service_client import ServiceClient

_WHERE: Final = """
address and token:
  export DRA_SPAWNER_URL=https://hub.example.org/      the hub, or the address of the service's pages
  export DRA_SPAWNER_TOKEN=...                         of the hub's page Token; or JUPYTERHUB_API_TOKEN, or --token-file
"""


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of ``dra-spawner``."""
    status = commands.add_parser(
        "status",
        help="ask the service what is wrong, who waits, and which choices start now",
        description="Print the problems of the service, the age of its data, servers that wait with their causes, and\n"
        "whether a server of each choice would start now.",
        epilog="examples:\n"
        "  dra-spawner status\n"
        "  dra-spawner status --format json | jq '.status.problems'\n"
        f"{_WHERE}\n"
        "exit code:\n"
        "  0 no problem, and no server waits; 1 there are some; 2 the service cannot be asked",
    )
    _add_common(status)
    status.set_defaults(run=_status)

    classes = commands.add_parser(
        "classes",
        help="list announced classes, and verdicts of the coming day other than Yes",
        description="Print the classes that people have announced at the service, and below them each verdict of the\n"
        "coming day that is not Yes.",
        epilog="examples:\n"
        "  dra-spawner classes\n"
        "  dra-spawner classes --format json | jq -r '.items[].users'\n"
        f"{_WHERE}\n"
        "exit code:\n"
        "  0 all verdicts are Yes; 1 another one; 2 the service cannot be asked",
    )
    _add_common(classes)
    classes.set_defaults(run=_classes)

    idle = commands.add_parser(
        "idle",
        help="list servers that hold devices but are idle, with device-hours",
        description="Print the servers with devices, what is known of their use, and the device-hours since they are\n"
        "idle. Names of users need the scope custom:dra-spawner:admin.",
        epilog="examples:\n"
        "  dra-spawner idle\n"
        "  dra-spawner idle --format json | jq '[.items[].idle_device_hours] | add'\n"
        f"{_WHERE}\n"
        "exit code:\n"
        "  0 no server is idle; 1 there are some; 2 the service cannot be asked",
    )
    _add_common(idle)
    idle.set_defaults(run=_idle)

    drain = commands.add_parser(
        "drain",
        help="list what is drained; drain a node or a device, or end it",
        description="Without NAME: print the nodes and devices that are drained. With NAME: no placeholder and no new\n"
        "server comes there; servers that run stay. It needs the scope custom:dra-spawner:operate.",
        epilog="examples:\n"
        "  dra-spawner drain\n"
        '  dra-spawner drain gpu-node-3 --reason "new driver" --until 2027-01-31T18:00:00+01:00\n'
        "  dra-spawner drain gpu.example.com/gpu-node-3/gpu-0\n"
        "  dra-spawner drain gpu-node-3 --end\n"
        f"{_WHERE}\n"
        "exit code:\n"
        "  0 done; 1 refused; 2 the service cannot be asked",
    )
    drain.add_argument("name", nargs="?", default="", metavar="NAME", help="a node, or driver/pool/device")
    drain.add_argument("--reason", default="", metavar="TEXT", help="why; users of a drained device read it")
    drain.add_argument("--until", default="", metavar="TIME", help="its end, with the zone; none without it")
    drain.add_argument("--end", action="store_true", help="end the drain now")
    _add_common(drain)
    drain.set_defaults(run=_drain)


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--url", "--hub-url", default="", metavar="URL", help="address of the hub or of the service's pages"
    )
    command.add_argument("--token-file", default="", metavar="FILE", help="file with a token of the hub")
    command.add_argument("--format", choices=("table", "json"), default="table", help="output format (%(default)s)")


def _status(options: argparse.Namespace) -> int:
    # Imported here, so that `dra-spawner --help` does not load it.
    from dra_spawner.commands.asking.status_command import print_status

    return _ask(options, lambda client: print_status(client, sys.stdout, as_json=options.format == "json"))


def _classes(options: argparse.Namespace) -> int:
    from dra_spawner.commands.asking.classes_command import print_classes

    return _ask(options, lambda client: print_classes(client, sys.stdout, as_json=options.format == "json"))


def _idle(options: argparse.Namespace) -> int:
    from dra_spawner.commands.asking.idle_command import print_idle

    return _ask(options, lambda client: print_idle(client, sys.stdout, as_json=options.format == "json"))


def _drain(options: argparse.Namespace) -> int:
    from dra_spawner.commands.asking.drain_command import begin_drain, end_drain, print_drains

    as_json = options.format == "json"
    if not options.name and (options.end or options.reason or options.until):
        sys.stderr.write("dra-spawner drain: --end, --reason and --until need the NAME of a node or device\n")
        return 2
    if options.end and (options.reason or options.until):
        sys.stderr.write("dra-spawner drain: --end ends a drain, so --reason and --until have no meaning\n")
        return 2

    def act(client: ServiceClient) -> int:
        if not options.name:
            return print_drains(client, sys.stdout, as_json=as_json)
        if options.end:
            return end_drain(client, options.name, sys.stdout, as_json=as_json)
        return begin_drain(client, options.name, options.reason, options.until, sys.stdout, as_json=as_json)

    return _ask(options, act)


def _ask(options: argparse.Namespace, act: Callable[[ServiceClient], int]) -> int:
    from dra_spawner.commands.asking.service_client import NotAnswered, Refused, client_of

    try:
        return act(client_of(options.url, options.token_file, os.environ))
    except NotAnswered as error:
        sys.stderr.write(f"dra-spawner: {error}\n")
        return 1 if isinstance(error, Refused) else 2
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if os.environ.get("DRA_SPAWNER_DEBUG"):
            raise
        sys.stderr.write(
            "dra-spawner: the answer has not the form that this version knows: it comes from another version of the\n"
            f"service, or from another program ({type(error).__name__}; DRA_SPAWNER_DEBUG=1 shows where)\n"
        )
        return 2
