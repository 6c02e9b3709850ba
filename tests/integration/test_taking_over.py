"""Starts that take over what a placeholder keeps: whatever fails on the way, nothing is lost and nothing used twice."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner import names
from dra_spawner.spawner.objects.leftovers import Sweep
from dra_spawner.spawner.server_record import ServerRecord
from dra_spawner.spawner.steps import placement
from tests.cluster.fault_proxy import Fault, Request
from tests.integration.devices import shareable, whole
from tests.integration.warm_placeholders import SHARE, node, pods_of, warm_placeholders
from tests.polling import eventually
from tests.spawner.hub_side import cancel_start

CLAIMS = "resourceclaims"
OLDER_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "jupyter-ada", "labels": {"component": "singleuser-server"}},
    "spec": {"containers": [{"name": "notebook", "image": "example/notebook:1", "command": ["x"]}]},
}


class Later(datetime):
    """A clock that can be ahead."""

    ahead = timedelta(0)

    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + cls.ahead


@pytest.fixture
def cluster(real_cluster):
    """The real control plane alone: what fails here is the way to it."""
    return real_cluster


@pytest.fixture
async def places(cluster):
    async with warm_placeholders(cluster) as found:
        yield found


async def test_a_start_that_takes_over(places):
    """As many requests as any other start; the claim goes with the server, and a new place is kept."""
    await places.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with places.keeping(1) as world:
        (placeholder,) = world.warm(places.shape)
        (kept,) = placeholder.claims
        assert await places.spawn() is None
        claim = await places.claim_of()
        assert claim["metadata"]["name"] == kept.name
        pod = await places.pod()
        assert pod["spec"]["nodeName"] == "node-a"
        assert pod["metadata"]["labels"][names.SHAPE] == places.shape.id
        assert claim["metadata"]["labels"]["hub.jupyter.org/username"] == "ada"
        assert claim["metadata"]["annotations"]["hub.jupyter.org/username"] == "ada"
        assert claim["metadata"]["annotations"][names.START] == pod["metadata"]["annotations"][names.START]
        assert sorted(places.requests()) == ["create pods", f"patch {CLAIMS}", f"patch {CLAIMS}"]
        told = ["A device was reserved for you on node node-a.", "Your server gets gpu-0 on node-a, warm."]
        await eventually(lambda: places.said() == told, "the user is told the device")
        spawner = places.user("ada").spawner
        await eventually(lambda: spawner.record.place == "gpu-0 on node-a, warm", "the home page is told the device")
        assert ServerRecord.of_state(spawner.orm_spawner.state) == spawner.record

        await world.until(lambda: placeholder.key not in world.watch.snapshot.pods)
        claim = await places.only_the_pod_uses_it()
        owners = [(each["kind"], each["uid"]) for each in claim["metadata"]["ownerReferences"]]
        assert owners == [("Pod", pod["metadata"]["uid"])]
        await world.until(lambda: len(world.warm(places.shape)) == 1)
        await places.stop()
        await places.only_placeholders_are_left()


async def test_without_places_kept_the_start_makes_its_own(places):
    await places.cluster.publish(*node("node-a", whole("gpu-0")))
    async with places.keeping(0):
        assert await places.spawn() is None
        pod = await places.pod()
        assert "resourceClaimTemplateName" in pod["spec"]["resourceClaims"][0]
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert names.IMAGES_READY in str(terms)
        await places.stop()
        await places.only_placeholders_are_left()


async def test_a_node_that_is_to_become_empty_gets_nobody(places):
    """An empty one is what the scheduler likes best; it gets a server all the same where no other has room."""
    places.side.spawner_config.cpu_guarantee = 3
    for name in ("node-a", "node-b"):
        objects = node(name, whole("gpu-0"), whole("gpu-1"))
        objects[0]["metadata"]["labels"][names.IMAGES_READY] = "true"
        await places.cluster.publish(*objects)
    busy = {"nodeSelector": {"kubernetes.io/hostname": "node-b"}}
    resources = {"requests": {"cpu": "2"}}
    await places.cluster.publish(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "somebody"},
            "spec": {**busy, "containers": [{"name": "c", "image": "example/notebook:1", "resources": resources}]},
        }
    )
    await places.cluster.wait_running("somebody")
    await places.cluster.admin.patch("/api/v1/nodes/node-a", {"metadata": {"labels": {names.DRAINING: "true"}}})
    assert await places.spawn("ada") is None
    assert (await places.pod("ada"))["spec"]["nodeName"] == "node-b"
    assert await places.spawn("bob") is None
    assert await places.spawn("cyd") is None
    nodes = {(await places.pod(user))["spec"]["nodeName"] for user in ("bob", "cyd")}
    assert nodes == {"node-a", "node-b"}
    for user in ("ada", "bob", "cyd"):
        await places.stop(user)


async def test_ten_at_once_and_three_places(places):
    """Three take over, seven make their own; everybody has a share, nobody another's."""
    config = places.side.spawner_config
    config.device_claims = SHARE
    # Nothing is to fail here, however busy the machine is with other things.
    config.start_timeout = 90
    config.k8s_api_request_timeout = config.k8s_api_request_retry_timeout = config.placement_wait_seconds = 30
    await places.cluster.publish(*node("node-a", *(shareable(f"gpu-{index}") for index in range(4))))
    users = [f"user-{index}" for index in range(10)]
    async with places.keeping(3):
        assert await asyncio.gather(*(places.spawn(user) for user in users)) == [None] * 10
        claims = [await places.claim_of(user) for user in users]
        assert len({claim["metadata"]["uid"] for claim in claims}) == 10
        for user, claim in zip(users, claims, strict=True):
            assert f"jupyter-{user}" in pods_of(claim)
        taken = [claim for claim in claims if names.RESERVED_FOR in claim["metadata"]["labels"]]
        # While they start, placeholders are made anew, and taken over as well.
        assert len(taken) >= 3
        await asyncio.gather(*(places.stop(user) for user in users))
        await places.only_placeholders_are_left()


async def test_a_hub_that_is_killed_after_it_has_taken(places):
    """The sweep of the next one removes what the start has taken, when that start is over, and nothing else."""
    await places.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with places.keeping(2):
        answer = await places.promise_to("jupyter-ada")
        user = places.user()
        await user.spawner.load_user_options()
        await user.spawner.get_pod_manifest()
        objects = user.spawner.attempt.objects
        kept_for = {names.RESERVED_FOR: "jupyter-ada", names.SHAPE: places.shape.id}
        await objects.acquire_warm_claims(answer["claims"], kept_for)
        api, namespace = places.cluster.admin, places.cluster.namespace
        before = Sweep(api, namespace, timedelta(0), objects.ends - timedelta(seconds=1))
        await before.run()
        assert (before.done, before.errors) == ([], [])
        after = Sweep(api, namespace, timedelta(0), objects.ends + timedelta(seconds=1))
        await after.run()
        (claim,) = answer["claims"].values()
        assert (after.done, after.errors) == ([f"deleted {CLAIMS} {namespace}/{claim}"], [])
        await places.only_placeholders_are_left()


FAULTS = [
    pytest.param(Fault.refuse(), id="refused connection"),
    pytest.param(Fault.lose_answer(), id="lost answer"),
    pytest.param(Fault.hold_answer(), id="done without answer"),
    pytest.param(Fault.answer(403, "Forbidden", "no"), id="forbidden"),
    pytest.param(Fault.answer(409, "Conflict"), id="conflict"),
    pytest.param(Fault.answer(422, "Invalid"), id="invalid"),
    pytest.param(Fault.answer(500, "InternalError"), id="internal error"),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("verb", "resource", "nth"),
    [("patch", CLAIMS, 1), ("create", "pods", 1), ("patch", CLAIMS, 2)],
    ids=["taking", "pod", "giving"],
)
async def test_one_failed_request(places, verb, resource, nth, fault):
    await places.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with places.keeping(1, lasting_seconds=8) as world:
        places.proxy.fail(fault, verb=verb, resource=resource, nth=nth)
        error = await places.spawn()
        assert places.proxy.count(verb, resource) >= nth, "the fault has to be met"
        if error is None:
            await places.stop()
        else:
            assert getattr(error, "jupyterhub_message", ""), f"no sentence for the user: {error!r}"
        places.proxy.heal()
        await places.only_placeholders_are_left()
        await world.until(lambda: len(world.warm(places.shape)) == 1, 40)

        assert await places.spawn() is None, "the next start works"
        await places.stop()
        await places.only_placeholders_are_left()


async def test_a_promise_that_has_ended_is_not_used(places):
    await places.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with places.keeping(1):
        promise = places.service.answer

        async def ended(question):
            answer = await promise(question)
            return {**answer, "until": (datetime.now(UTC) + timedelta(seconds=1.9)).isoformat()}

        places.service.answer = ended
        assert await places.spawn() is None
        pod = await places.pod()
        assert "resourceClaimTemplateName" in pod["spec"]["resourceClaims"][0]
        await places.stop()


async def test_a_promise_that_ends_before_the_pod_is_made(places, monkeypatch):
    """An older pod of that name takes long to go; meanwhile the claim goes, and the server has one of its own."""
    await places.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with places.keeping(1) as world:
        monkeypatch.setattr(placement, "datetime", Later)

        def is_slow(request: Request) -> bool:
            is_older = (request.verb, request.resource) == ("delete", "pods")
            if is_older:
                monkeypatch.setattr(Later, "ahead", 2 * world.reservations.lasting)
            return is_older

        await places.cluster.publish(OLDER_POD)
        places.proxy.fail(Fault.hold(), matching=is_slow)
        assert await places.spawn() is None
        assert places.said()[:2] == [
            "A device was reserved for you on node node-a.",
            "The reservation for this server has ended; it gets a device of its own.",
        ]
        pod = await places.pod()
        assert "resourceClaimTemplateName" in pod["spec"]["resourceClaims"][0]
        await places.stop()
        await places.only_placeholders_are_left()


async def test_a_pod_of_that_name_is_there_already(places):
    """KubeSpawner removes it and tries again, with what was kept."""
    await places.cluster.publish(*node("node-a", whole("gpu-0")))
    async with places.keeping(1):
        await places.cluster.publish(OLDER_POD)
        assert await places.spawn() is None
        assert names.RESERVED_FOR in (await places.claim_of())["metadata"]["labels"]
        await places.stop()
        await places.only_placeholders_are_left()


async def test_a_pod_that_may_be_there_is_the_only_one_to_have_the_claim(places):
    """The answer to its creation is lost; the next pod has a claim of its own, and the first one's is gone."""
    await places.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with places.keeping(1):
        places.proxy.fail(Fault.lose_answer(), verb="create", resource="pods")
        assert await places.spawn() is None
        assert "resourceClaimTemplateName" in (await places.pod())["spec"]["resourceClaims"][0]
        await places.stop()
        await places.only_placeholders_are_left()


@pytest.mark.parametrize("reserved_for", ["", "jupyter-eve"], ids=["nobody's", "another's"])
async def test_a_claim_that_is_not_kept_for_the_server_is_left_alone(places, reserved_for):
    """Whoever answers instead of the service: no claim of others is used, changed or deleted."""
    await places.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    shape = await places.shape_of_servers()
    marks = {names.SHAPE: shape.id, **({names.RESERVED_FOR: reserved_for} if reserved_for else {})}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "team-gpu", "labels": marks},
        "spec": shape.claims["gpu"],
    }
    (before,) = await places.cluster.publish(claim)
    node_a = {"apiVersion": "v1", "metadata": {"labels": {names.IMAGES_READY: "true"}}}
    await places.cluster.admin.patch("/api/v1/nodes/node-a", node_a)
    until = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    places.service.always({"kind": "warm", "node": "node-a", "claims": {"gpu": "team-gpu"}, "until": until})
    assert await places.spawn() is None
    assert "resourceClaimTemplateName" in (await places.pod())["spec"]["resourceClaims"][0]
    await places.stop()
    after = await places.cluster.admin.get(places.cluster.path(CLAIMS, "team-gpu"))
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_claims_stay_in_their_namespace(places):
    """With a namespace for each user nothing is taken over, whatever the service says."""
    await places.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    async with places.keeping(1):
        spawner = places.user().spawner
        spawner.enable_user_namespaces = True
        await spawner.load_user_options()
        pod = await spawner.get_pod_manifest()
        before = list(pod.spec.resource_claims)
        await spawner.attempt.prepare_request(pod)
        assert pod.spec.resource_claims == before
        assert places.service.questions[-1]["namespace"] == spawner.namespace


@pytest.mark.parametrize("when", ["patch", "create"])
async def test_a_start_that_is_cancelled(places, when):
    await places.cluster.publish(*node("node-a", whole("gpu-0")))
    async with places.keeping(1):
        reached = asyncio.Event()

        def cancel(_) -> bool:
            reached.set()
            cancel_start(places.user().spawner)
            return True

        places.proxy.fail(
            Fault.lose_answer(), verb=when, resource={"patch": CLAIMS, "create": "pods"}[when], matching=cancel
        )
        spawning = asyncio.create_task(places.spawn())
        await asyncio.wait_for(reached.wait(), 10)
        with contextlib.suppress(asyncio.CancelledError):
            await spawning
        places.proxy.heal()
        await places.only_placeholders_are_left()


# --- nodes that are full ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", [3, 5], ids=["beside", "full"])
async def test_a_service_that_ends_once_it_has_promised(places, cpu):
    """The server starts with its claim, and waits for nothing and nobody; nothing stays that only a service could end."""
    places.side.spawner_config.cpu_guarantee = cpu  # of 8
    await places.cluster.publish(*node("node-a", whole("gpu-0")))
    async with places.keeping(1, most=1):
        answer = await places.promise_to("jupyter-ada")
    # From here on nobody decides anything, yet whoever asks is answered.
    places.service.always(answer)
    before = await places.cluster.admin.get(places.cluster.path(CLAIMS, answer["claims"]["gpu"]))
    assert [each["resource"] for each in before["status"]["reservedFor"]] == ["pods"]
    assert await places.spawn() is None
    claim = await places.claim_of()
    assert claim["metadata"]["uid"] == before["metadata"]["uid"]
    # The scheduler that preempts the placeholder may have freed the device for a moment.
    now, then = (each["status"]["allocation"]["devices"]["results"] for each in (claim, before))
    assert [each["device"] for each in now] == [each["device"] for each in then]
    assert "jupyter-ada" in pods_of(claim)
    await places.stop()
    async with places.keeping(1, most=1):
        await places.only_placeholders_are_left()


async def test_a_node_that_a_placeholder_fills(places):
    """The placeholder goes when the pod is there, and the claim is the server's without a moment in between."""
    places.side.spawner_config.cpu_guarantee = 5
    await places.cluster.publish(*node("node-a", whole("gpu-0")))
    async with places.keeping(1) as world:
        (placeholder,) = world.warm(places.shape)
        (kept,) = placeholder.claims
        before = await places.cluster.admin.get(places.cluster.path(CLAIMS, kept.name))
        assert await places.spawn() is None
        claim = await places.claim_of()
        assert claim["metadata"]["uid"] == before["metadata"]["uid"]
        assert claim["status"]["allocation"] == before["status"]["allocation"]
        assert "patch pods" not in places.requests()
        assert "schedulingGates" not in (await places.pod())["spec"]
        await places.only_the_pod_uses_it()
        await places.stop()
        await places.only_placeholders_are_left()


@pytest.mark.parametrize("fault", [Fault.lose_answer(), Fault.answer(403, "Forbidden", "no")], ids=["lost", "refused"])
async def test_a_start_that_goes_wrong_where_the_placeholder_has_gone(places, fault):
    """The claim is deleted; the promise does not keep its device, the only one, from whoever comes next."""
    places.side.spawner_config.cpu_guarantee = 5
    await places.cluster.publish(*node("node-a", whole("gpu-0")))
    async with places.keeping(1) as world:
        places.proxy.fail(fault, verb="create", resource="pods")
        error = await places.spawn()
        assert places.proxy.count("create", "pods") >= 1
        if error is None:
            assert "resourceClaimTemplateName" in (await places.pod())["spec"]["resourceClaims"][0]
            await places.stop()
        places.proxy.heal()
        await places.only_placeholders_are_left()
        await world.until(lambda: len(world.warm(places.shape)) == 1, 40)
        assert await places.spawn() is None
        await places.stop()
        await places.only_placeholders_are_left()
