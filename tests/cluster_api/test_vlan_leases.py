"""The account of VLANs while everything happens at once: hubs that start, stop and die, requests that fail either way.

Each request of each hub is a step of its own; which comes next, and how it ends, is drawn. Time is virtual. The ConfigMap
is in the embedded cluster's store, whose resourceVersions are those of an API server.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dra_spawner.cluster.errors import KubernetesError, KubernetesUnavailable, RequestTarget, error_from_status
from dra_spawner.cluster.vlan_leases import CONFIG_MAP, MAX_TRIES, VlanLeases, pod_marks, vlan_pods
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS
from dra_spawner.devcluster.api.store import Store
from dra_spawner.profiles.vlan_policy import parse_vlan_policy
from dra_spawner.profiles.vlans import LeasesCorrupt, VlanRefusal, VlanRefused, leases_from_data

NAMESPACE = "default"
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
START_SECONDS = 330
POLICY = parse_vlan_policy({"range": "100-102", "mapping": {"mapped": 200}})
USERS = ("ada", "bob", "eve", "dan", "mapped")
SERVERS = tuple(f"{user}-{number}" for user in USERS for number in range(2))


class Outcome(StrEnum):
    OK = "done"
    REFUSED = "no answer, not done"
    LOST = "no answer, but done"
    BUSY = "429"


@types.coroutine
def pause() -> Generator[None, Outcome, Outcome]:
    """Wait until the test lets it go on."""
    return (yield)


@dataclass
class SteppedApi:
    """`KubernetesApi` on a store; each request waits for its turn and its outcome."""

    store: Store
    pods: dict[str, dict[str, Any]]
    writes: list[str] = field(default_factory=list)

    async def get(self, path: str, **_: Any) -> Any:
        return await self._request("get", path, lambda: self.store.get(CONFIGMAPS, NAMESPACE, CONFIG_MAP))

    async def replace(self, path: str, body: Any, **_: Any) -> Any:
        self.writes.append("replace")
        return await self._request("update", path, lambda: self.store.update(CONFIGMAPS, body))

    async def create(self, path: str, body: Any, **_: Any) -> Any:
        self.writes.append("create")
        return await self._request("create", path, lambda: self.store.create(CONFIGMAPS, body, NAMESPACE))

    async def list(self, path: str, *, label_selector: str) -> Any:
        assert label_selector == "hub.jupyter.org/vlan"
        return await self._request("list", path, lambda: {"items": list(self.pods.values())})

    async def _request(self, verb: str, path: str, call: Callable[[], Any]) -> Any:
        target = RequestTarget(verb, path)
        outcome = await pause()
        if outcome is Outcome.BUSY:
            raise error_from_status(target, 429, {"message": "later"})
        if outcome is Outcome.REFUSED:
            raise KubernetesUnavailable(target, status=0, reason="Unavailable", message="refused")
        try:
            answer = mutable_copy(call())
        except ApiError as error:
            raise error_from_status(target, error.status_code, error.to_status()) from error
        if outcome is Outcome.LOST:
            raise KubernetesUnavailable(target, status=0, reason="Unavailable", message="lost")
        return answer


@dataclass
class Work:
    """Something that a hub is doing."""

    what: str
    server: str
    coroutine: Coroutine[Any, Any, None]
    creates_pod: bool = False

    def step(self, outcome: Outcome | None) -> bool:
        """Go on; whether it is done."""
        try:
            self.coroutine.send(outcome)
        except StopIteration:
            return True
        return False


class VlanMachine(RuleBasedStateMachine):
    """Hubs, users with two servers each, and an account of three VLANs and one that is set aside."""

    def __init__(self) -> None:
        super().__init__()
        self.now = BEGIN
        self.store = Store(lambda: self.now)
        self.pods: dict[str, dict[str, Any]] = {}
        self.api = SteppedApi(self.store, self.pods)
        self.work: list[Work] = []
        self.starts = 0
        self.refusals: list[VlanRefused] = []

    # --- what hubs do

    def leases(self) -> VlanLeases:
        async def sleep(_: float) -> None:
            await pause()

        return VlanLeases(self.api, NAMESPACE, NAMESPACE, now=lambda: self.now, sleep=sleep, jitter=lambda: 1.0)

    async def _start(self, server: str, start: str) -> None:
        user = server.partition("-")[0]
        until = self.now + timedelta(seconds=START_SECONDS)
        leases = self.leases()
        try:
            vlan = await leases.acquire(POLICY, user, server=f"{NAMESPACE}/{server}", start=start, until=until)
        except KubernetesError:
            await self._give_back(server, start)
            return
        if isinstance(vlan, VlanRefused):
            self.refusals.append(vlan)
            return
        outcome = await pause()
        if self.now > until or outcome is Outcome.BUSY:
            # Late, or refused for another reason: the start fails, surely without a pod.
            await self._give_back(server, start)
            return
        if outcome is Outcome.REFUSED:
            return  # nobody knows whether the pod will be: the sweep is left to free the VLAN
        labels, annotations = pod_marks(vlan, POLICY.owner(user), start)
        metadata = {"name": server, "namespace": NAMESPACE, "labels": labels, "annotations": annotations}
        self.pods[server] = {"metadata": metadata, "status": {"phase": "Running"}}

    async def _give_back(self, server: str, start: str | None) -> None:
        for _ in range(3):
            try:
                if await self.leases().release(f"{NAMESPACE}/{server}", start):
                    return
            except KubernetesError:
                pass
            await pause()

    async def _sweep(self) -> None:
        with contextlib.suppress(KubernetesError):
            await self.leases().reconcile()

    def _begin(self, what: str, server: str, coroutine: Coroutine[Any, Any, None]) -> None:
        work = Work(what, server, coroutine)
        if not work.step(None):
            self.work.append(work)

    def _idle(self) -> list[str]:
        busy = {work.server for work in self.work} | self.pods.keys()
        return [server for server in SERVERS if server not in busy]

    @precondition(lambda self: self._idle())
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        server = data.draw(st.sampled_from(self._idle()))
        self.starts += 1
        self._begin("start", server, self._start(server, str(self.starts)))

    @precondition(lambda self: self.work)
    @rule(data=st.data(), outcome=st.sampled_from([*Outcome, *[Outcome.OK] * 6]), steps=st.integers(1, 4))
    def go_on(self, data: st.DataObject, outcome: Outcome, steps: int) -> None:
        work = data.draw(st.sampled_from(self.work))
        for _ in range(steps):
            if work.step(outcome):
                self.work.remove(work)
                return

    @precondition(lambda self: self.work)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """One of them is let through to its end."""
        work = data.draw(st.sampled_from(self.work))
        self.work.remove(work)
        while not work.step(Outcome.OK):
            pass

    @precondition(lambda self: self.work)
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        """A hub dies in the middle of something."""
        work = data.draw(st.sampled_from(self.work))
        self.work.remove(work)
        work.coroutine.close()

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), how=st.sampled_from(["stops", "vanishes", "stays"]))
    def stop(self, data: st.DataObject, how: str) -> None:
        """A server stops; or its pod goes and no hub hears of it; or it is said to have stopped, but its pod stays."""
        server = data.draw(st.sampled_from(sorted(self.pods)))
        if how != "stays":
            del self.pods[server]
        if how != "vanishes":
            self._begin("stop", server, self._give_back(server, None))

    @rule()
    def sweep(self) -> None:
        self._begin("sweep", "", self._sweep())

    @rule(seconds=st.sampled_from([1, 60, START_SECONDS, START_SECONDS + 61]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @precondition(lambda self: not any(work.what == "start" for work in self.work))
    @rule()
    def lose_the_account(self) -> None:
        """An administrator removes the ConfigMap while servers run."""
        if self.store.find(CONFIGMAPS, NAMESPACE, CONFIG_MAP):
            self.store.delete(CONFIGMAPS, NAMESPACE, CONFIG_MAP)

    # --- what must hold

    def account(self) -> dict[int, set[str]] | None:
        found = self.store.find(CONFIGMAPS, NAMESPACE, CONFIG_MAP)
        if found is None:
            return None
        leases = leases_from_data(mutable_copy(found).get("data"))
        return {vlan: {holder.owner for holder in holders} for vlan, holders in leases.items()}

    @invariant()
    def no_vlan_has_two_owners(self) -> None:
        users: dict[int, set[str]] = {}
        for pod in vlan_pods(list(self.pods.values())):
            users.setdefault(pod.vlan, set()).add(pod.owner)
            assert pod.vlan in (POLICY.vlans if pod.owner != "user:mapped" else (200,))
        assert all(len(owners) == 1 for owners in users.values()), users
        assert all(len(owners) == 1 for owners in (self.account() or {}).values()), self.account()

    @invariant()
    def no_pod_is_without_its_entry(self) -> None:
        account = self.account()
        for pod in vlan_pods(list(self.pods.values())):
            assert account is None or pod.owner in account.get(pod.vlan, ()), (pod, account)

    def teardown(self) -> None:
        """Once all is quiet, nothing is left behind, and whoever wants a VLAN gets one."""
        self._let_all_end()
        self.no_vlan_has_two_owners()
        self.pods.clear()
        self.now += timedelta(seconds=START_SECONDS + 61)
        self._begin("sweep", "", self._sweep())
        self._let_all_end()
        assert not self.account()
        for user in ("ada", "bob", "eve", "mapped"):
            self._begin("start", f"{user}-0", self._start(f"{user}-0", "last"))
        self._let_all_end()
        assert len(self.pods) == 4

    def _let_all_end(self) -> None:
        for _ in range(2000):
            if not self.work:
                return
            work = self.work.pop(0)
            if not work.step(Outcome.OK):
                self.work.append(work)
        raise AssertionError([work.what for work in self.work])


VlanMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
TestVlans = VlanMachine.TestCase


# One at a time


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
        body = {"metadata": {"name": CONFIG_MAP}, "data": data}
        self.store.create(CONFIGMAPS, body, NAMESPACE)

    @property
    def data(self) -> dict[str, str]:
        return mutable_copy(self.store.get(CONFIGMAPS, NAMESPACE, CONFIG_MAP)).get("data", {})


@pytest.fixture
def alone() -> Alone:
    return Alone()


def test_what_is_corrupt_is_never_written_over(alone: Alone):
    alone.set_data({"100": "gone wrong"})
    for work in (
        lambda: alone.acquire(),
        lambda: alone.run(alone.machine.leases().release(f"{NAMESPACE}/ada-0")),
        lambda: alone.run(alone.machine.leases().reconcile()),
    ):
        with pytest.raises(LeasesCorrupt, match="VLAN 100: no JSON"):
            work()
    assert alone.data == {"100": "gone wrong"}
    assert alone.machine.api.writes == []


def test_a_storm_of_conflicts_ends_with_an_error(alone: Alone):
    alone.acquire("bob")
    leases, updates = alone.machine.leases(), 0

    async def overtaken(body: Any) -> Any:
        nonlocal updates
        updates += 1
        alone.store.update(
            CONFIGMAPS,
            {**alone.store.get(CONFIGMAPS, NAMESPACE, CONFIG_MAP), "data": {"7": f'[{{"owner": "{updates}"}}]'}},
        )
        return await SteppedApi.replace(alone.machine.api, "", body)

    leases._api.replace = lambda path, body: overtaken(body)
    with pytest.raises(KubernetesError) as caught:
        alone.run(leases.acquire(POLICY, "ada", server="default/ada-0", start="1", until=BEGIN))
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


def test_before_somebody_is_refused_those_that_are_gone_are_freed(alone: Alone):
    for user in ("ada", "bob", "eve"):
        alone.acquire(user)
    refused = alone.acquire("dan")
    assert refused.reason is VlanRefusal.EXHAUSTED
    alone.machine.now += timedelta(seconds=START_SECONDS + 61)
    assert alone.acquire("dan") in POLICY.vlans
    assert len(alone.data) == 1


def test_an_account_that_is_lost_is_made_anew_from_the_pods(alone: Alone):
    alone.run(alone.machine._start("ada-0", "1"))
    (pod,) = vlan_pods(list(alone.machine.pods.values()))
    alone.store.delete(CONFIGMAPS, NAMESPACE, CONFIG_MAP)
    given = {alone.acquire(user) for user in ("bob", "eve")}
    assert given | {pod.vlan} == set(POLICY.vlans)
    assert alone.acquire("ada", start="2") == pod.vlan


def test_nothing_is_written_where_nothing_changes(alone: Alone):
    alone.run(alone.machine.leases().reconcile())
    assert alone.run(alone.machine.leases().release("default/ada-0")) is True
    assert alone.machine.api.writes == []
    alone.acquire()
    alone.run(alone.machine.leases().reconcile())
    alone.run(alone.machine.leases().release("default/bob-0"))
    assert alone.machine.api.writes == ["create"]


def test_what_else_is_on_the_config_map_stays(alone: Alone):
    body = {
        "metadata": {"name": CONFIG_MAP, "annotations": {"example.com/a": "b"}},
        "data": {"777": '[{"owner": "user:ada"}]'},
    }
    alone.store.create(CONFIGMAPS, body, NAMESPACE)
    assert alone.acquire("ada") == 777
    assert alone.store.get(CONFIGMAPS, NAMESPACE, CONFIG_MAP)["metadata"]["annotations"] == {"example.com/a": "b"}
    assert alone.run(alone.machine.leases().release("default/ada-0")) is True
    assert alone.data == {"777": '[{"owner": "user:ada"}]'}


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": {"hub.jupyter.org/vlan": "x"}}, id="no number"),
        pytest.param({"labels": {"hub.jupyter.org/vlan": "5000"}}, id="too high"),
        pytest.param({"labels": {"hub.jupyter.org/vlan": "5"}, "annotations": None}, id="no owner"),
        pytest.param({"annotations": {"hub.jupyter.org/vlan-owner": "user:ada"}}, id="no label"),
    ],
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
