"""After any changes, a reverted snapshot is as before, a committed one as if done at once, and a refusal changes
nothing. Its verdicts on devices are those of an allocator that starts from the objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dra_spawner.dra.allocation.allocator import AllocatedState, AllocationError, Allocator, DoesNotFit
from dra_spawner.dra.model.pools import SliceIndex
from dra_spawner.simulator.fitting import Fitting
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.node_templates import TemplateError, add_node, template_of
from dra_spawner.simulator.scheduler.node_fit import Filter, FitCode
from dra_spawner.simulator.scheduler.scheduling import ClusterView, SchedulingAttempt, SchedulingQuestion
from dra_spawner.simulator.snapshot import Snapshot, SnapshotError
from tests.examples import example_count
from tests.simulator import strategies as some
from tests.simulator.changes import reserve, take_down_node
from tests.simulator.dump import dump

Operation = Callable[[Snapshot], object]
EXAMPLES = 100


class Snapshots(RuleBasedStateMachine):
    """One snapshot that is forked, and one to which the same is done without forks."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot, self.plain = Snapshot(), Snapshot()
        # Of each open fork: the state before it, and the changes since.
        self.forks: list[tuple[dict[str, Any], list[Operation]]] = []

    @initialize(items=some.clusters())
    def start(self, items: list[Any]) -> None:
        for item in items:
            self.do(partial(Snapshot.put, item=item))

    def do(self, operation: Operation) -> None:
        before = dump(self.snapshot)
        try:
            outcome = operation(self.snapshot)
        except SnapshotError:
            assert dump(self.snapshot) == before, "a failed operation changed something"
            return
        if getattr(outcome, "fits", True) is False:
            assert dump(self.snapshot) == before, "a pod that does not fit changed something"
        if self.forks:
            self.forks[-1][1].append(operation)
        else:
            operation(self.plain)

    @rule(item=some.objects)
    def put(self, item: Any) -> None:
        self.do(lambda snapshot: snapshot.put(item))

    @rule(
        kind=st.sampled_from([Kind.POD, Kind.RESOURCE_CLAIM, Kind.NODE, Kind.RESOURCE_SLICE, Kind.DEVICE_TAINT_RULE]),
        data=st.data(),
    )
    def remove(self, kind: Kind, data: st.DataObject) -> None:
        known: dict[Kind, list[str]] = {
            Kind.POD: [each.name for each in self.snapshot.pods],
            Kind.RESOURCE_CLAIM: [each.name for each in self.snapshot.claims],
            Kind.NODE: list(self.snapshot.nodes),
            Kind.RESOURCE_SLICE: list(self.snapshot.slices),
            Kind.DEVICE_TAINT_RULE: list(self.snapshot.state.devices.taint_rules),
        }
        name = data.draw(st.sampled_from(sorted({*known[kind], "unknown"})))
        namespace = some.NAMESPACE if kind in (Kind.POD, Kind.RESOURCE_CLAIM) else ""
        self.do(lambda snapshot: snapshot.remove(kind, type(some.key(name))(namespace, name)))

    @rule(name=some.names["node"])
    def take_down(self, name: str) -> None:
        self.do(lambda snapshot: take_down_node(snapshot, name))

    def unbound(self, pod: Pod) -> Pod:
        """The pod under a name that no bound pod has, while there is one."""
        bound = {key.name for key, other in self.snapshot.pods.items() if other.node_name}
        free = [name for name in some.PODS if name not in bound]
        return pod if pod.name not in bound or not free else replace(pod, name=free[0], uid=free[0])

    @rule(pod=some.pods(), node=some.names["node"])
    def schedule(self, pod: Pod, node: str) -> None:
        pod = self.unbound(pod)
        self.do(lambda snapshot: snapshot.schedule(pod, node))

    @rule(pod=some.pods(), last=st.booleans())
    def place(self, pod: Pod, last: bool) -> None:
        pod = self.unbound(pod)
        choose = (lambda names: names[-1]) if last else None
        self.do(lambda snapshot: snapshot.place(pod, choose))

    @rule(name=some.names["node"], number=st.integers(0, 9))
    def add_node_like(self, name: str, number: int) -> None:
        try:
            template = template_of(self.snapshot, name)
        except (SnapshotError, TemplateError):
            return
        self.do(lambda snapshot: add_node(snapshot, template, f"x{number}"))

    @rule(claim=some.names["claim"])
    def deallocate(self, claim: str) -> None:
        if (tracked := self.snapshot.claims.get(some.key(claim))) is not None:
            self.do(lambda snapshot: snapshot.put(tracked.deallocated()))

    @rule(claim=some.names["claim"], pod=some.names["pod"])
    def reserve(self, claim: str, pod: str) -> None:
        known = self.snapshot.pods.get(some.key(pod))
        tracked = self.snapshot.claims.get(some.key(claim))
        if known is not None and tracked is not None and tracked.claim.is_allocated:
            self.do(lambda snapshot: reserve(snapshot, some.key(claim), known))

    @rule()
    @precondition(lambda self: len(self.forks) < 3)
    def fork(self) -> None:
        self.forks.append((dump(self.snapshot), []))
        self.snapshot.fork()

    @rule()
    @precondition(lambda self: self.forks)
    def revert(self) -> None:
        before, _ = self.forks.pop()
        self.snapshot.revert()
        assert dump(self.snapshot) == before

    @rule()
    @precondition(lambda self: self.forks)
    def commit(self) -> None:
        _, done = self.forks.pop()
        self.snapshot.commit()
        if self.forks:
            self.forks[-1][1].extend(done)
        else:
            for operation in done:
                operation(self.plain)

    @invariant()
    def committed_equals_applied_directly(self) -> None:
        if not self.forks:
            assert dump(self.snapshot) == dump(self.plain)

    @invariant()
    def derived_values_are_those_of_the_objects(self) -> None:
        snapshot = self.snapshot
        objects: list[Any] = [
            *(snapshot.nodes[node.name].node for node in snapshot.state.devices.in_order()[1]),
            *snapshot.state.devices.in_order()[0],
            *snapshot.state.devices.taint_rules.values(),
            *snapshot.classes.values(),
            *snapshot.claims.values(),
            *snapshot.templates.values(),
            *snapshot.pods.values(),
        ]
        fresh = Snapshot()
        for item in objects:
            # Its effects on other objects have happened already.
            fresh.mirror(item)
        anew, known = dump(fresh), dump(snapshot)
        assert {**anew, "broken": known["broken"]} == known

    @rule(pod=some.pods())
    def devices_agree_with_a_fresh_allocator(self, pod: Pod) -> None:
        snapshot = self.snapshot
        fitting = Fitting(pod, snapshot.state)
        claims = [requirement.claim for requirement in fitting.requirements if not requirement.claim.is_allocated]
        if fitting.general is not None or not claims or "example.com/gpu" in pod.requests:
            return
        taken = AllocatedState.from_claims(tracked.claim for tracked in snapshot.claims.values())
        slices = [snapshot.slices[item.name] for item in snapshot.state.devices.in_order()[0]]
        fit = snapshot.fits(pod)
        for name, state in snapshot.nodes.items():
            answer = snapshot.fits_on(pod, name)
            assert answer.verdict == fit.nodes[name].verdict
            if answer.verdict.filter not in (None, Filter.DYNAMIC_RESOURCES):
                continue
            allocator = Allocator(slices, snapshot.classes, taken)
            try:
                expected = allocator.allocate(state.node.identity, claims)
            except AllocationError:
                assert answer.verdict.code is FitCode.ERROR
                continue
            if isinstance(expected, DoesNotFit):
                assert answer.verdict.code is FitCode.UNRESOLVABLE
                assert answer.reason == expected.reason
            elif answer.fits:
                assert tuple(allocation for _, allocation in answer.allocations) == expected
            else:
                assert "resourceclaim not available on the node" in answer.verdict.reasons

    @rule(pod=some.pods())
    def nodes_agree_with_a_scheduling_attempt(self, pod: Pod) -> None:
        """Compared with what the embedded cluster's scheduler runs on."""
        snapshot = self.snapshot
        fitting = Fitting(pod, snapshot.state)
        new = any(requirement.is_new for requirement in fitting.requirements)
        if fitting.general is not None or new or snapshot.broken or "example.com/gpu" in pod.requests:
            return
        devices, waiting = snapshot.state.devices, snapshot.state.nominated
        nodes = list(snapshot.nodes.values())
        view = ClusterView(
            nodes,
            SliceIndex([snapshot.slices[item.name] for item in devices.in_order()[0]]),
            snapshot.classes,
            devices.allocated,
            {name: [snapshot.pods[key] for key in waiting[name]] for name in waiting},
        )
        question = SchedulingQuestion(pod, tuple(requirement.claim for requirement in fitting.requirements))
        attempt = SchedulingAttempt(view, question, lambda states: states[0])
        for state in nodes:
            verdict = snapshot.fits_on(pod, state.node.name).verdict
            try:
                assert verdict == attempt.node_verdict(state, nodes)
            except AllocationError:
                assert verdict.code is FitCode.ERROR


TestSnapshots = Snapshots.TestCase
# To explain a failure line by line takes minutes, and the time limit ends the test before the failure is shown.
TestSnapshots.settings = settings(
    max_examples=example_count(EXAMPLES),
    stateful_step_count=50,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
