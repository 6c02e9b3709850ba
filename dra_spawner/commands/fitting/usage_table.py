"""Utilization as a table: nodes with the same figures together, strong differences marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from dra_spawner.commands.fitting.fit_command import names_text
from dra_spawner.commands.fitting.node_usage import ClusterUsage, NodeUsage

_MARK = "!"
_TEXT_WIDTH = 60
_HEADINGS = ("nodes", "autoscaler", "weighted", "by driver (autoscaler | weighted)")


def usage_table(found: ClusterUsage, *, all_names: bool = False) -> str:
    """The lines of all nodes.

    Parameters
    ----------
    all_names
        Whether to name every node of a row, not only the first ones.
    """
    if not found.nodes:
        return "\n".join(["No node was given, so there is nothing to show.", *found.notes]) + "\n"
    rows: dict[tuple[str, ...], list[str]] = {}
    for node in found.nodes:
        rows.setdefault(_row(node), []).append(node.node)
    cells = [(mark, f"{len(names):,}", *figures) for (mark, *figures), names in rows.items()]
    widths = [max(map(len, column)) for column in zip(("", *_HEADINGS), *cells, strict=True)]
    widths[-1] = max(len(_HEADINGS[-1]), min(widths[-1], _TEXT_WIDTH))
    lines = [_headline(found.nodes), _line(("", *_HEADINGS), widths, "names")]
    lines += [_line(row, widths, names_text(names, all_names)) for row, names in zip(cells, rows.values(), strict=True)]
    return "\n".join([*lines, *found.notes]) + "\n"


def to_json(found: ClusterUsage) -> dict[str, object]:
    """The line of ``--format json``: figures from 0 to 1, null where there is none."""
    return {
        "name": found.name,
        "nodes": {node.node: _node_json(node) for node in found.nodes},
        **({"notes": list(found.notes)} if found.notes else {}),
    }


def _node_json(node: NodeUsage) -> dict[str, object]:
    value: dict[str, object] = {
        "autoscaler": _number(node.autoscaler),
        "weighted": _number(node.weighted),
        "differsStrongly": node.differs_strongly,
        "pools": [
            {
                "driver": pool.id.driver,
                "pool": pool.id.pool,
                "autoscaler": _number(pool.autoscaler),
                "weighted": _number(pool.weighted),
                **({"problem": pool.problem} if pool.problem else {}),
            }
            for pool in node.pools
        ],
    }
    if node.autoscaler_problem:
        value["autoscalerProblem"] = node.autoscaler_problem
    if node.weighted_problems:
        value["weightedProblems"] = list(node.weighted_problems)
    return value


def _number(figure: Fraction | None) -> float | None:
    return None if figure is None else float(figure)


def _headline(nodes: Sequence[NodeUsage]) -> str:
    text = f"{len(nodes):,} node{'' if len(nodes) == 1 else 's'}, busiest first"
    different = sum(node.differs_strongly for node in nodes)
    if different:
        text += f"; the figures of {different:,} differ strongly ({_MARK})"
    unknown = sum(node.is_unknown for node in nodes)
    return f"{text}; {unknown:,} with an unknown figure" if unknown else text


def _row(node: NodeUsage) -> tuple[str, ...]:
    """The text of a node's row; nodes with the same text share a row."""
    return (
        _MARK if node.differs_strongly else "",
        _shown(node.autoscaler, is_unknown=bool(node.autoscaler_problem)),
        _shown(node.weighted, is_unknown=bool(node.weighted_problems)),
        _reasons(node) or "; ".join(_drivers(node)) or "no devices of its own",
    )


def _shown(figure: Fraction | None, *, is_unknown: bool = False) -> str:
    if figure is None:
        return "unknown" if is_unknown else "-"
    percent = math.floor(100 * figure + Fraction(1, 2))
    # A node in use never shows as idle, and a node with free devices never as full.
    if percent == 0 and figure > 0:
        return "<1 %"
    return ">99 %" if percent == 100 and figure < 1 else f"{percent} %"


def _reasons(node: NodeUsage) -> str:
    """The reasons for unknown figures; pools are named by driver as in `_drivers`."""
    autoscaler = node.autoscaler_problem
    weighted = list(dict.fromkeys(node.weighted_problems))
    for pool in node.pools:
        prefix = f"pool {pool.id}: "
        if pool.problem and autoscaler.startswith(prefix):
            autoscaler = ""
        weighted = [text.replace(prefix, f"{pool.id.driver}: ", 1) for text in weighted]
    if autoscaler in weighted:
        autoscaler = ""
    reasons = [f"autoscaler: {autoscaler}"] if autoscaler else []
    if weighted:
        is_about_both = bool(node.autoscaler_problem) and not autoscaler
        reasons.append(f"{'' if is_about_both else 'weighted: '}{'; '.join(weighted)}")
    return "; ".join(reasons)


def _drivers(node: NodeUsage) -> Iterator[str]:
    """Figures of each pool, named by its driver, as most pools have the name of their node."""
    for pool in node.pools:
        yield f"{pool.id.driver} {_shown(pool.autoscaler)} | {_shown(pool.weighted)}"


def _line(cells: Iterable[str], widths: Sequence[int], names: str) -> str:
    mark, count, autoscaler, weighted, text = cells
    return (
        f"{mark:{max(widths[0], 1)}} {count:>{widths[1]}}  {autoscaler:>{widths[2]}}  {weighted:>{widths[3]}}"
        f"  {text:{widths[4]}}  {names}"
    )
