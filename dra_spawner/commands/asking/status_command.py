"""``dra-spawner status``: what is wrong, who waits, and what can start now."""

from __future__ import annotations

import json
from typing import Any, Final, TextIO

from dra_spawner.commands.asking.service_client import ServiceClient, printable
from dra_spawner.commands.asking.text_table import table
from dra_spawner.common.counted_text import span
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.availability_text import LABELS

#: Age of the data from which they count as old, as on the pages.
_OLD_SECONDS: Final = 15.0
#: Words of the form by state.
_LABELS: Final = {str(state): label for state, label in LABELS.items()}


def print_status(client: ServiceClient, out: TextIO, *, as_json: bool) -> int:
    """Print the state of the service; 1 if something is wrong or a server waits, else 0.

    Raises
    ------
    NotAnswered
    """
    status = client.get("api/status")
    # A service without placeholders, and one that has not found the cluster, have no such lists.
    choices, pending = client.items("api/profiles"), client.items("api/pending-servers")
    if as_json:
        out.write(f"{json.dumps({'status': status, 'profiles': choices, 'pending_servers': pending}, indent=2)}\n")
    else:
        out.write(_text(status, choices, pending))
    return int(bool(_troubles(status) or pending))


def _troubles(status: dict[str, Any]) -> list[str]:
    age = status.get("staleness_seconds")
    found = [*status.get("reasons", ()), *status.get("problems", ())]
    old = f"The data about the cluster are {span(age)} old" if age is not None and age > _OLD_SECONDS else ""
    # The service says it itself later, with its limit.
    return [f"{old}.", *found] if old and not any("about the cluster are" in each for each in found) else found


def _text(status: dict[str, Any], choices: list[dict[str, Any]], pending: list[dict[str, Any]]) -> str:
    age = status.get("staleness_seconds")
    known = "no data yet" if age is None else f"data {span(age)} old"
    leader = printable(status.get("leader") or "none is known")
    parts = [f"dra-spawner {printable(status.get('version', ''))}, leader {leader}, {known}\n"]
    troubles = _troubles(status)
    parts.append("\nProblems\n" if troubles else "\nNo problems.\n")
    parts += [f"- {printable(each)}\n" for each in troubles]
    if pending:
        rows = [
            (
                each["name"],
                ", ".join(each["profiles"][:1]),
                span(each["wait_seconds"]),
                each["sentence"] or each["cause"],
            )
            for each in pending
        ]
        parts += ["\n", table(("PENDING SERVER", "CHOICE", "FOR", "CAUSE"), rows)]
    rows_of_choices = [
        (
            each["name"],
            _LABELS.get(state := _state(each), state),
            _warm(each),
            each["in_use"],
            each["pending"],
        )
        for each in choices
        if "," not in each["name"]
    ]
    if rows_of_choices:
        parts += ["\n", table(("CHOICE", "A SERVER NOW", "WARM", "IN USE", "PENDING"), rows_of_choices)]
    closed = AvailabilityState.CLOSED
    causes = dict.fromkeys(each["availability"]["reason"] for each in choices if _state(each) == closed)
    parts += ["\n", *(f"- {LABELS[closed]}: {printable(each)}\n" for each in causes)] if causes else []
    return "".join(parts)


def _state(choice: dict[str, Any]) -> str:
    """The state of a choice; a service of another version may have one that is not known here."""
    return str((choice["availability"] or {}).get("state", AvailabilityState.UNKNOWN))


def _warm(choice: dict[str, Any]) -> str:
    warm, target = choice["placeholders"].get("warm", 0), choice["target"]
    return str(warm) if target is None else f"{warm} of {target}"
