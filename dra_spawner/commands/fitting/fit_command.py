"""``dra-spawner fit``: read, answer, print."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO, Final, TextIO

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.questions import read_input
from dra_spawner.commands.cluster_files.reading import Progress, read_files, shown_names
from dra_spawner.commands.fitting.fit_answers import NOTHING_ASKED, Answer, answer_all
from dra_spawner.common.counted_text import counted, listed
from dra_spawner.dra.allocation.results import DeviceResult
from dra_spawner.dra.allocation.verdicts import NodeVerdict, VerdictKind
from dra_spawner.dra.budget import SearchBudget
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, Release, SchedulerRules, rules_of

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
    """Whether the claims come from a hub whose service packs devices."""
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


_NAMES_SHOWN = 3
_VERDICT_WIDTH = 60


def table(answer: Answer, *, all_names: bool = False, width: int = _VERDICT_WIDTH) -> str:
    """The lines of one answer.

    Parameters
    ----------
    all_names
        Whether to name every node of a row, not only the first ones.
    width
        Maximum column of node names; longer verdicts move them further.
    """
    rows: dict[tuple[VerdictKind, str], list[str]] = {}
    example: NodeVerdict | None = None
    warnings = dict.fromkeys(answer.warnings)
    for group in answer.groups():
        verdict = group.verdict
        rows.setdefault((verdict.kind, _sentence(verdict)), []).extend(group.nodes)
        warnings |= dict.fromkeys(verdict.warnings)
        if verdict.kind is VerdictKind.FITS and example is None:
            example = verdict
    lines = [_headline(answer, rows)]
    ordered = sorted(rows.items(), key=lambda item: (item[0][0] is not VerdictKind.FITS, -len(item[1])))
    counts = [counted(len(names), "node") for _, names in ordered]
    count_width = max(map(len, counts), default=0)
    text_width = min(max((len(text) for (_, text), _ in ordered), default=0), width)
    for count, ((_, text), names) in zip(counts, ordered, strict=True):
        lines.append(f"  {count:>{count_width}}: {text:{text_width}}  {names_text(names, all_names)}")
    if example is not None:
        lines += [f"for example on {example.node}:", *_devices(example)]
    lines += [f"warning: {warning}" for warning in warnings]
    return "\n".join(lines) + "\n"


def _headline(answer: Answer, rows: dict[tuple[VerdictKind, str], list[str]]) -> str:
    claims = ", ".join(map(str, answer.claims))
    if not answer.claims:
        return "No claim without allocation was given, so there is nothing to fit."
    if answer.asks_nothing:
        return f"{claims}: no request asks for a device, so there is nothing to fit."
    if not answer.nodes:
        return f"No node was given, so there is nowhere for {claims} to fit."
    fitting = sum(len(names) for (kind, _), names in rows.items() if kind is VerdictKind.FITS)
    stopped = sum(len(names) for (kind, _), names in rows.items() if kind is VerdictKind.STOPPED)
    total = counted(len(answer.nodes), "node")
    if stopped and not fitting:
        verb = "fits" if len(answer.claims) == 1 else "fit together"
        return f"It is not known whether {claims} {verb}: the search was stopped on {stopped:,} of {total}"
    where = f"fits on {fitting:,} of {total}" if fitting else "fits nowhere"
    where += f"; on {stopped:,} the search was stopped" if stopped else ""
    verb = where if len(answer.claims) == 1 else where.replace("fits", "fit together", 1)
    return f"{claims} {verb}"


def _sentence(verdict: NodeVerdict) -> str:
    match verdict.kind:
        case VerdictKind.FITS:
            return f"fits: {_given(verdict)}"
        case VerdictKind.UNAVAILABLE:
            return verdict.message
        case VerdictKind.ERROR:
            return f"error: {verdict.message}"
        case VerdictKind.STOPPED:
            return f"not known: {verdict.message}"


def _given(verdict: NodeVerdict) -> str:
    """The devices that the claims get, without names."""
    given = Counter(_kind(result) for _, allocation in verdict.allocations for result in allocation.results)
    return ", ".join(f"{count} x {text}" if count > 1 else text for text, count in given.items()) or "no devices"


def _kind(result: DeviceResult) -> str:
    access = " (admin access)" if result.admin_access else ""
    if not result.is_share:
        return f"a device of {result.id.driver}{access}"
    consumed = ", ".join(f"{name} {amount}" for name, amount in (result.consumed_capacity or {}).items())
    return f"a share of {result.id.driver}{f' ({consumed})' if consumed else ''}{access}"


def _devices(verdict: NodeVerdict) -> Iterator[str]:
    for claim, allocation in verdict.allocations:
        for result in allocation.results:
            yield f"  {claim}, request {result.request}: {result.id.device} of pool {result.id.pool}, {_kind(result)}"


def names_text(names: Sequence[str], all_names: bool) -> str:
    """Names of nodes, in a table."""
    # One more name is no longer than the note that there is one more.
    return listed(names, len(names) if all_names or len(names) <= _NAMES_SHOWN + 1 else _NAMES_SHOWN)
