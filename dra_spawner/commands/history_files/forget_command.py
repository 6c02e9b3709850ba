"""``dra-spawner history forget``: delete the records of a user."""

from __future__ import annotations

from typing import TextIO

from dra_spawner.commands.history_files.opening import CommandError, DatabaseOptions, opened


def run_forget(user: str, options: DatabaseOptions, output: TextIO, messages: TextIO) -> int:
    """Delete launches of a user, and decisions about the user's servers.

    Returns
    -------
    int
        0 if all records of the user are deleted, 1 if the database fails, 2 if it cannot be used.
    """
    try:
        with opened(options) as database:
            launches, decisions = database.forget(user)
    except CommandError as error:
        messages.write(f"dra-spawner history forget: {error}\n")
        return error.code
    output.write(f"{launches:,} launches and {decisions:,} decisions deleted\n")
    return 0
