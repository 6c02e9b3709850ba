"""A model of the cluster for what-if questions: fork it, change it, compute what fits, and revert.

Examples
--------
>>> snapshot = Snapshot.from_objects(objects)
>>> with snapshot.trial():
...     add_node(snapshot, template, "new")
...     node_name = snapshot.place(pod)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from dra_spawner.simulator.failed_fits import FailedFits
from dra_spawner.simulator.fitting import Fitting, NodeAnswer, PodFit
from dra_spawner.simulator.forkable_cluster import ForkableCluster
from dra_spawner.simulator.model.claims import ObjectKey, allocated_devices, consumer_of
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import Filter, FilterVerdict, FitCode
from dra_spawner.simulator.snapshot_errors import SnapshotError, SnapshotProblem, Undecided

__all__ = ["Snapshot", "SnapshotError", "SnapshotProblem", "Undecided"]

_LINEAR_SCAN_NODES: Final = 50
"""Up to this number of nodes, scan linearly instead of searching for devices first."""


class Snapshot(ForkableCluster):
    """A cluster in which pods can be placed; see its base class for the rest."""

    def fits(self, pod: Pod, *, explain: bool = True) -> PodFit:
        """Where a pod fits, and why not elsewhere. The pod need not be in the snapshot.

        Parameters
        ----------
        explain
            Whether to say in numbers what devices lack; costs about as much as a second search for devices.
        """
        return self.fitting(pod).answers(explain)

    def general_problem(self, pod: Pod) -> str:
        """Reason that rules out all nodes at once, such as a missing claim; empty if there is none.

        Raises
        ------
        Undecided
            If it is not known which nodes the pod may run on.
        """
        verdict = self.fitting(pod).general
        if verdict is not None and verdict.code is FitCode.UNDECIDABLE:
            raise Undecided(verdict)
        return "; ".join(verdict.reasons) if verdict is not None else ""

    def fits_on(self, pod: Pod, node_name: str, *, explain: bool = True) -> NodeAnswer:
        """Whether a pod fits on one node, with the allocations of its claims."""
        return self.fitting(pod).answer(node_name, explain)

    def first_fitting(self, pod: Pod, in_order: Callable[[Iterable[str]], Iterable[str]]) -> str:
        """The first node where a pod fits, in the caller's order; empty if there is none.

        Parameters
        ----------
        in_order
            Sorts names of nodes; it gets only nodes that have the devices.
        """
        fitting = self.fitting(pod)
        for name in in_order(fitting.candidates()):
            answer = fitting.answer(name)
            if answer.fits:
                return name
            if answer.verdict.ends_attempt:
                break
        return ""

    def schedule(self, pod: Pod, node_name: str) -> NodeAnswer:
        """Place a pod on a node if it fits there: create and allocate its claims, add it as a consumer, and bind it.

        Returns
        -------
        NodeAnswer
            Whether the pod fits. If not, nothing has changed.
        """
        return self._schedule(self.fitting(pod), node_name)

    def place(self, pod: Pod, choose: Callable[[Sequence[str]], str] | None = None) -> str | PodFit:
        """Place a pod on any node where it fits; as with kube-scheduler, its nominated node is tried first.

        Parameters
        ----------
        choose
            Picks one of the names of all nodes that fit. Without it the first node that fits is taken, without a look
            at the others.

        Returns
        -------
        str or PodFit
            Name of the node; or why the pod fits nowhere.
        """
        fitting = self.fitting(pod)
        names: Iterable[str] = fitting.candidates()
        if choose is not None:
            fit = fitting.answers()
            if fit.error is not None or not fit.fitting:
                return fit
            names = (choose(fit.fitting),)
        if pod.nominated_node_name and self._schedule(fitting, pod.nominated_node_name).fits:
            return pod.nominated_node_name
        for name in names:
            answer = self._schedule(fitting, name)
            if answer.fits:
                return name
            if answer.verdict.ends_attempt:
                break
        return fitting.answers()

    def place_quickly(self, pod: Pod, failed_fits: FailedFits | None = None) -> str:
        """Place a pod on the first fitting node, without repeating failures of earlier attempts.

        Parameters
        ----------
        failed_fits
            Earlier ones of this pod. A failure holds while the node's state is the same, unless devices are its reason.

        Returns
        -------
        str
            Name of the node; empty if there is none.

        Raises
        ------
        Undecided
            If it is not known whether the devices of a node fit.
        """
        fitting = self.fitting(pod)
        if pod.nominated_node_name and self._schedule(fitting, pod.nominated_node_name).fits:
            return pod.nominated_node_name

        def schedule(name: str) -> NodeAnswer | None:
            answer = self._schedule(fitting, name)
            return None if fitting.holds(name, answer.verdict) else answer

        failed_fits = failed_fits if failed_fits is not None else FailedFits()
        nodes = self._state.nodes
        left = failed_fits.untried(nodes, _LINEAR_SCAN_NODES)
        for name in left if left is not None else fitting.candidates():
            state = nodes.get(name)
            answer = failed_fits.attempt(name, state, schedule) if state is not None else None
            if answer is None:
                continue
            if answer.fits:
                return name
            if answer.verdict.has_unknown_devices:
                raise Undecided(answer.verdict)
            if answer.verdict.ends_attempt:
                break
        return ""

    def fitting(self, pod: Pod) -> Fitting:
        """Compares a pod with the nodes, until the next change."""
        return Fitting(pod, self._state)

    def _schedule(self, fitting: Fitting, node_name: str) -> NodeAnswer:
        known = self._state.pods.get(ObjectKey.of(fitting.pod))
        if known is not None and known.node_name:
            reason = f"pod {known} is bound to node {known.node_name} already"
            return NodeAnswer(FilterVerdict(FitCode.UNRESOLVABLE, Filter.NODE_NAME, (reason,)))
        answer = fitting.answer(node_name)
        if answer.fits:
            with self._journal.all_or_nothing():
                self._bind(fitting, node_name, answer)
        return answer

    def _bind(self, fitting: Fitting, node_name: str, answer: NodeAnswer) -> None:
        """Create and allocate the pod's claims, add the pod as a consumer, and bind it to the node."""
        pod, state = fitting.pod, self._state
        for tracked, allocation in answer.allocations:
            devices = allocated_devices(allocation, tracked.claim)
            state.put_claim(tracked.allocated(devices, allocation.node_selector))
        keys = [tracked.key for tracked, _ in answer.allocations] + [each.tracked.key for each in fitting.requirements]
        for key in dict.fromkeys(keys):
            tracked = state.claims[key]
            if not tracked.is_reserved_for(pod):
                state.put_claim(tracked.with_consumers((*tracked.consumers, consumer_of(pod))))
        names = {each.entry: each.claim.name for each in fitting.requirements}
        claims = tuple(
            replace(reference, claim=names[reference.name]) if reference.name in names else reference
            for reference in pod.claims
        )
        state.put_pod(replace(pod, node_name=node_name, nominated_node_name="", claims=claims))
