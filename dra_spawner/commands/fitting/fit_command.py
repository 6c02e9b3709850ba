"""``dra-spawner fit``: read, answer, print."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO, Final, TextIO

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.questions import read_input
from dra_spawner.commands.cluster_files.reading import Progress, read_files, shown_names
from dra_spawner.commands.fitting.fit_answers import NOTHING_ASKED, answer_all
from dra_spawner.commands.fitting.fit_table import table
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, Release, SchedulerRules, rules_of

__all__ = ["FitOptions", "run_fit"]

MAX_STEPS: Final = 1_000_000
"""Limit of the search on one node, about as much as kube-scheduler does before it gives up after 10 s."""


@dataclass(frozen=True, slots=True)
class FitOptions:
    """Options of ``dra-spawner fit``."""

    files: tuple[str, ...] = ()
    """Paths, or ``-`` for standard input; none means standard input."""
    as_json: bool = False
    all_names: bool = False
    list_attributes: bool = False
    """Decide as a scheduler with the feature gate DRAListTypeAttributes."""
    without_quirks: bool = False
    """Decide as the API promises instead of as kube-scheduler does."""
    release: Release | None = None
    """Release of Kubernetes; None for that of the newest kubelet among the given nodes."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates of kube-scheduler."""
    packs_devices: bool = False
    """Whether the claims are those of a hub whose service packs devices."""
    timeout: float = 60.0
    """Seconds for the search of one question; 0 for no limit."""


def run_fit(options: FitOptions, standard_input: BinaryIO, output: TextIO, messages: TextIO) -> int:
    """Answer all questions.

    Parameters
    ----------
    messages
        Stream for errors, and for the progress, which is shown on a terminal only.

    Returns
    -------
    int
        0 when the claims of every question fit on some node; 1 when those of a question fit nowhere; 2 when the input
        cannot be read, nothing asks for a device, or an object that the API server would refuse leaves an answer open;
        3 when 1 does not apply and the search of a question was stopped before its answer was known.
    """
    progress = Progress(messages)
    new_budget = partial(_budget, options.timeout)
    fits: list[bool | None] = []
    not_judged = nothing_asked = ""
    try:
        fit_input = read_input(read_files(options.files, standard_input, progress), shown_names(options.files))
        rules = _rules(options, fit_input.kubelet_release)
        answers = answer_all(fit_input, rules, MAX_STEPS, new_budget, packs_devices=options.packs_devices)
        for number, answer in enumerate(answers):
            progress.clear()
            if options.as_json:
                output.write(json.dumps(answer.to_json(), ensure_ascii=False) + "\n")
            else:
                heading = f"{answer.name}\n" if len(fit_input.questions) > 1 else ""
                output.write(("\n" if number else "") + heading + table(answer, all_names=options.all_names))
            fits.append(answer.fits_somewhere)
            nothing_asked = nothing_asked or (answer.name if answer.asks_nothing else "")
            not_judged = not_judged or answer.not_judged
            progress.show(f"question {number + 2:,} of {len(fit_input.questions):,}")
    except InputError as error:
        progress.clear()
        messages.write(f"dra-spawner fit: {error}\n")
        return 2
    finally:
        progress.clear()
    if not_judged:
        messages.write(f"dra-spawner fit: {InputError('the API server would refuse this', 0, '', not_judged)}\n")
        return 2
    if nothing_asked:
        messages.write(f"dra-spawner fit: {nothing_asked}: {NOTHING_ASKED}\n")
        return 2
    if False in fits:
        return 1
    return 3 if None in fits else 0


def _rules(options: FitOptions, found: Release | None) -> SchedulerRules:
    """The rules to decide by.

    Parameters
    ----------
    found
        Release of the newest kubelet, as no API server is older.
    """
    release = options.release or found
    rules = rules_of(release or DEFAULT_RULES.release, options.gates)
    if options.list_attributes:
        rules = replace(rules, features=replace(rules.features, list_type_attributes=True))
    return rules.without_quirks() if options.without_quirks else rules


def _budget(seconds: float) -> SearchBudget:
    """The budget of one question, from now on."""
    if not seconds:
        return SearchBudget()
    end = time.monotonic() + seconds
    return SearchBudget(is_over=lambda: time.monotonic() > end)
