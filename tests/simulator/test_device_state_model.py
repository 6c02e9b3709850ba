"""After any sequence of changes, a DeviceState answers as a new allocator with the present objects."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import count
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dra_spawner.dra.allocation.allocator import AllocatedState, AllocationError, Allocator, DoesNotFit
from dra_spawner.dra.model.objects import DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.scheduler_rules import RULES, Release, SchedulerRules
from dra_spawner.simulator.devices.device_state import DeviceState
from tests.examples import example_count
from tests.oracle.comparison import features_of
from tests.oracle.scenarios import FAMILIES, make_scenario

EXAMPLES = 60
MAX_STEPS = 500


class Model:
    """The same in plain dictionaries."""

    def __init__(self, slices: Any, classes: Any, nodes: Any, holders: Any) -> None:
        self.slices: dict[str, ResourceSlice] = dict(slices)
        self.classes: dict[str, DeviceClass] = dict(classes)
        self.nodes: dict[str, Node] = dict(nodes)
        self.holders: dict[Any, Any] = dict(holders)

    def copy(self) -> Model:
        return Model(self.slices, self.classes, self.nodes, self.holders)

    def allocated(self, rules: SchedulerRules) -> AllocatedState:
        state = AllocatedState(rules)
        for held in self.holders.values():
            state.add(held)
        return state


class DeviceStateMachine(RuleBasedStateMachine):
    """Changes at random; their objects come from the scenarios of the differential test."""

    @initialize(
        release=st.sampled_from(sorted(RULES)), family=st.sampled_from(sorted(FAMILIES)), seed=st.integers(0, 10_000)
    )
    def start(self, release: Release, family: str, seed: int) -> None:
        scenario, other = make_scenario(family, seed), make_scenario(family, seed + 1)
        self.scheduler_rules = replace(RULES[release], features=features_of(scenario))
        self.slices = [ResourceSlice.from_json(item) for item in scenario["slices"] + other["slices"]]
        self.nodes = [Node.from_json(item) for item in scenario["nodes"] + other["nodes"]]
        self.classes = [DeviceClass.from_json(item) for item in scenario["classes"] + other["classes"]]
        self.claims = [ResourceClaim.from_json(item) for item in scenario["existing"] + other["existing"]]
        self.wanted = [
            [ResourceClaim.from_json(item) for item in part["claims"]] for part in (scenario, other) if part["claims"]
        ]
        existing = self.claims[: len(scenario["existing"])]
        self.model = Model(
            {item.name: item for item in self.slices[: len(scenario["slices"])]},
            {item.name: item for item in self.classes[: len(scenario["classes"])]},
            {node.name: node for node in self.nodes[: len(scenario["nodes"])]},
            {(claim.namespace, claim.name): claim.status.devices for claim in existing},
        )
        self.state = DeviceState(
            self.model.slices.values(),
            self.model.classes.values(),
            self.model.nodes.values(),
            existing,
            self.scheduler_rules,
            max_steps=MAX_STEPS,
        )
        self.marks: list[tuple[int, Model]] = []
        self.numbers = count()

    @rule(at=st.integers(0))
    def put_slice(self, at: int) -> None:
        item = self.slices[at % len(self.slices)] if self.slices else None
        if item is not None:
            self.state.put_slice(item)
            self.model.slices[item.name] = item

    @precondition(lambda self: self.model.slices)
    @rule(at=st.integers(0))
    def remove_slice(self, at: int) -> None:
        name = list(self.model.slices)[at % len(self.model.slices)]
        self.state.remove_slice(name)
        del self.model.slices[name]

    @rule(at=st.integers(0), renamed=st.booleans())
    def add_node(self, at: int, renamed: bool) -> None:
        node = self.nodes[at % len(self.nodes)]
        if renamed:
            node = Node(f"n{at % 4}", node.labels)
        self.state.add_node(node)
        self.model.nodes[node.name] = node

    @precondition(lambda self: self.model.nodes)
    @rule(at=st.integers(0))
    def remove_node(self, at: int) -> None:
        name = list(self.model.nodes)[at % len(self.model.nodes)]
        self.state.remove_node(name)
        del self.model.nodes[name]

    @rule(at=st.integers(0), remove=st.booleans())
    def change_class(self, at: int, remove: bool) -> None:
        item = self.classes[at % len(self.classes)]
        if remove and item.name in self.model.classes:
            self.state.remove_class(item.name)
            del self.model.classes[item.name]
        else:
            self.state.put_class(item)
            self.model.classes[item.name] = item

    @precondition(lambda self: self.claims)
    @rule(at=st.integers(0))
    def record_existing(self, at: int) -> None:
        held = self.claims[at % len(self.claims)].status.devices or ()
        self.record(held)

    @precondition(lambda self: self.model.nodes and self.wanted)
    @rule(at=st.integers(0), which=st.integers(0, 1))
    def allocate_and_record(self, at: int, which: int) -> None:
        node = list(self.model.nodes)[at % len(self.model.nodes)]
        try:
            found = self.state.allocate(node, self.wanted[which % len(self.wanted)])
        except AllocationError:
            return
        if not isinstance(found, DoesNotFit):
            for allocation in found:
                self.record(tuple(result.as_allocated("share") for result in allocation.results))

    def record(self, held: Any) -> None:
        key = next(self.numbers)
        self.state.record(key, held)
        self.model.holders[key] = held

    @precondition(lambda self: self.model.holders)
    @rule(at=st.integers(0))
    def release(self, at: int) -> None:
        key = list(self.model.holders)[at % len(self.model.holders)]
        assert self.state.release(key) == self.model.holders.pop(key)

    @rule()
    def mark(self) -> None:
        self.marks.append((self.state.journal.mark(), self.model.copy()))

    @precondition(lambda self: self.marks)
    @rule(to=st.integers(0))
    def revert(self, to: int) -> None:
        position = to % len(self.marks)
        mark, self.model = self.marks[position]
        self.state.journal.revert_to(mark)
        del self.marks[position:]

    @precondition(lambda self: self.marks)
    @rule()
    def forget(self) -> None:
        mark, _ = self.marks.pop()
        self.state.journal.forget_to(mark)

    @invariant()
    def holds_the_same(self) -> None:
        assert dict(self.state.slices) == self.model.slices
        assert self.state.in_order() == (list(self.model.slices.values()), list(self.model.nodes.values()))
        assert dict(self.state.classes) == self.model.classes
        assert dict(self.state.holders) == self.model.holders
        assert self.state.allocated == self.model.allocated(self.scheduler_rules)

    @invariant()
    def answers_the_same(self) -> None:
        for claims in self.wanted:
            attempt = self.allocator()
            verdicts = outcome(lambda: self.state.verdicts(claims))  # noqa: B023 (called at once)
            first = None
            for node in self.model.nodes.values():
                alone = outcome(lambda: ask(self.allocator(), node, claims))  # noqa: B023 (called at once)
                assert outcome(lambda: self.state.allocate(node.name, claims, explain=True)) == alone  # noqa: B023 (called at once)
                if first is None and is_fit(alone):
                    first = node.name
                together = outcome(lambda: ask(attempt, node, claims))  # noqa: B023 (called at once)
                if isinstance(verdicts, tuple):
                    assert together == verdicts
                else:
                    mine = shown(verdicts.on(node.name))
                    # An error speaks of the first node that has it.
                    assert mine[:2] == together[:2] if is_error(together) else mine == together
            if isinstance(verdicts, tuple):
                first = None
            assert outcome(lambda: self.state.first_fitting_node(claims)) in (first, verdicts)  # noqa: B023 (called at once)

    def allocator(self) -> Allocator:
        model = self.model
        return Allocator(
            list(model.slices.values()),
            copy(model.classes),
            model.allocated(self.scheduler_rules),
            self.scheduler_rules,
        )


def ask(allocator: Allocator, node: Node, claims: list[ResourceClaim]) -> Any:
    steps = count(1)
    return allocator.allocate(node, claims, cancelled=lambda: next(steps) > MAX_STEPS)


def outcome(question: Any) -> Any:
    try:
        return question()
    except AllocationError as error:
        return shown(error)


def shown(verdict: Any) -> Any:
    if isinstance(verdict, AllocationError):
        return "error", verdict.reason, str(verdict)
    return verdict


def is_error(verdict: Any) -> bool:
    return isinstance(verdict, tuple) and verdict[:1] == ("error",)


def is_fit(verdict: Any) -> bool:
    return isinstance(verdict, tuple) and not is_error(verdict)


TestDeviceState = DeviceStateMachine.TestCase
TestDeviceState.settings = settings(
    max_examples=example_count(EXAMPLES), stateful_step_count=20, suppress_health_check=list(HealthCheck)
)
