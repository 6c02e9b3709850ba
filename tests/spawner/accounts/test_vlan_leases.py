"""The account of VLANs: everything at once, as drawn; and one thing at a time."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dra_spawner import names
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS
from dra_spawner.kube.client.api_errors import KubernetesError, KubernetesUnavailable
from dra_spawner.profiles.compiler.vlans import LeasesCorrupt, VlanRefusal
from dra_spawner.spawner.accounts.vlan_leases import MAX_TRIES, pod_marks, vlan_pods
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.spawner.accounts.vlan_machine import BEGIN, NAMESPACE, POLICY, START_SECONDS, Outcome, VlanMachine

EXAMPLES = 150

VlanMachine.TestCase.settings = settings(
    max_examples=example_count(EXAMPLES), stateful_step_count=50, suppress_health_check=list(HealthCheck)
)
TestVlans = VlanMachine.TestCase


class Alone:
    """One hub whose requests end as the test says."""

    def __init__(self) -> None:
        self.machine = VlanMachine()
        self.store = self.machine.store

    def run(self, coroutine: Coroutine[Any, Any, Any], *outcomes: Outcome) -> Any:
        """Run to its end; requests and waits beyond ``outcomes`` go well."""
        rest = iter(outcomes)
        try:
            coroutine.send(None)
            while True:
                coroutine.send(next(rest, Outcome.OK))
        except StopIteration as end:
            return end.value

    def acquire(self, user: str = "ada", *outcomes: Outcome, start: str = "1") -> Any:
        until = BEGIN + timedelta(seconds=START_SECONDS)
        leases = self.machine.leases()
        return self.run(
            leases.acquire(POLICY, user, server=f"{NAMESPACE}/{user}-0", start=start, until=until), *outcomes
        )

    def set_data(self, data: dict[str, str]) -> None:
        body = {"metadata": {"name": names.VLANS_CONFIG_MAP}, "data": data}
        self.store.create(CONFIGMAPS, body, NAMESPACE)

    @property
    def data(self) -> dict[str, str]:
        return mutable_copy(self.store.get(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP)).get("data", {})


@pytest.fixture
def alone() -> Alone:
    return Alone()


def test_a_corrupt_account_is_never_overwritten(alone: Alone):
    alone.set_data({"100": "gone wrong"})
    for work in (
        lambda: alone.acquire(),
        lambda: alone.run(alone.machine.leases().release(f"{NAMESPACE}/ada-0", "1")),
        lambda: alone.run(alone.machine.leases().reconcile()),
    ):
        with pytest.raises(LeasesCorrupt, match="VLAN 100: no JSON"):
            work()
    assert alone.data == {"100": "gone wrong"}
    assert alone.machine.api.writes == []


def test_a_storm_of_conflicts_ends_with_an_error(alone: Alone):
    alone.acquire("bob")
    updates = 0

    def overtake() -> None:
        nonlocal updates
        updates += 1
        alone.store.update(
            CONFIGMAPS,
            {
                **alone.store.get(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP),
                "data": {"7": f'[{{"owner": "{updates}"}}]'},
            },
        )

    alone.machine.api.before_replace = overtake
    with pytest.raises(KubernetesError) as caught:
        alone.acquire("ada")
    assert caught.value.conflict
    assert updates == MAX_TRIES
    assert alone.data == {"7": f'[{{"owner": "{MAX_TRIES}"}}]'}, "the others' entries stay"


def test_a_lost_answer_is_no_second_vlan(alone: Alone):
    assert alone.acquire("bob", Outcome.OK, Outcome.OK, Outcome.LOST) in POLICY.vlans
    vlan = alone.acquire("ada", Outcome.OK, Outcome.LOST)
    assert vlan in POLICY.vlans
    assert len(alone.data) == 2
    assert alone.acquire("ada") == vlan


def test_no_answer_ends_with_an_error(alone: Alone):
    with pytest.raises(KubernetesUnavailable):
        alone.acquire("ada", *[Outcome.REFUSED] * 100)


def test_vlans_of_servers_that_are_gone_are_freed_before_a_user_is_refused(alone: Alone):
    for user in ("ada", "bob", "eve"):
        alone.acquire(user)
    refused = alone.acquire("dan")
    assert refused.reason is VlanRefusal.EXHAUSTED
    alone.machine.now += timedelta(seconds=START_SECONDS + 61)
    assert alone.acquire("dan") in POLICY.vlans
    assert len(alone.data) == 1


def test_an_account_that_is_lost_is_made_anew_from_the_pods(alone: Alone):
    alone.run(alone.machine.start_server("ada-0", "1"))
    (pod,) = vlan_pods(list(alone.machine.pods.values()))
    alone.store.delete(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP)
    given = {alone.acquire(user) for user in ("bob", "eve")}
    assert given | {pod.vlan} == set(POLICY.vlans)
    assert alone.acquire("ada", start="2") == pod.vlan


def test_nothing_is_written_where_nothing_changes(alone: Alone):
    alone.run(alone.machine.leases().reconcile())
    assert alone.run(alone.machine.leases().release("default/ada-0", "1")) is True
    assert alone.machine.api.writes == []
    alone.acquire()
    alone.run(alone.machine.leases().reconcile())
    alone.run(alone.machine.leases().release("default/bob-0", "1"))
    assert alone.machine.api.writes == ["create"]


def test_other_fields_of_the_config_map_stay(alone: Alone):
    body = {
        "metadata": {"name": names.VLANS_CONFIG_MAP, "annotations": {"example.com/a": "b"}},
        "data": {"777": '[{"owner": "user:ada"}]'},
    }
    alone.store.create(CONFIGMAPS, body, NAMESPACE)
    assert alone.acquire("ada") == 777
    assert alone.store.get(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP)["metadata"]["annotations"] == {
        "example.com/a": "b"
    }
    assert alone.run(alone.machine.leases().release("default/ada-0", "1")) is True
    assert alone.data == {"777": '[{"owner": "user:ada"}]'}


@all_of_them(
    "metadata",
    {
        "no number": {"labels": {"hub.jupyter.org/vlan": "x"}},
        "too high": {"labels": {"hub.jupyter.org/vlan": "5000"}},
        "no owner": {"labels": {"hub.jupyter.org/vlan": "5"}, "annotations": None},
        "no label": {"annotations": {"hub.jupyter.org/vlan-owner": "user:ada"}},
    },
)
def test_pods_that_hold_nothing(metadata: dict[str, Any]):
    metadata = {"annotations": {"hub.jupyter.org/vlan-owner": "user:ada"}, **metadata}
    assert vlan_pods([{"metadata": {"name": "a", "namespace": "b", **metadata}}]) == ()


def test_a_pod_that_has_ended_for_good_holds_nothing():
    labels, annotations = pod_marks(5, "user:ada", "1")
    metadata = {"name": "a", "namespace": "b", "labels": labels, "annotations": annotations}
    found = {
        phase: len(vlan_pods([{"metadata": metadata, "status": {"phase": phase}}]))
        for phase in ("Pending", "Running", "Unknown", "Succeeded", "Failed")
    }
    assert found == {"Pending": 1, "Running": 1, "Unknown": 1, "Succeeded": 0, "Failed": 0}
