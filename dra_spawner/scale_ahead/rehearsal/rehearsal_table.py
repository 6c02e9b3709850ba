"""A rehearsal as text, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from dra_spawner.common.json_types import JsonObject
from dra_spawner.scale_ahead.rehearsal.rehearsal_problems import RehearsalProblem
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import NodeOrder, Rehearsal
from dra_spawner.scale_ahead.rehearsal.timetable import Waits

_ORDER_HEADINGS = ("nodes", "new", "servers", "present", "max", "lead", "ordered", "usable", "like")
_WAIT_HEADINGS = ("waits", "users", "longest", "mean", "without end")


def rehearsal_text(rehearsal: Rehearsal) -> str:
    """The verdict, and after it the figures."""
    parts = [f"{rehearsal.verdict}\n", _users_text(rehearsal)]
    if rehearsal.orders:
        rows = [_order_cells(each, rehearsal.now) for each in rehearsal.orders]
        parts.append(_columns((_ORDER_HEADINGS, *rows)))
    if rehearsal.wanted:
        rows = [
            ("if no node is ordered before", *_wait_cells(rehearsal.without_orders)),
            ("if all nodes are ordered in time, or now", *_wait_cells(rehearsal.with_orders)),
        ]
        parts.append(_columns((_WAIT_HEADINGS, *rows)))
    if rehearsal.problems:
        parts.append("".join(f"{line}\n" for line in _problem_lines(rehearsal.problems)))
    return "\n".join(parts)


def rehearsal_json(rehearsal: Rehearsal) -> JsonObject:
    """All figures; durations in seconds."""
    expected = rehearsal.expected
    return {
        "verdict": rehearsal.verdict,
        "is_possible": rehearsal.is_possible,
        "first_order_at": rehearsal.first_order_at.isoformat() if rehearsal.first_order_at is not None else None,
        "profile": expected.profile,
        "users": expected.users,
        "counts": expected.counts,
        "begins": expected.begins.isoformat(),
        "ramp_seconds": expected.ramp.total_seconds(),
        "now": rehearsal.now.isoformat(),
        "running": rehearsal.running,
        "wanted": rehearsal.wanted,
        "on_placeholders": rehearsal.warm,
        "on_present_nodes": rehearsal.free,
        "on_present_nodes_without_image": rehearsal.free_without_image,
        "lacking": rehearsal.lacking,
        "orders": [_order_json(each, rehearsal.now) for each in rehearsal.orders],
        "waits_without_orders": _waits_json(rehearsal.without_orders),
        "waits_with_orders": _waits_json(rehearsal.with_orders),
        "problems": [
            {"code": each.code, "message": each.message, "users": each.users, "blocks": each.blocks}
            for each in rehearsal.problems
        ],
    }


def _users_text(rehearsal: Rehearsal) -> str:
    expected = rehearsal.expected
    ramp = f" within {_duration(expected.ramp)}" if expected.ramp else ""
    running = f" ({rehearsal.running} run already)" if rehearsal.running else ""
    heading = (
        f"{expected.users} of {expected.profile}, {expected.counts}{running}, "
        f"{expected.begins:%A %Y-%m-%d %H:%M %Z}{ramp}"
    )
    rows = [
        ("on placeholders with a node", rehearsal.warm),
        ("on present nodes", rehearsal.free),
        ("on present nodes that must pull the image", rehearsal.free_without_image),
        ("on nodes that come for others", rehearsal.free_coming),
        ("on new nodes", sum(each.servers for each in rehearsal.orders)),
        ("on no node", rehearsal.lacking),
    ]
    shown = [(name, str(number)) for name, number in rows if number]
    return f"{heading}\n{_columns(shown, indent='  ')}"


def _order_cells(order: NodeOrder, now: datetime) -> tuple[str, ...]:
    supply = order.supply
    image = f" + {_duration(supply.image_time)}" if supply.image_time else ""
    usable = max(order.usable_at(now)).astimezone(order.order_at.tzinfo)
    return (
        supply.name,
        str(order.nodes),
        f"{order.servers} ({max(order.slots)} each)",
        str(len(supply.nodes)),
        str(supply.max_nodes) if supply.max_nodes is not None else "-",
        f"{_duration(supply.lead)}{image}",
        f"{order.order_at:%m-%d %H:%M}{' (done)' if order.is_on_order else ''}",
        f"{usable:%m-%d %H:%M}",
        order.template_node or "described",
    )


def _order_json(order: NodeOrder, now: datetime) -> JsonObject:
    supply = order.supply
    usable = max(order.usable_at(now)).astimezone(order.order_at.tzinfo)
    return {
        "kind": supply.name,
        "nodes": order.nodes,
        "servers": order.servers,
        "servers_on_a_node": max(order.slots),
        "present_nodes": len(supply.nodes),
        "max_nodes": supply.max_nodes,
        "lead_seconds": supply.lead.total_seconds(),
        "image_seconds": supply.image_time.total_seconds(),
        "order_at": order.order_at.isoformat(),
        "is_on_order": order.is_on_order,
        "usable_at": usable.isoformat(),
        "template_node": order.template_node or None,
    }


def _wait_cells(waits: Waits) -> tuple[str, ...]:
    ends = waits.users > waits.without_end
    return (
        str(waits.users),
        _minutes(waits.longest) if ends else "-",
        _minutes(waits.mean) if ends else "-",
        str(waits.without_end) if waits.without_end else "-",
    )


def _waits_json(waits: Waits) -> JsonObject:
    return {
        "users": waits.users,
        "longest_seconds": round(waits.longest.total_seconds(), 1),
        "mean_seconds": round(waits.mean.total_seconds(), 1),
        "without_end": waits.without_end,
    }


def _problem_lines(problems: Sequence[RehearsalProblem]) -> Iterator[str]:
    for each in problems:
        users = f" ({each.users} users)" if each.users and each.blocks else ""
        yield f"{'problem' if each.blocks else 'note'}: {each.message}{users}"


def _duration(duration: timedelta) -> str:
    seconds = round(duration.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def _minutes(wait: timedelta) -> str:
    """Whole minutes, rounded up as in the verdict."""
    return f"{-(-wait // timedelta(minutes=1))} min"


def _columns(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Rows as lines: the first column is left-aligned, the others are right-aligned."""
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        others = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append(indent + "  ".join((row[0].ljust(widths[0]), *others)).rstrip())
    return "\n".join(lines) + "\n"
