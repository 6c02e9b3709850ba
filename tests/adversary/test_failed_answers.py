"""Failures of the API server that commands, VLANs and the Lease meet: none counts as absence.

What the controller does then is in `tests.placeholders.controller.test_failures_are_not_absence`.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from dra_spawner import names
from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.reading import Progress
from dra_spawner.commands.rehearsing.cluster_sources import ReadCluster, cluster_of_api
from dra_spawner.commands.removing.plan import plan_removal
from dra_spawner.commands.removing.survey import Failures, Survey
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS, LEASES, by_kind
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.doctor.reader import DoctorReader, Questions
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.kube.client.api_connection import ApiRequest
from dra_spawner.kube.client.api_errors import RequestTarget, error_from_response, error_from_status
from dra_spawner.kube.informers import Informer
from dra_spawner.kube.leader import LeaderElector, LeaseTimes
from dra_spawner.kube.resource import Resource
from dra_spawner.profiles.compiler.vlan_policy import parse_vlan_policy
from dra_spawner.profiles.compiler.vlans import leases_from_data
from dra_spawner.spawner.accounts.vlan_leases import VlanLeases, pod_marks
from tests.all_of_them import all_of_them
from tests.kube.failing_api import FailingApi, Failure
from tests.placeholders.controller.resting_cluster import NAMESPACE, RestingCluster
from tests.presence import present
from tests.running import running
from tests.virtual_loop import pass_time, run_in_virtual_time

#: Answers that an API server could give, too: of an earlier time, or of a replica that is behind.
PLAUSIBLE: Final = frozenset({Failure.EMPTY, Failure.OLD, Failure.SAME})
NOW: Final = datetime(2026, 3, 2, 10, tzinfo=UTC)

Json = dict[str, Any]
Check = Callable[[str, Failure], Coroutine[Any, Any, None]]


def each_failure(plurals: tuple[str, ...], prepare: Callable[[], Check]) -> None:
    """Check each failure of each kind in one virtual time, and list all rows that fail."""
    rows = [(plural, failure) for plural in plurals for failure in Failure]

    async def all_rows() -> None:
        await all_of_them("plural, failure", rows)(prepare())()

    run_in_virtual_time(all_rows())


def store_with(*objects: Json) -> Store:
    """A namespace with some objects."""
    store = Store(lambda: NOW)
    for obj in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *objects):
        kind = present(by_kind(obj["apiVersion"], obj["kind"]))
        store.create(kind, obj, NAMESPACE if kind.namespaced else None)
    return store


# --- commands ------------------------------------------------------------------------------------------------------------


async def removals(api: FailingApi) -> tuple[set[str], Failures]:
    failures = Failures()
    found = await Survey(api, (NAMESPACE,), names.LEASE, failures).find_objects()
    if found is None:
        return set(), failures
    plan = plan_removal(found, NOW, force=False)
    unmarked = {each.object.title for each in plan.unmarkings}
    return unmarked.union(each.object.title for each in plan.removals), failures


def test_uninstall_removes_nothing_that_is_in_use() -> None:
    def prepare() -> Check:
        store = RestingCluster().store
        for obj in server_in_vlan():
            store.create(present(by_kind(obj["apiVersion"], obj["kind"])), obj, NAMESPACE)

        async def check(plural: str, failure: Failure) -> None:
            true, _ = await removals(FailingApi(store))
            assert len(true) >= 20, "placeholders and their claims"
            api = FailingApi(store)
            api.failures[plural].append(failure)
            found, failures = await removals(api)
            assert found <= true, "what a server has"
            if failure not in PLAUSIBLE:
                assert found == true or failures, "it is told"

        return check

    each_failure(("nodes", "pods", "resourceclaims", "configmaps", "leases"), prepare)


class DoctorsApi(FailingApi):
    """An API server that also tells its version, and refuses to tell the rest."""

    async def answer(self, request: ApiRequest) -> bytes:
        if request.path == "/version":
            return b'{"major": "1", "minor": "36"}'
        if request.path == "/metrics" or request.method != "GET":
            raise error_from_response(request.target, 403, b"no")
        return await super().answer(request)

    @contextlib.asynccontextmanager
    async def open_watch(self, request: ApiRequest) -> AsyncIterator[Any]:
        raise error_from_response(request.target, 403, b"no clock")
        yield


def test_the_doctor_says_what_it_has_not_seen() -> None:
    facts_of = {
        "nodes": "nodes",
        "pods": "hub_namespace_pods",
        "resourceclaims": "claims",
        "resourceslices": "slices",
        "deviceclasses": "classes",
        "configmaps": "shapes_config_maps",
        "priorityclasses": "priority_classes",
    }

    def prepare() -> Check:
        store = RestingCluster().store

        async def check(plural: str, failure: Failure) -> None:
            api = DoctorsApi(store)
            if failure in PLAUSIBLE:
                facts = await DoctorReader(api, Questions(NAMESPACE)).read()
                assert getattr(facts, facts_of[plural]) is not None
            api.failures[plural].extend([failure] * 5)
            facts = await DoctorReader(api, Questions(NAMESPACE)).read()
            if failure is not Failure.SAME:
                assert getattr(facts, facts_of[plural]) is None, "it is not known"
                assert len(facts.unseen) >= 3, "as metrics and clock are not"

        return check

    each_failure(tuple(facts_of), prepare)


def test_a_rehearsal_of_a_cluster_that_cannot_be_read_has_no_verdict() -> None:
    async def read(api: FailingApi) -> ReadCluster:
        return await cluster_of_api(api, NAMESPACE, names.SHAPES_CONFIG_MAP, Progress(io.StringIO()))

    def prepare() -> Check:
        store = RestingCluster().store

        async def check(plural: str, failure: Failure) -> None:
            api = FailingApi(store)
            api.failures[plural].append(failure)
            try:
                await read(api)
            except (KubernetesError, InputError):
                return
            # Nobody can know it from one answer, but that pods run on no node.
            assert failure in PLAUSIBLE, "it must fail"
            assert plural != "nodes" or failure is Failure.OLD

        return check

    each_failure(("nodes", "pods", "resourceclaims", "resourceslices", "deviceclasses"), prepare)


# --- VLANs ---------------------------------------------------------------------------------------------------------------


def server_in_vlan() -> tuple[Json, Json]:
    """A server's pod, and the record of VLANs in use."""
    labels, annotations = pod_marks(100, "ada", "1")
    labels = {**labels, names.COMPONENT: names.USER_SERVER}
    metadata = {"name": "jupyter-vlan", "namespace": NAMESPACE, "labels": labels, "annotations": annotations}
    spec = {"containers": [{"name": "notebook", "image": "i"}], "nodeName": "node-1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    holder = json.dumps([{"owner": "ada", "server": f"{NAMESPACE}/jupyter-vlan", "start": "1"}])
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": names.VLANS_CONFIG_MAP, "labels": {names.MANAGED_BY: names.MANAGER}},
        "data": {"100": holder},
    }
    return pod, record


def test_no_vlan_is_freed_or_given_twice() -> None:
    policy = present(parse_vlan_policy({"range": "100-100"}))

    async def check(plural: str, failure: Failure) -> None:
        for times in (1, 3):
            if times > 1 and failure in PLAUSIBLE and plural == "pods":
                continue  # what is missing from two lists in a row is gone
            store = store_with(*server_in_vlan())
            api = FailingApi(store)
            for work in ("reconcile", "release", "acquire"):
                api.failures[plural].extend([failure] * times)
                leases = VlanLeases(api, NAMESPACE, NAMESPACE, now=lambda: NOW, jitter=lambda: 0.5)
                try:
                    if work == "reconcile":
                        await leases.reconcile()
                    elif work == "release":
                        await leases.release(f"{NAMESPACE}/jupyter-vlan", "1")
                    else:
                        found = await leases.acquire(policy, "eve", server=f"{NAMESPACE}/eve", start="2", until=NOW)
                        assert not isinstance(found, int), "it has the VLAN of another user"
                except KubernetesError:
                    pass
                data = store.get(CONFIGMAPS, NAMESPACE, names.VLANS_CONFIG_MAP)["data"]
                assert [each.owner for each in leases_from_data(data)[100]] == ["ada"], work
                api.failures[plural].clear()

    each_failure(("pods", f"configmaps/{names.VLANS_CONFIG_MAP}"), lambda: check)


# --- the Lease -----------------------------------------------------------------------------------------------------------


def test_a_lease_is_neither_taken_nor_lost() -> None:
    times = LeaseTimes(lease_seconds=15, renew_deadline_seconds=10, retry_seconds=2)

    async def check(plural: str, failure: Failure) -> None:
        loop, store = asyncio.get_running_loop(), store_with()
        apis = {each: FailingApi(store) for each in ("held", "seen", "new")}
        electors = {
            each: LeaderElector(api, NAMESPACE, names.LEASE, identity=each, times=times, clock=loop.time)
            for each, api in apis.items()
        }
        held, seen = electors["held"], electors["seen"]
        assert await held.try_acquire_or_renew()
        assert not await seen.try_acquire_or_renew()
        for name, elector in electors.items():
            api = apis[name]
            for wait in (0, 2, 2):
                await pass_time(wait)
                api.failures[plural].append(failure)
                assert not await elector.try_acquire_or_renew(), "no answer, no term"
                assert api.met
                api.failures[plural].clear()
                assert held.is_leader or elector is not held, "a term survives some failures"
                assert await held.try_acquire_or_renew()
        lease = store.get(LEASES, NAMESPACE, names.LEASE)
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("held", 0)

    each_failure((f"leases/{names.LEASE}",), lambda: check)


# --- errors of any form -------------------------------------------------------------------------------------------------

#: Bodies and headers of errors, and the wait that they ask for.
ERRORS: Final[dict[str, tuple[bytes, dict[str, str], float | None]]] = {
    "a number": (b'{"details": {"retryAfterSeconds": 7}}', {}, 7.0),
    "a header": (b"", {"Retry-After": "3"}, 3.0),
    "a date": (b"", {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, None),
    "a digit of another script": (b"", {"Retry-After": "\N{SUPERSCRIPT TWO}"}, None),
    "no end": (b'{"details": {"retryAfterSeconds": 1e999}}', {}, None),
    "no number": (b'{"details": {"retryAfterSeconds": NaN}}', {}, None),
    "huge": (b'{"details": {"retryAfterSeconds": 1' + b"0" * 400 + b"}}", {}, None),
    "before": (b'{"details": {"retryAfterSeconds": -5}}', {}, None),
    "a text": (b'{"details": {"retryAfterSeconds": "soon"}}', {}, None),
    "a list": (b'{"details": {"retryAfterSeconds": [1]}}', {}, None),
    "other texts": (b'{"code": "x", "reason": {}, "message": 3, "details": 4}', {}, None),
}


@all_of_them("body, headers, seconds", ERRORS)
def test_errors_of_any_form_are_errors(body: bytes, headers: dict[str, str], seconds: float | None) -> None:
    target = RequestTarget("list", "pods")
    error = error_from_response(target, 503, body, headers)
    assert (error.status, error.retryable, error.retry_after_seconds) == (503, True, seconds)
    assert (error.other_uid, error.already_exists, error.not_found) == (False, False, False)
    with contextlib.suppress(ValueError):
        assert error_from_status(target, 200, json.loads(body)).status == 500


def test_a_proxy_in_maintenance_does_not_blind_for_a_day() -> None:
    """It answers 503 with ``Retry-After: 86400``, and is gone after a minute."""

    class Maintenance(FailingApi):
        is_over = False

        async def answer(self, request: ApiRequest) -> bytes:
            if not self.is_over:
                raise error_from_response(request.target, 503, b"", {"Retry-After": "86400"})
            return await super().answer(request)

    class Nothing:
        def put(self, obj: Json) -> None: ...

        def remove(self, key: object) -> None: ...

    async def follow() -> None:
        api = Maintenance(store_with())
        informer = Informer(api, Resource("ConfigMap", "v1", "configmaps", NAMESPACE), Nothing())
        async with running(informer.run()):
            await pass_time(60)
            assert not informer.synced
            api.is_over = True
            await pass_time(31)
            assert informer.synced

    run_in_virtual_time(follow())
