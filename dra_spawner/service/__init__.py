"""The service that `dra-spawner service` runs, beside the hub or managed by it."""

from __future__ import annotations

from collections.abc import Sequence

from dra_spawner.service.start_answer import StartAnswer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service; returns the exit code."""
    start_answer = StartAnswer.from_environment()
    # This import takes seconds; the hub is answered meanwhile.
    from dra_spawner.service.application import run_service

    return run_service(arguments, start_answer)
