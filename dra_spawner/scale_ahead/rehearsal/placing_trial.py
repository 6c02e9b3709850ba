"""The trial of a snapshot in which a rehearsal places servers, of one shape after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.dra.budget import SearchBudget
from dra_spawner.placeholders.planner.cluster.busyness import DAEMONS
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.simulator.failed_fits import FailedFits
from dra_spawner.simulator.snapshot import Undecided

__all__ = ["ATTEMPT_STEPS", "PlacingTrial"]

#: Limit of other pending servers that are placed first.
_MAX_PENDING: Final = 500
#: Cost of one attempt to place a server, without the search for devices, in steps of the search's budget.
ATTEMPT_STEPS: Final = 10


class PlacingTrial:
    """See the module.

    Attributes
    ----------
    added
        Names of the nodes that were added.
    taken
        Number of new nodes, by name of the supply.
    rests
        Free servers on new nodes that are only described, by name of the supply.
    leaving
        Present nodes that are empty for so long that the autoscaler removes them.
    """

    def __init__(self, view: View, namespace: str, budget: SearchBudget) -> None:
        self.view = view
        self.snapshot = view.snapshot
        self.namespace = namespace
        self.budget = budget
        self.present = sorted(view.snapshot.nodes)
        self.added: list[str] = []
        self.taken: Counter[str] = Counter()
        self.rests: Counter[str] = Counter()
        self.leaving: set[str] = set()
        self._unneeded: dict[str, timedelta] = {}
        for name in self.present:
            self._without_doubtful_devices(name)

    def _without_doubtful_devices(self, name: str) -> None:
        """Remove devices that the scheduler gives away and that no server surely gets."""
        doubts = self.view.doubts_of(name)
        for item in self.view.index.slices_of_node.get(name, ()) if doubts else ():
            devices = tuple(each for each in item.devices if not doubts.because(each.id))
            self.snapshot.put(replace(item, devices=devices))

    def may_leave(self, supplies: Iterable[NodeSupply]) -> None:
        """Let an autoscaler remove present nodes of these kinds while they are empty."""
        self._unneeded |= {name: each.unneeded for each in supplies if each.unneeded is not None for name in each.nodes}

    def leaves(self, name: str, moment: datetime) -> bool:
        """Whether a node is removed before the first server would be placed there, at a time. It is empty since now."""
        unneeded = self._unneeded.get(name)
        if unneeded is not None and moment - self.view.now > unneeded and self.is_empty(name):
            self.leaving.add(name)
        return name in self.leaving

    def is_empty(self, name: str) -> bool:
        """Whether an autoscaler counts a node as empty."""
        return all(pod.controller in DAEMONS for pod in self.snapshot.nodes[name].pods)

    def take_rests(self, supplies: Iterable[NodeSupply], wanted: int) -> int:
        """Place servers on described nodes that come for others; returns their number."""
        count = 0
        for supply in supplies:
            found = min(self.rests[supply.name] if supply.slots else 0, wanted - count)
            self.rests[supply.name] -= found
            count += found
        return count

    def place_pending(self, but: str) -> None:
        """Place pending servers first: they wait already.

        Parameters
        ----------
        but
            Shape whose servers are left out.
        """
        failed_fits: defaultdict[str, FailedFits] = defaultdict(FailedFits)
        for pod in self.view.pending_users[:_MAX_PENDING]:
            shape = self.view.shape_of(pod)
            if not (but and shape == but):
                self.budget.spend(ATTEMPT_STEPS)
                with suppress(Undecided):
                    self.snapshot.place_quickly(pod, failed_fits[shape] if shape else None)
