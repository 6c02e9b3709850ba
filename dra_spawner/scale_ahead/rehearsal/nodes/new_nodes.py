"""New nodes of one kind, with the servers that fit on them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dra_spawner.dra.allocation.reasons import RefusalKind
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply


@dataclass(frozen=True, slots=True)
class NewNodes:
    """New nodes of one kind.

    Attributes
    ----------
    slots
        Number of servers on each node, in the order in which the nodes are filled.
    template_node
        Node of which they are copies; empty if the described number of slots was used instead.
    last_seen
        Time at which this node was last present; None if it is present now.
    refusal
        Why no server fits on them; empty if servers fit.
    refusal_kind
        Why the nearest device was refused, if devices are the reason.
    servers_on_nodes
        The fewest and the most servers on one node, if nodes of the kind differ; None if they do not.
    """

    supply: NodeSupply
    slots: tuple[int, ...] = ()
    template_node: str = ""
    last_seen: datetime | None = None
    refusal: str = ""
    refusal_kind: RefusalKind | None = None
    servers_on_nodes: tuple[int, int] | None = None

    @classmethod
    def as_described(cls, supply: NodeSupply, wanted: int) -> NewNodes:
        """New nodes of a kind without present or past nodes, with the described number of slots."""
        if supply.slots is None:
            return cls(supply, refusal="no node of this kind is present, so its capacity is unknown")
        if not supply.slots:
            return cls(supply, refusal="no node of this kind is present, and it is described for other profiles")
        count = -(-wanted // supply.slots)
        if supply.max_new is not None:
            count = min(count, supply.max_new)
        slots = [supply.slots] * count
        if sum(slots) > wanted:
            slots[-1] -= sum(slots) - wanted
        return cls(supply, tuple(slots))

    @property
    def servers(self) -> int:
        return sum(self.slots)

    @property
    def is_at_limit(self) -> bool:
        """Whether servers fit on these nodes, and no more of them may be added."""
        most = self.supply.max_new
        return not self.refusal and most is not None and len(self.slots) >= most
