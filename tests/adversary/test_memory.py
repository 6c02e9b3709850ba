"""The service's memory for data of strangers is bounded, for any running time and any number of strangers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application, RequestHandler

from dra_spawner import names
from dra_spawner.dra.model.claims import ResourceClaim
from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.controller.round.expectations import Expectations
from dra_spawner.placeholders.controller.round.reservations import MAX_ANSWERS
from dra_spawner.placeholders.planner.cluster import cluster_index as known_module
from dra_spawner.placeholders.planner.cluster.busyness import NodesBusyness
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import definition_of
from dra_spawner.service.figures import stale_nodes
from dra_spawner.service.figures.node_figures import NodeFigures
from dra_spawner.service.http.requests import hub_login
from dra_spawner.service.http.requests.hub_login import BoundedHubOAuth
from dra_spawner.simulator.devices import claim_shapes
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.all_of_them import all_of_them
from tests.cluster.example_objects import gpu_class, gpu_slice
from tests.cluster.under_test import ClusterUnderTest
from tests.containers import containers, max_held
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, claim_spec, node, prepare, shape, user_pod
from tests.placeholders.controller.world import at_work
from tests.placeholders.planner.world import World
from tests.service.replica import begin_round, publish_shapes, replica
from tests.service.unstarted_watch import UnstartedWatch
from tests.set_clock import SetClock

#: More than any bound below.
MANY = 12_000


def pod(name: str, node_name: str, component: str, claim: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "nodeName": node_name}
    if claim:
        spec["resourceClaims"] = [{"name": "c", "resourceClaimName": claim}]
    metadata = {"name": name, "namespace": "eve", "uid": name, "labels": {names.COMPONENT: component}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_pods_on_nodes_that_are_not_there() -> None:
    watch, known = UnstartedWatch(), ClusterIndex()
    figures = NodeFigures(watch)
    (puller, *_) = sorted(names.IMAGE_PULLERS)
    for number in range(MANY // 3):
        watch.put(Kind.POD, pod("p", f"node-{number}", puller))
        known.refresh(watch.snapshot, None)
        watch.remove(Kind.POD, ObjectKey("eve", "p"))
        known.refresh(watch.snapshot, None)
    assert max_held(known, but=frozenset(("ChangeLog._latest",))) <= known_module.SPARE
    assert max_held(figures, but=frozenset(("ChangeLog._latest",))) <= stale_nodes.SPARE


async def test_figures_are_right_after_many_names() -> None:
    """Forgotten figures of removed nodes are computed anew."""
    watch = UnstartedWatch()
    figures = NodeFigures(watch)
    for name in ("a", "b"):
        node_object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}}
        watch.put(Kind.NODE, node_object)
        watch.put(Kind.RESOURCE_SLICE, gpu_slice(name))
    watch.put(Kind.DEVICE_CLASS, gpu_class())
    await figures.refresh()
    before = sum(each.devices for each in figures.by_class.values())
    watch.remove(Kind.NODE, ObjectKey("", "b"))
    watch.remove(Kind.RESOURCE_SLICE, ObjectKey("", gpu_slice("b")["metadata"]["name"]))
    for number in range(stale_nodes.SPARE + 100):
        watch.put(Kind.POD, pod("p", f"node-{number}", ""))
    await figures.refresh()
    assert before > 0
    assert sum(each.devices for each in figures.by_class.values()) == before / 2


def test_pods_that_name_claims_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "SPARE", 100)
    watch, known = UnstartedWatch(), ClusterIndex()
    watch.put(Kind.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "uid": "a"}})
    for number in range(600):
        watch.put(Kind.POD, pod("p", "a", "", f"claim-{number}"))
        busyness = NodesBusyness(View(watch.snapshot, datetime.now(UTC), index=known))
        assert busyness.of("a").users == 0
        watch.remove(Kind.POD, ObjectKey("eve", "p"))
    assert len(known.busyness) <= 102


def test_ever_new_selectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_shapes, "MAX_SELECTOR_VERDICTS", 300)
    world = World(Policy())
    world.node("a", gpus=4)
    for number in range(1_000):
        selector = {"cel": {"expression": f"device.driver != 'x{number}'"}}
        spec = claim_spec()
        spec["devices"]["requests"][0]["exactly"]["selectors"] = [selector]
        claim = ResourceClaim.from_json({"metadata": {"name": "c", "namespace": "eve"}, "spec": spec})
        world.snapshot.state.devices.allocate("a", [claim])
    sizes = containers(world.snapshot.state.devices)
    assert 0 < sizes["SelectorCache._verdicts"] <= 301
    assert 0 < sizes["ClaimShapes._shapes"] <= 301


def test_names_of_shapes_that_nobody_wants_any_more() -> None:
    clock = SetClock(0.0)
    names = Expectations(clock=clock)
    for number in range(MANY // 10):
        names.keep_unanswered(f"shape-{number}", "placeholder")
        clock.now += 1
    assert max_held(names) <= 121
    assert names.take_unanswered(f"shape-{MANY // 10 - 1}") == "placeholder"


def request(**headers: str) -> RequestHandler:
    asked = HTTPServerRequest(
        headers=HTTPHeaders({"Host": "localhost", **headers}),
        connection=_Connection(),  # type: ignore[arg-type]
        start_line=RequestStartLine("GET", "/", "HTTP/1.1"),
    )
    return RequestHandler(Application(), asked)


class _Connection:
    """As far as a handler looks at it before it answers."""

    context = None

    def set_close_callback(self, callback: object) -> None:
        pass


def test_logins_that_never_end() -> None:
    auth = BoundedHubOAuth(api_token="t", oauth_client_id="service-dra-spawner", base_url="/services/dra-spawner/")
    first = auth.generate_state("/services/dra-spawner/", code_verifier="v")
    assert auth.get_next_url(first) == "/services/dra-spawner/"
    for number in range(MANY):
        last = auth.generate_state(f"/services/dra-spawner/?after={number}{'x' * 5_000 * (number % 2)}")
        auth.cache[f"token:{number}"] = None
    for each in (auth._oauth_states, auth.cache):
        assert len(each.values) == len(each.timestamps) == hub_login.MAX_CACHED
    longest = max(len(each["next_url"] or "") for each in auth._oauth_states.values.values())
    assert longest < 2_000
    assert auth.get_next_url(first) == "/services/dra-spawner/", "the target of a forgotten login"
    assert auth.get_next_url(last) == "/services/dra-spawner/", "and of an address that is too long to store"


@all_of_them("token", ["x" * 2_000, "\x00", "a\x7fb", "\xe9", "a b"])
def test_invalid_tokens_are_not_sent_to_the_hub(token: str) -> None:
    auth = BoundedHubOAuth(api_token="t", oauth_client_id="service-dra-spawner")
    assert auth.get_token(request(Authorization=f"token {token}")) is None
    assert auth.get_token(request(Authorization="token abc")) == "abc"
    assert auth.get_session_id(request(Cookie=f"jupyterhub-session-id={'x' * 5_000}")) == ""
    assert auth.get_session_id(request(Cookie=f"jupyterhub-session-id={'a' * 32}")) == "a" * 32


async def test_ever_new_shapes_that_ask_for_a_placeholder(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a"))
    gpu = shape(WHOLE)
    async with at_work(cluster, (gpu, ReplicaRange(0, 1))) as world:
        await world.until(lambda: world.reconciler.latest is not None)
        for number in range(1, 2 * MAX_ANSWERS):
            await world.reservations.place(shape({}, cpu=f"{number}m"), cluster.namespace, f"eve-{number}")
            # The view of the cluster must not get old meanwhile.
            await asyncio.sleep(0)
            if number % 50 == 0:
                assert 0 < containers(world.reservations)["Reservations._answers"] <= MAX_ANSWERS


#: Collections that grow with requests, by their attribute, and the reason why they are bounded.
BOUNDED: Final = {
    "DecisionLog._kept": "decisions_kept",
    "ChangeFeed._kept": "change_feed._KEPT",
    "Recorder._queue": "RecorderLimits.queue",
    "ReservationLog._noted": "10 minutes",
    "Backoff._reservations": "by age",
    "LaunchWaits._reserved": "by age",
    "HandoverTimes._begun": "by age",
    "Reservations._answers": "MAX_ANSWERS",
    "ChangeLog._latest": "MAX_REMEMBERED",
}


async def test_servers_that_came_and_went(embedded_cluster: ClusterUnderTest) -> None:
    """No collection of the service grows with the number of past servers, except collections with another bound."""
    cluster, gpu = embedded_cluster, shape(WHOLE)
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await publish_shapes(cluster, {"gpu-whole": gpu})
    # No placeholders for pending servers: their number would depend on the cluster.
    async with replica(
        cluster, placeholders={"gpu-whole": {"min": 1, "max": 1}}, max_placeholders_for_pending_servers=0
    ) as service:
        await service.until_warm(gpu, 1)
        pods = resource_path("v1", "pods", cluster.namespace)

        async def come_and_go(number: int) -> None:
            own = shape({}, cpu=f"{900_000 + number}m")
            question = {
                "shape": own.id,
                "pod": f"p-{number}",
                "namespace": f"n-{number}",
                "definition": definition_of(own),
            }
            assert (await service.ask(question))[0] == 200
            manifest = user_pod(f"p-{number}", {}, cpu=f"{900_000 + number}m")
            manifest["metadata"]["labels"][names.SHAPE] = own.id
            manifest["metadata"]["annotations"] = {names.DEFINITION: definition_of(own)}
            await cluster.publish(manifest)
            await cluster.admin.delete(f"{pods}/p-{number}?gracePeriodSeconds=0")

        async def sizes(numbers: range) -> dict[str, int]:
            for number in numbers:
                await come_and_go(number)
            await service.until(lambda: not service.controller.view().users, "they are gone")
            rounds = service.context.decisions.decided_at
            begin_round(service)
            await service.until(lambda: service.context.decisions.decided_at != rounds, "it was decided since")
            # A minute's end makes tables of fixed sizes, in the first count as in the second.
            view = service.controller.view()
            view.now += timedelta(minutes=1)
            service.controller.scale_ahead.advance(view, service.controller.groups(), "")
            await service.get("page")
            return containers(service.context)

        before = await sizes(range(20))
        after = await sizes(range(20, 120))
        grown = {path: (before.get(path, 0), size) for path, size in after.items() if size > before.get(path, 0) + 50}
        assert grown.keys() <= BOUNDED.keys(), {each: grown[each] for each in grown.keys() - BOUNDED.keys()}
        assert len(before) > 100, "it looks at all there is"
