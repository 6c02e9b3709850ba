"""The answer as a table: number of nodes, verdict, and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from dra_spawner.commands.fitting.fit_answers import Answer
from dra_spawner.dra.allocation.results import DeviceResult
from dra_spawner.dra.allocation.verdicts import NodeVerdict, VerdictKind

__all__ = ["table"]

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
    counts = [_nodes(len(names)) for _, names in ordered]
    count_width = max(map(len, counts), default=0)
    text_width = min(max((len(text) for (_, text), _ in ordered), default=0), width)
    for count, ((_, text), names) in zip(counts, ordered, strict=True):
        lines.append(f"  {count:>{count_width}}: {text:{text_width}}  {_names(names, all_names)}")
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
    total = _nodes(len(answer.nodes))
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


def _nodes(count: int) -> str:
    return f"{count:,} node{'' if count == 1 else 's'}"


def _names(names: Sequence[str], all_names: bool) -> str:
    # One more name is no longer than the note that there is one more.
    if all_names or len(names) <= _NAMES_SHOWN + 1:
        return _listed(names)
    return f"{_listed(names[:_NAMES_SHOWN])} and {len(names) - _NAMES_SHOWN:,} more"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
