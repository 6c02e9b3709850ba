"""The command line of ``dra-spawner try``."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dra_spawner import names
from dra_spawner.common.command_options import options_of

if TYPE_CHECKING:
    from dra_spawner.commands.trying.try_command import TryOptions

_TOKEN_VARIABLE = "JUPYTERHUB_API_TOKEN"  # noqa: S105 - the name of a variable


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``try``."""
    command = commands.add_parser(
        "try",
        help="start a throw-away server for each choice, look for its device inside, and remove it",
        description="Does it really work on this cluster? For each choice: start a server by the hub's API, look\n"
        "inside it for the devices and how much of them it has (a cell in a kernel, `dra-spawner whoami`, and\n"
        "`nvidia-smi` where it is), print the seconds of each phase, and remove the server: also after a failure\n"
        "and after Ctrl-C.",
        epilog="examples:\n"
        f"  export {_TOKEN_VARIABLE}=...          a token of the hub's page Token\n"
        "  dra-spawner try --hub-url https://hub.example.org               every choice\n"
        "  dra-spawner try --hub-url https://hub.example.org gpu-slice     one profile, with its defaults\n"
        "  dra-spawner try --hub-url https://hub.example.org gpu-slice/memory=5Gi --format json | jq .tried\n"
        "  dra-spawner try --hub-url http://proxy-public --user try-devices   with the token of a service\n"
        "\n"
        "choices:\n"
        "  PROFILE as the page Placeholders names it: the profile's slug, or slug/option=choice. Without PROFILE the\n"
        "  service of dra-spawner is asked for all of them, at services/NAME/api/profiles below the hub.\n"
        "\n"
        "server:\n"
        "  A named server of the token's user, with a name that is not used yet; other servers of the user stay.\n"
        "  A hub without named servers (JupyterHub.allow_named_servers) needs --user with a new name: the user is\n"
        "  created, and deleted at the end.\n"
        "\n"
        "token:\n"
        f"  From ${_TOKEN_VARIABLE}, or a file. Scopes: servers and access:servers of the user, and\n"
        "  custom:dra-spawner:read to list choices; for a new user also admin:users. An administrator's token has\n"
        "  them all.\n"
        "\n"
        "exit code:\n"
        "  0 every choice works, 1 at least one does not or could not be looked into, 2 the hub cannot be used so,\n"
        "  130 after Ctrl-C, when the server is removed",
    )
    command.add_argument("profiles", nargs="*", metavar="PROFILE", help="choices to try (default: all)")
    command.add_argument(
        "--hub-url",
        default="",
        metavar="URL",
        help="the hub as browsers reach it, with its base URL (default: $JUPYTERHUB_PUBLIC_URL)",
    )
    command.add_argument("--user", default="", metavar="NAME", help="whose server it is (default: the token's user)")
    command.add_argument("--token-file", type=Path, metavar="FILE", help=f"the token (default: ${_TOKEN_VARIABLE})")
    command.add_argument(
        "--service-name", default=names.HUB_SERVICE, metavar="NAME", help="name of the service at the hub (%(default)s)"
    )
    command.add_argument(
        "--timeout", type=_seconds, default=600.0, metavar="SECONDS", help="limit for each choice (%(default)g)"
    )
    command.add_argument("--format", choices=("text", "json"), default="text", help="output format (%(default)s)")
    command.set_defaults(run=_try)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds; allowed: 1 to 86400")
    return seconds


def _try(options: argparse.Namespace) -> int:
    from dra_spawner.commands.trying.try_command import run_try

    try:
        asked = _options(options, os.environ)
    except ValueError as error:
        sys.stderr.write(f"dra-spawner try: {error}\n")
        return 2
    return run_try(asked, sys.stdout, sys.stderr)


def _options(options: argparse.Namespace, environment: Mapping[str, str]) -> TryOptions:
    """The options.

    Raises
    ------
    ValueError
        If one is missing or wrong; the message is a sentence.
    """
    from dra_spawner.commands.trying.try_command import TryOptions, is_url

    hub_url = options.hub_url or environment.get("JUPYTERHUB_PUBLIC_URL", "")
    if not is_url(hub_url):
        found = f"{hub_url!r} is no address" if hub_url else "an address is missing"
        raise ValueError(f"--hub-url: {found}; allowed: http:// or https://, a host and the hub's base URL")
    token = environment.get(_TOKEN_VARIABLE, "").strip()
    if options.token_file is not None:
        try:
            token = options.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--token-file: {options.token_file} cannot be read: {error}") from None
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ValueError(f"a token of the hub is missing: set ${_TOKEN_VARIABLE}, or name a file with --token-file")
    return options_of(
        TryOptions,
        options,
        hub_url=hub_url,
        token=token,
        profiles=tuple(dict.fromkeys(options.profiles)),
        service=options.service_name,
        timeout_seconds=options.timeout,
    )
