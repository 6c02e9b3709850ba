"""What a hub imports: the spawner without the rooms of the service, of checks and of commands, and what few hubs need."""

from __future__ import annotations

from tests.hub_imports import SPAWNER, imported_with, line_count

MOST_MODULES = 150
MOST_LINES = 20_000
#: Whole rooms that begin with a start that needs them, or with another process.
LATER = (
    "commands",
    "devcluster",
    "doctor",
    "dra.allocation.allocator",
    "dra.cel.syntax.parser",
    "placeholders.controller",
    "profiles.drivers",
    "profiles.intel_gas",
    "profiles.lint",
    "scale_ahead",
    "service",
    "simulator",
)


def test_a_hub_imports_what_it_needs() -> None:
    found = imported_with(SPAWNER)
    assert (len(found) <= MOST_MODULES, line_count(found) <= MOST_LINES) == (True, True), (
        f"{len(found)} modules, {line_count(found)} lines; `python -X importtime -c 'import {SPAWNER}'` says who imports them"
    )
    later = tuple(f"dra_spawner.{each}" for each in LATER)
    assert [
        each for each in sorted(found) if each in later or each.startswith(tuple(f"{name}." for name in later))
    ] == []
