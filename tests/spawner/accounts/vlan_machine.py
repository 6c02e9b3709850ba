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

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dra_spawner import names
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.client.api_errors import KubernetesError, KubernetesUnavailable, RequestTarget, error_from_status
from dra_spawner.profiles.compiler.vlan_policy import parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import VlanRefused, leases_from_data
from dra_spawner.spawner.accounts.vlan_leases import VlanLeases, pod_marks, vlan_pods
from tests.presence import present

NAMESPACE = "default"
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
START_SECONDS = 330
POLICY = present(parse_vlan_policy({"range": "100-102", "mapping": {"mapped": 200}}))
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
class SteppedApi(KubernetesApi):
    """On a store instead of a connection; each request waits for its turn and its outcome."""

    store: Store
    pods: dict[str, dict[str, Any]]
    writes: list[str] = field(default_factory=list)
    before_replace: Callable[[], None] | None = None
    """What somebody else does just before each update."""

    async def get(self, path: str, **_: Any) -> Any:
        return await self._request("get", path, lambda: self.store.get(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP))

    async def replace(self, path: str, body: Any, **_: Any) -> Any:
        self.writes.append("replace")
        if self.before_replace is not None:
            self.before_replace()
        return await self._request("update", path, lambda: self.store.update(CONFIGMAPS, body))

    async def create(self, path: str, body: Any, **_: Any) -> Any:
        self.writes.append("create")
        return await self._request("create", path, lambda: self.store.create(CONFIGMAPS, body, NAMESPACE))

    async def list(self, path: str, *, label_selector: str = "", **_: Any) -> Any:
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

    description: str
    server: str
    coroutine: Coroutine[Any, Any, None]

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

    # --- actions of hubs

    def leases(self) -> VlanLeases:
        async def sleep(_: float) -> None:
            await pause()

        return VlanLeases(self.api, NAMESPACE, NAMESPACE, now=lambda: self.now, sleep=sleep, jitter=lambda: 1.0)

    async def start_server(self, server: str, start: str) -> None:
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
            return  # it is unknown whether the pod will be created: the sweep frees the VLAN
        labels, annotations = pod_marks(vlan, POLICY.owner(user), start)
        metadata = {"name": server, "namespace": NAMESPACE, "labels": labels, "annotations": annotations}
        self.pods[server] = {"metadata": metadata, "status": {"phase": "Running"}}

    async def _give_back(self, server: str, start: str) -> None:
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

    def _begin(self, description: str, server: str, coroutine: Coroutine[Any, Any, None]) -> None:
        work = Work(description, server, coroutine)
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
        self._begin("start", server, self.start_server(server, str(self.starts)))

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
        start = self.pods[server]["metadata"]["annotations"][names.VLAN_LEASE]
        if how != "stays":
            del self.pods[server]
        if how != "vanishes":
            self._begin("stop", server, self._give_back(server, start))

    @rule()
    def sweep(self) -> None:
        self._begin("sweep", "", self._sweep())

    @rule(seconds=st.sampled_from([1, 60, START_SECONDS, START_SECONDS + 61]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @precondition(lambda self: not any(work.description == "start" for work in self.work))
    @rule()
    def lose_the_account(self) -> None:
        """An administrator removes the ConfigMap while servers run."""
        if self.store.find(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP):
            self.store.delete(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP)

    # --- invariants

    def account(self) -> dict[int, set[str]] | None:
        found = self.store.find(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP)
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
        """Once all is quiet, nothing is left behind, and each user gets a VLAN."""
        self._let_all_end()
        self.no_vlan_has_two_owners()
        self.pods.clear()
        self.now += timedelta(seconds=START_SECONDS + 61)
        self._begin("sweep", "", self._sweep())
        self._let_all_end()
        assert not self.account()
        for user in ("ada", "bob", "eve", "mapped"):
            self._begin("start", f"{user}-0", self.start_server(f"{user}-0", "last"))
        self._let_all_end()
        assert len(self.pods) == 4

    def _let_all_end(self) -> None:
        for _ in range(2000):
            if not self.work:
                return
            work = self.work.pop(0)
            if not work.step(Outcome.OK):
                self.work.append(work)
        raise AssertionError([work.description for work in self.work])
