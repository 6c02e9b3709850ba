"""The trial of a snapshot in which a rehearsal places servers, of one shape after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.dra.budget import SearchBudget
from dra_spawner.placeholders.planner.cluster.busyness import DAEMONS
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.scale_ahead.rehearsal.nodes.node_supply import NodeSupply
from dra_spawner.simulator.failed_fits import FailedFits
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.resources import CPU, MEMORY
from dra_spawner.simulator.snapshot import Undecided
from dra_spawner.simulator.usage.utilization import autoscaler_utilization

#: Limit of other pending servers that are placed first.
_MAX_PENDING: Final = 500
#: Cost of one attempt to place a server, without the search for devices, in steps of the search's budget.
ATTEMPT_STEPS: Final = 10
#: Use of a node from which on cluster-autoscaler needs it, by default.
_NEEDED: Final = 0.5


class PlacingTrial:
    """See the module.

    Attributes
    ----------
    added
        Nodes that were added, with the position of the users for whom they come.
    taken
        Number of new nodes, by name of the supply.
    rests
        Free servers on new nodes that are only described, by name of the supply, with the position of the users for
        whom they come.
    placed
        Number of servers, by shape.
    used_from
        Times from which the place of each server of a shape is used, in the order in which they are placed.
    leaving
        Present nodes that are not needed for so long that the autoscaler removes them.
    packs_devices
        Whether the service chooses devices so that large ones stay free.
    """

    def __init__(self, view: View, namespace: str, budget: SearchBudget, *, packs_devices: bool = False) -> None:
        self.view = view
        self.snapshot = view.snapshot
        self.namespace = namespace
        self.budget = budget
        self.packs_devices = packs_devices
        self.present = sorted(view.snapshot.nodes)
        self.added: dict[str, int] = {}
        self.taken: Counter[str] = Counter()
        self.rests: dict[str, list[tuple[int, int]]] = {}
        self.placed: Counter[str] = Counter()
        self.used_from: Mapping[str, Sequence[datetime]] = {}
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

    def end_placeholders(self, shape: str, target: int) -> None:
        """Let placeholders of a shape above a target end, on the emptiest nodes first."""
        usable = self.view.usable(shape)
        pods = {each.node: len(self.snapshot.nodes[each.node].pods) for each in usable}
        for each in sorted(usable, key=lambda one: (pods[one.node], one.node, one.pod.name))[
            : max(len(usable) - target, 0)
        ]:
            self._end(each.pod)

    def let_leave(
        self, supplies: Iterable[NodeSupply], used_from: Mapping[str, Sequence[datetime]], shapes: Mapping[str, Shape]
    ) -> None:
        """Let an autoscaler remove present nodes of these kinds while they are empty, or need not be in use.

        Parameters
        ----------
        used_from
            By shape, see the class.
        shapes
            Shapes whose placeholders may be created again elsewhere.
        """
        unneeded = {name: each.unneeded for each in supplies if each.unneeded is not None for name in each.nodes}
        last = max((times[-1] for times in used_from.values() if times), default=self.view.now)
        if unneeded and last - self.view.now > min(unneeded.values()):
            self.used_from, self._unneeded = used_from, unneeded
            self._gather_placeholders(shapes)

    def _gather_placeholders(self, shapes: Mapping[str, Shape]) -> None:
        """Move placeholders to other nodes where an autoscaler would evict them to remove their node."""
        pods = {
            name: [pod for pod in self.snapshot.nodes[name].pods if pod.controller not in DAEMONS]
            for name in self.present
        }
        stuck: set[str] = set()
        for name in sorted((name for name in self._unneeded if pods[name]), key=lambda each: (len(pods[each]), each)):
            free = [self.view.placeholders.get(ObjectKey.of(pod)) for pod in pods[name]]
            kinds = {self.view.shape_of(each.pod) if each is not None and each.is_free else "" for each in free}
            if kinds <= set(shapes) - stuck and self._use_of(name) < _NEEDED:
                with self.snapshot.trial():
                    lacking = [pod for pod in pods[name] if not self._move(pod, shapes[self.view.shape_of(pod)])]
                stuck.update(map(self.view.shape_of, lacking))
                for pod in pods[name] if not lacking else ():
                    self._move(pod, shapes[self.view.shape_of(pod)])

    def _use_of(self, name: str) -> float:
        """Use of a node as cluster-autoscaler computes it; 1 if it does not know it."""
        state, slices = self.snapshot.nodes[name], self.view.index.slices_of_node.get(name, ())
        if slices:
            keys = [ObjectKey(pod.namespace, each.claim) for pod in state.pods for each in pod.claims if each.claim]
            claims = [self.snapshot.claims[key].claim for key in keys if key in self.snapshot.claims]
            used = autoscaler_utilization(slices, claims).highest
            return float(used) if used is not None else 1.0
        return max(
            state.requested.get(resource, 0) / max(state.node.allocatable.get(resource, 0), 1)
            for resource in (CPU, MEMORY)
        )

    def _move(self, pod: Pod, shape: Shape) -> bool:
        """Place a placeholder on another node that is in use; returns whether it fits on one."""
        here = pod.node_name
        self.budget.spend(ATTEMPT_STEPS)
        self._end(pod)
        placeholder, claims = simulated_placeholder(shape, pod.namespace, f"moved-{pod.name}")
        for claim in claims:
            self.snapshot.put(claim)
        found = self.snapshot.first_fitting(
            placeholder, lambda names: [each for each in names if each != here and not self.is_empty(each)]
        )
        return bool(found) and self.snapshot.schedule(placeholder, found).fits

    def _end(self, pod: Pod) -> None:
        self.snapshot.remove_pod(ObjectKey.of(pod))
        for name in (each.claim for each in pod.claims if each.claim):
            self.snapshot.remove_claim(ObjectKey(pod.namespace, name))

    def leaves(self, name: str, shape: str) -> bool:
        """Whether a node is removed before the next server of a shape, which would be the first, is placed there.

        It is empty since now.
        """
        unneeded, times = self._unneeded.get(name), self.used_from.get(shape)
        if unneeded is None or not times or not self.is_empty(name):
            return False
        is_late = times[min(self.placed[shape], len(times) - 1)] - self.view.now > unneeded
        self.leaving.update((name,) if is_late else ())
        return name in self.leaving

    def is_empty(self, name: str) -> bool:
        """Whether an autoscaler counts a node as empty."""
        return all(pod.controller in DAEMONS for pod in self.snapshot.nodes[name].pods)

    def take_rests(self, supplies: Iterable[NodeSupply], wanted: int) -> Counter[int]:
        """Place servers on described nodes that come for others; returns their number by the position of the others."""
        taken: Counter[int] = Counter()
        for supply in supplies:
            rests = self.rests.get(supply.name, []) if supply.slots else []
            for number, (position, free) in enumerate(rests):
                found = min(free, wanted - taken.total())
                rests[number] = (position, free - found)
                taken[position] += found
        return taken

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
