"""Arguments of ``dra-spawner whoami``."""

from __future__ import annotations

from typing import Any

from dra_spawner.user_server.whoami_command import run_whoami

_EPILOG = """\
examples:
  dra-spawner whoami                 in a terminal of the server, or in a notebook as !dra-spawner whoami
  dra-spawner whoami --format json   the same for programs

It asks the hub with the server's own token, and reads what the devices' drivers have written into the server.

exit code: 0 the devices are shown, 1 they are not known: a sentence on stderr says why"""


def add_commands(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    parser = commands.add_parser(
        "whoami",
        help="in a user's server: which devices it has, how much of them, and whether they work",
        description="Show the devices of the server in which it runs.",
        epilog=_EPILOG,
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people (default), or JSON")
    parser.set_defaults(run=run_whoami)
