"""What was tried, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from dra_spawner.commands.trying.findings import PHASES, ChoiceState, Tried
from dra_spawner.profiles.syntax.problems import on_one_line

__all__ = ["report_json", "tried_lines"]

_WIDTH: Final = max(map(len, ChoiceState))


def tried_lines(tried: Tried) -> Iterator[str]:
    """Lines about one choice."""
    yield f"{tried.state:{_WIDTH}}  {on_one_line(tried.choice)}: {on_one_line(tried.sentence)}"
    blank = " " * _WIDTH
    for each in tried.gpus:
        yield f"{blank}  nvidia-smi: {each}"
    phases = ", ".join(f"{name} {tried.phases[name]:.1f} s" for name in PHASES if name in tried.phases)
    if phases:
        yield f"{blank}  {phases}"


def report_json(hub_url: str, tried: Sequence[Tried], left: Sequence[str]) -> str:
    """The report as JSON.

    Parameters
    ----------
    left
        What was not removed, as sentences.
    """
    counts = {state.value: sum(each.state is state for each in tried) for state in ChoiceState}
    items = [asdict(each) for each in tried]
    return json.dumps({"hub": hub_url, **counts, "tried": items, "not_removed": list(left)}, indent=1)
