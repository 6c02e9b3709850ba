"""Placeholders as parts of nodes: what fits the free slots of a node that is there anyway needs no other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class NewNodeSlots:
    """Servers that surely come with a new node.

    Attributes
    ----------
    slots
        Servers of the group on it; None if no node that takes one is known.
    starts_per_minute
        Nodes that start in a minute at most, as an administrator describes the kind; None if unlimited.
    lead
        Time from the order of a node until users are let in, as described; None if it is not.
    """

    slots: int | None = None
    starts_per_minute: float | None = None
    lead: timedelta | None = None


@dataclass(frozen=True, slots=True)
class WholeNodes:
    """Nodes for servers and placeholders together."""

    nodes: int
    free_rest: int
    """Further placeholders that fit these nodes."""


def whole_nodes(placeholders: int, present: int, slots_per_node: int) -> WholeNodes:
    """The nodes for servers that run and placeholders, if they are packed.

    Raises
    ------
    ValueError
        If a node has no slots.
    """
    if slots_per_node < 1:
        raise ValueError(f"a node has {slots_per_node} slots; it must have 1 or more")
    wanted = present + placeholders
    nodes = -(-wanted // slots_per_node)
    return WholeNodes(nodes, nodes * slots_per_node - wanted)


def fewest_for_nodes(placeholders: int, free_slots: int, slots_per_node: int) -> int:
    """The fewest placeholders that need as many nodes as a number of them.

    A node on which servers run stays, so what fits its free slots needs no node, and the rest of the last node is free
    anyway. One placeholder is left at least, so that there is a warm one.

    Parameters
    ----------
    free_slots
        Slots that servers leave free on their nodes.
    """
    if placeholders <= free_slots:
        return min(placeholders, 1)
    return placeholders - (placeholders - free_slots - 1) % slots_per_node
