"""How a DeviceState shares verdicts between alike nodes, and where it must not."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.allocation.allocator import AllocatedState, Allocation, AllocationError, Allocator, DoesNotFit
from dra_spawner.dra.allocation.search import Search
from dra_spawner.dra.model.objects import DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.scheduler_rules import RULES
from dra_spawner.simulator.devices import class_verdicts
from dra_spawner.simulator.devices.device_state import DeviceState
from tests.all_of_them import all_of_them
from tests.bench.fleet import Fleet

DRIVER = "gpu.example.com"


def state_of(fleet: Fleet) -> DeviceState:
    return DeviceState(
        [ResourceSlice.from_json(item) for item in fleet.slices],
        [DeviceClass.from_json(item) for item in fleet.classes],
        [Node.from_json(item) for item in fleet.nodes],
        [ResourceClaim.from_json(item) for item in fleet.existing],
    )


def claim_for(name: str = "wanted", expression: str = "true", **exactly: Any) -> ResourceClaim:
    wanted = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": expression}}], **exactly}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}}
    return ResourceClaim.from_json({"metadata": {"name": name, "namespace": "team"}, "spec": spec})


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the nodes on which a search was made."""
    made: list[str] = []

    class CountedSearch(Search):
        def run(self) -> bool:
            made.append(self.node.name)
            return super().run()

    monkeypatch.setattr(class_verdicts, "Search", CountedSearch)
    return made


def allocated(state: DeviceState, node: str, claim: ResourceClaim) -> tuple[Allocation, ...]:
    found = state.allocate(node, [claim])
    assert isinstance(found, tuple)
    return found


def test_one_search_serves_all_alike_nodes(searches):
    state = state_of(Fleet(50, shared=False))
    verdicts = state.verdicts([claim_for()])
    assert [len(group.nodes) for group in verdicts] == [50]
    assert searches == ["node-0000"]
    for name in state.nodes:
        [allocation] = allocated(state, name, claim_for("another name"))
        assert allocation.results[0].id == (DRIVER, name, "gpu-0")
        assert verdicts.on(name) == (allocation,)
    assert searches == ["node-0000"]


def test_only_the_changed_node_is_searched_again(searches):
    state = state_of(Fleet(50, shared=False))
    claim = claim_for()
    state.verdicts([claim])
    [allocation] = allocated(state, "node-0007", claim)
    state.record("a", allocation.results)
    assert sorted(len(group.nodes) for group in state.verdicts([claim])) == [1, 49]
    assert searches == ["node-0000", "node-0007"]
    state.release("a")
    assert len(state.verdicts([claim])) == 1
    assert searches == ["node-0000", "node-0007"]


@all_of_them(
    "expression, kinds",
    {
        "sees no attribute": ("true", 1),
        "sees an attribute that all devices share": (f"device.attributes['{DRIVER}'].productName != 'x'", 1),
        "sees an attribute of each device's own": (f"device.attributes['{DRIVER}'].uuid != 'x'", 10),
        "sees attributes of its own driver": ("device.attributes[device.driver].index < 9", 1),
        "may see anything": (f"device.attributes[string('{DRIVER}')].index < 9", 10),
    },
)
def test_attributes_that_claims_cannot_see_do_not_distinguish_nodes(expression, kinds):
    state = state_of(Fleet(10, shared=False))
    assert len(state.verdicts([claim_for(expression=expression)])) == kinds


def test_an_attribute_no_selector_can_convert_is_seen_by_all():
    fleet = Fleet(2, shared=False)
    fleet.slices[1]["spec"]["devices"][0]["attributes"]["broken"] = {"version": "one"}
    state = state_of(fleet)
    assert not isinstance(state.allocate("node-0000", [claim_for()]), DoesNotFit)
    with pytest.raises(AllocationError, match="attribute broken"):
        state.allocate("node-0001", [claim_for()])


def test_an_error_speaks_of_the_node_and_the_claim():
    fleet = Fleet(3, shared=False)
    for item in fleet.slices:
        item["spec"]["pool"]["resourceSliceCount"] = 2
    state = state_of(fleet)
    for name in ("node-0000", "node-0002"):
        with pytest.raises(AllocationError, match=f"claim team/all, .* pool {DRIVER}/{name} is being updated"):
            state.allocate(name, [claim_for("all", allocationMode="All")])


def test_a_common_device_taken_changes_the_verdict_on_all_nodes_at_once():
    fleet = Fleet(20, shared=False)
    fleet.slices = fleet.slices[:1]
    del fleet.slices[0]["spec"]["nodeName"]
    fleet.slices[0]["spec"]["allNodes"] = True
    state = state_of(fleet)
    claim = claim_for(count=8)
    mark = state.journal.mark()
    assert state.first_fitting_node([claim]) == "node-0000"
    found = state.allocate("node-0003", [claim_for()])
    assert isinstance(found, tuple)
    state.record("a", found[0].results)
    assert state.first_fitting_node([claim]) is None
    assert not any(group.fits for group in state.verdicts([claim]))
    state.journal.revert_to(mark)
    assert state.first_fitting_node([claim]) == "node-0000"


def entangled() -> tuple[list[ResourceSlice], list[Node]]:
    """Pools of one name and two drivers on two nodes, the first one's counters exhausted."""
    slices = []
    for node, driver, slots in (("n0", "a.example.com", "0"), ("n1", "b.example.com", "1")):
        consumes = [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]
        counters = [{"name": "set", "counters": {"slots": {"value": slots}}}]
        parts: tuple[dict[str, Any], ...] = (
            {"devices": [{"name": "d", "consumesCounters": consumes}]},
            {"sharedCounters": counters},
        )
        for index, part in enumerate(parts):
            pool = {"name": "pool", "generation": 1, "resourceSliceCount": 2}
            spec = {"driver": driver, "nodeName": node, "pool": pool, **part}
            slices.append(ResourceSlice.from_json({"metadata": {"name": f"{node}-{index}"}, "spec": spec}))
    return slices, [Node("n0"), Node("n1")]


def test_pools_mistaken_for_one_another_are_judged_in_one_attempt_as_kube_scheduler_does():
    slices, nodes = entangled()
    rules = RULES[1, 36]
    state = DeviceState(slices, [DeviceClass(DRIVER)], nodes, rules=rules)
    assert not isinstance(state.allocate("n1", [claim_for()]), DoesNotFit), "an attempt on this node alone"
    attempt = Allocator(slices, [DeviceClass(DRIVER)], AllocatedState(), rules)
    verdicts = state.verdicts([claim_for()])
    for node in nodes:
        expected = attempt.allocate(node, [claim_for()])
        assert isinstance(expected, DoesNotFit)
        assert verdicts.on(node.name) == expected


def test_verdicts_do_not_change_with_the_cluster():
    state = state_of(Fleet(3, shared=False))
    claim = claim_for(count=8)
    before = state.verdicts([claim])
    found = state.allocate("node-0001", [claim])
    assert isinstance(found, tuple)
    state.record("a", found[0].results)
    state.remove_node("node-0002")
    assert all(before.fits(f"node-{at:04}") for at in range(3))
    verdict = before.on("node-0002")
    assert isinstance(verdict, tuple)
    assert verdict[0].results[0].id.pool == "node-0002"
    after = state.verdicts([claim])
    assert (after.fits("node-0000"), after.fits("node-0001")) == (True, False)
    with pytest.raises(KeyError):
        after.on("node-0002")


def test_the_first_fitting_node_follows_the_order_of_nodes_not_of_changes():
    state = state_of(Fleet(4, shared=False))
    whole = claim_for(count=8)
    for name in ("node-0000", "node-0001", "node-0002", "node-0003"):
        assert state.first_fitting_node([whole]) == name
        found = state.allocate(name, [whole])
        assert isinstance(found, tuple)
        state.record(name, found[0].results)
    assert state.first_fitting_node([whole]) is None
    state.release("node-0003")
    state.release("node-0001")
    assert state.first_fitting_node([whole]) == "node-0001"
    state.remove_node("node-0001")
    assert state.first_fitting_node([whole]) == "node-0003"


def test_wrong_use():
    state = state_of(Fleet(1, shared=False))
    state.record("a", ())
    with pytest.raises(ValueError, match="claim a is recorded already"):
        state.record("a", ())
    for question in (
        lambda: state.allocate("none", [claim_for()]),
        lambda: state.release("b"),
        lambda: state.remove_node("none"),
        lambda: state.remove_slice("none"),
        lambda: state.remove_class("none"),
    ):
        with pytest.raises(KeyError):
            question()


def test_existing_claims_are_recorded_under_their_names():
    fleet = Fleet(3, shared=True, busy=0.5)
    state = state_of(fleet)
    claims = [ResourceClaim.from_json(item) for item in fleet.existing]
    assert state.holders == {(claim.namespace, claim.name): claim.status.devices for claim in claims}
    for key in list(state.holders):
        state.release(key)
    assert state.holders == {}
    assert state.allocated == AllocatedState()


def test_claims_of_the_start_with_one_name():
    fleet = Fleet(1, shared=False, busy=1)
    state = DeviceState(claims=[ResourceClaim.from_json(fleet.existing[0])] * 2)
    with pytest.raises(ValueError, match="same namespace and name"):
        state.release(("default", "any"))
