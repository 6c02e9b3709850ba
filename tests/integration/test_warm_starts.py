"""Starts that get a warm claim: whatever request fails, no claim is lost and no claim is used twice."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner import names
from dra_spawner.devcluster.kubelet.container_runtime import EXIT_CODE_TERMINATED, FakeContainer
from dra_spawner.spawner.objects.leftovers import Sweep
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.steps import placement
from tests.cluster.fault_proxy import Fault, Request
from tests.integration.devices import shareable, whole
from tests.integration.faulty_hub import OLDER_POD, advance_clock, with_a_user_each, without_patience
from tests.integration.warm_placeholders import SHARE, node, pods_of, warm_placeholders
from tests.polling import PATIENCE_SECONDS, eventually
from tests.spawner.hub_side import cancel_start

CLAIMS = "resourceclaims"


class ClockAhead(datetime):
    """A clock that can be ahead."""

    ahead = timedelta(0)

    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + cls.ahead


@pytest.fixture
async def warm_hub(real_cluster):  # alone, as mostly the requests to it fail here
    async with warm_placeholders(real_cluster) as found:
        yield found


@pytest.fixture
async def warm_hub_on_either(cluster):
    async with warm_placeholders(cluster) as found:
        yield found


@pytest.mark.promise("A start gets the warm claim of a placeholder, and names it.")
async def test_a_start_gets_a_warm_claim(warm_hub_on_either):
    """As many requests as any other start; the claim goes with the server, and a new placeholder gets warm."""
    warm_hub = warm_hub_on_either
    async with warm_hub.with_placeholders(1, gpus=2) as world:
        (placeholder,) = world.warm(warm_hub.shape)
        (warm_claim,) = placeholder.claims
        assert await warm_hub.spawn() is None
        claim = await warm_hub.claim_of()
        assert claim["metadata"]["name"] == warm_claim.name
        pod = await warm_hub.pod()
        assert pod["spec"]["nodeName"] == "node-a"
        assert pod["metadata"]["labels"][names.SHAPE] == warm_hub.shape.id
        assert claim["metadata"]["labels"]["hub.jupyter.org/username"] == "ada"
        assert claim["metadata"]["annotations"]["hub.jupyter.org/username"] == "ada"
        assert claim["metadata"]["annotations"][names.START] == pod["metadata"]["annotations"][names.START]
        assert sorted(warm_hub.requests()) == ["create pods", f"patch {CLAIMS}", f"patch {CLAIMS}"]
        shown = [
            "A device was reserved for you on machine node-a.",
            "Your server gets gpu-0 on node-a, already prepared.",
        ]
        await eventually(lambda: warm_hub.said() == shown, "the user sees the device")
        spawner = warm_hub.user("ada").spawner
        await eventually(
            lambda: parts_of(spawner).home.record.place == "gpu-0 on node-a, already prepared",
            "the home page shows the device",
        )
        assert ServerRecord.of_state(spawner.orm_spawner.state) == parts_of(spawner).home.record

        await world.until(lambda: placeholder.key not in world.watch.snapshot.pods)
        claim = await warm_hub.only_the_pod_uses_it()
        owners = [(each["kind"], each["uid"]) for each in claim["metadata"]["ownerReferences"]]
        assert owners == [("Pod", pod["metadata"]["uid"])]
        await world.until(lambda: len(world.warm(warm_hub.shape)) == 1)
        await warm_hub.stop_last()


async def test_a_hub_refuses_a_warm_claim_that_was_prepared_for_its_placeholder(warm_hub_on_either):
    """A service of an older release answers so."""
    warm_hub = warm_hub_on_either
    warm_hub.side.spawner_config.drivers_prepare_for = {"gpu.example.com": "pod"}
    async with warm_hub.with_placeholders(1, gpus=2):
        assert await warm_hub.spawn() is None
        pod = await warm_hub.pod()
        assert "resourceClaimTemplateName" in pod["spec"]["resourceClaims"][0]
        await warm_hub.stop_last()


@pytest.mark.promise("Without placeholders, a start makes its own claim.")
async def test_without_placeholders_a_start_makes_its_own_claim(warm_hub):
    async with warm_hub.with_placeholders(0, gpus=1):
        assert await warm_hub.spawn() is None
        pod = await warm_hub.pod()
        assert "resourceClaimTemplateName" in pod["spec"]["resourceClaims"][0]
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert names.IMAGES_READY in str(terms)
        await warm_hub.stop_last()


async def test_a_draining_node_gets_a_server_only_if_no_other_node_fits_it(warm_hub):
    """The scheduler prefers an empty node. A draining node gets a server only where no other node fits it."""
    warm_hub.side.spawner_config.cpu_guarantee = 3
    # The scheduler knows a node's labels when it knows the node, and a change of them at some moment.
    for name, more in (("node-a", {names.DRAINING: "true"}), ("node-b", {})):
        objects = node(name, whole("gpu-0"), whole("gpu-1"))
        objects[0]["metadata"]["labels"] |= {names.IMAGES_READY: "true", **more}
        await warm_hub.cluster.publish(*objects)
    busy = {"nodeSelector": {"kubernetes.io/hostname": "node-b"}}
    resources = {"requests": {"cpu": "2"}}
    await warm_hub.cluster.publish(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "somebody"},
            "spec": {**busy, "containers": [{"name": "c", "image": "example/notebook:1", "resources": resources}]},
        }
    )
    await warm_hub.cluster.wait_running("somebody")
    assert await warm_hub.spawn("ada") is None
    assert (await warm_hub.pod("ada"))["spec"]["nodeName"] == "node-b"
    assert await warm_hub.spawn("bob") is None
    assert await warm_hub.spawn("cyd") is None
    nodes = {(await warm_hub.pod(user))["spec"]["nodeName"] for user in ("bob", "cyd")}
    assert nodes == {"node-a", "node-b"}
    for user in ("ada", "bob", "cyd"):
        await warm_hub.stop(user)


@pytest.mark.promise("A node that an administrator drains gets no new server.")
async def test_a_drained_node_gets_no_server_until_the_order_ends(warm_hub_on_either):
    """Four of four servers start elsewhere or wait, although the drained node has most capacity; no service answers."""
    warm_hub = warm_hub_on_either
    for name, number, more in (("node-a", 4, {names.DRAINING: names.ORDERED}), ("node-b", 2, {})):
        objects = node(name, *(whole(f"gpu-{each}") for each in range(number)))
        objects[0]["metadata"]["labels"] |= {names.IMAGES_READY: "true", **more}
        await warm_hub.cluster.publish(*objects)
    path, ends = "/api/v1/nodes/node-a", "2036-11-29T14:00:00+00:00"
    warm_hub.service.settings = {"items": [{"kind": "draining", "name": "node-a", "until": ends}]}
    until = "taken out of use by an administrator until 2036-11-29 14:00 UTC."
    for user in ("ada", "bob"):
        assert await warm_hub.spawn(user) is None
        assert (await warm_hub.pod(user))["spec"]["nodeName"] == "node-b"
    waiting = [asyncio.create_task(warm_hub.spawn(user)) for user in ("cyd", "dan")]

    def are_told_why() -> bool:
        return all(until in " ".join(warm_hub.said(user)) for user in ("cyd", "dan"))

    await eventually(are_told_why, "both servers wait, and say why", shows=lambda: warm_hub.said("cyd"))
    await warm_hub.cluster.admin.patch(path, {"metadata": {"labels": {names.DRAINING: None}}})
    assert await asyncio.gather(*waiting) == [None, None]
    for user in ("cyd", "dan"):
        assert (await warm_hub.pod(user))["spec"]["nodeName"] == "node-a"
    for user in ("ada", "bob", "cyd", "dan"):
        await warm_hub.stop(user)


async def test_an_order_that_comes_after_the_reservation_ends_the_handover(warm_hub_on_either):
    """The server names a warm claim of a node that is drained meanwhile: it starts on another node."""
    warm_hub = warm_hub_on_either
    async with warm_hub.with_placeholders(1, gpus=1) as world:
        await warm_hub.cluster.publish(*node("node-b", whole("gpu-0"), whole("gpu-1")))
        answer_of_service = warm_hub.service.answer

        async def answer(question):
            answered = await answer_of_service(question)
            world.policy = replace(world.policy, drained={"node-a": "set by user eve"})
            world.reconciler.wake()
            await world.until(lambda: world.labelled(names.DRAINING) == ["node-a"])
            return answered

        warm_hub.service.answer = answer
        assert await warm_hub.spawn() is None
        assert (await warm_hub.pod())["spec"]["nodeName"] == "node-b"
        await warm_hub.stop_last()


async def test_ten_starts_at_once_with_three_placeholders(warm_hub):
    """At least three starts get a warm claim, the others make their own. Each user has a share of their own."""
    config = warm_hub.side.spawner_config
    config.device_claims = SHARE
    # No start may fail here, however busy the machine is.
    config.start_timeout = 90
    config.k8s_api_request_timeout = config.k8s_api_request_retry_timeout = config.placement_wait_seconds = 30
    await warm_hub.cluster.publish(*node("node-a", *(shareable(f"gpu-{index}") for index in range(4))))
    users = [f"user-{index}" for index in range(10)]
    async with warm_hub.with_placeholders(3):
        assert await asyncio.gather(*(warm_hub.spawn(user) for user in users)) == [None] * 10
        claims = [await warm_hub.claim_of(user) for user in users]
        assert len({claim["metadata"]["uid"] for claim in claims}) == 10
        for user, claim in zip(users, claims, strict=True):
            assert f"jupyter-{user}" in pods_of(claim)
        taken = [claim for claim in claims if names.RESERVED_FOR in claim["metadata"]["labels"]]
        # During the starts, new placeholders get warm, and further starts get their claims, too.
        assert len(taken) >= 3
        await asyncio.gather(*(warm_hub.stop(user) for user in users))
        await warm_hub.only_placeholders_are_left()


async def test_a_hub_is_killed_after_a_start_acquired_a_warm_claim(warm_hub):
    """After the end of the start, the next hub's sweep deletes the claim that the start acquired, and nothing else."""
    async with warm_hub.with_placeholders(2, gpus=2):
        answer = await warm_hub.reserve_for("jupyter-ada")
        user = warm_hub.user()
        await user.spawner.load_user_options()
        await user.spawner.get_pod_manifest()
        objects = parts_of(user.spawner).start.attempt.objects
        reservation_labels = {names.RESERVED_FOR: "jupyter-ada", names.SHAPE: warm_hub.shape.id}
        await objects.acquire_warm_claims(answer["claims"], reservation_labels)
        api, namespace = warm_hub.cluster.admin, warm_hub.cluster.namespace
        before = Sweep(api, namespace, timedelta(0), objects.ends - timedelta(seconds=1))
        await before.run()
        assert (before.done, before.errors) == ([], [])
        after = Sweep(api, namespace, timedelta(0), objects.ends + timedelta(seconds=1))
        await after.run()
        (claim,) = answer["claims"].values()
        assert (after.done, after.errors) == ([f"deleted {CLAIMS} {namespace}/{claim}"], [])
        await warm_hub.only_placeholders_are_left()


FAULTS = {
    "refused connection": Fault.refuse(),
    "lost answer": Fault.lose_answer(),
    "done without answer": Fault.hold_answer(),
    "forbidden": Fault.answer(403, "Forbidden", "no"),
    "conflict": Fault.answer(409, "Conflict"),
    "invalid": Fault.answer(422, "Invalid"),
    "internal error": Fault.answer(500, "InternalError"),
}
REQUESTS = {
    "acquire claim": ("patch", CLAIMS, 1),
    "create pod": ("create", "pods", 1),
    "set owner": ("patch", CLAIMS, 2),
}


async def test_one_failed_request(warm_hub):
    """Each fault at each request: users of one hub at the same time, with a placeholder each."""
    rows = {
        f"{name} at {step}": (fault, *request) for name, fault in FAULTS.items() for step, request in REQUESTS.items()
    }
    without_patience(warm_hub.side)

    async def start(user, fault, verb, resource, nth):
        met = warm_hub.fail_for(user, fault, verb, resource, nth=nth)
        await warm_hub.start_and_stop(user)
        assert len(met) >= nth, "the fault must occur"

    async def start_again(user, *_):
        assert await warm_hub.spawn(user) is None, "the next start works"
        await warm_hub.stop(user)

    async with warm_hub.with_placeholders(len(rows), reservation_seconds=15, gpus=2 * len(rows)) as world:
        for work in (start, start_again):
            await with_a_user_each(rows, work)
            warm_hub.proxy.heal()
            await warm_hub.only_placeholders_are_left()
            await world.until(lambda: len(world.warm(warm_hub.shape)) == len(rows))


@pytest.mark.promise("A reservation that has ended is not used.")
async def test_a_reservation_that_has_ended_is_not_used(warm_hub):
    async with warm_hub.with_placeholders(1, gpus=2):
        reserve = warm_hub.service.answer

        async def ended(question):
            answer = await reserve(question)
            return {**answer, "until": (datetime.now(UTC) + timedelta(seconds=1.9)).isoformat()}

        warm_hub.service.answer = ended
        assert await warm_hub.spawn() is None
        pod = await warm_hub.pod()
        assert "resourceClaimTemplateName" in pod["spec"]["resourceClaims"][0]
        await warm_hub.stop()


async def test_a_reservation_ends_before_the_pod_is_made(warm_hub, monkeypatch):
    """An older pod of the same name ends slowly; meanwhile the reservation ends. The server gets a claim of its own."""
    async with warm_hub.with_placeholders(1, gpus=2) as world:
        monkeypatch.setattr(placement, "datetime", ClockAhead)

        def is_slow(request: Request) -> bool:
            # KubeSpawner tries again until the pod is gone, and the time goes ahead once.
            is_older = (request.verb, request.resource) == ("delete", "pods") and not ClockAhead.ahead
            if is_older:
                monkeypatch.setattr(ClockAhead, "ahead", 2 * world.policy.grace.reservation)
                asyncio.get_running_loop().call_later(0.1, advance_clock, 25)  # longer than a request may take
            return is_older

        await warm_hub.cluster.publish(OLDER_POD)
        warm_hub.proxy.fail(Fault.hold(), matching=is_slow)
        assert await warm_hub.spawn() is None
        assert warm_hub.said()[:2] == [
            "A device was reserved for you on machine node-a.",
            "The reservation for this server has ended; it gets a device of its own.",
        ]
        pod = await warm_hub.pod()
        assert "resourceClaimTemplateName" in pod["spec"]["resourceClaims"][0]
        await warm_hub.stop_last()


async def test_a_pod_of_that_name_is_there_already(warm_hub):
    """KubeSpawner removes the older pod and tries again, with the warm claim."""
    async with warm_hub.with_placeholders(1, gpus=1):
        await warm_hub.cluster.publish(OLDER_POD)
        assert await warm_hub.spawn() is None
        assert names.RESERVED_FOR in (await warm_hub.claim_of())["metadata"]["labels"]
        await warm_hub.stop_last()


async def test_the_pod_after_a_lost_answer_has_a_claim_of_its_own(warm_hub):
    """The answer to the creation of a pod is lost. The next pod has a claim of its own; the warm claim is deleted."""
    async with warm_hub.with_placeholders(1, gpus=2):
        warm_hub.proxy.fail(Fault.lose_answer(), verb="create", resource="pods")
        assert await warm_hub.spawn() is None
        assert "resourceClaimTemplateName" in (await warm_hub.pod())["spec"]["resourceClaims"][0]
        await warm_hub.stop_last()


@pytest.mark.parametrize("reserved_for", ["", "jupyter-eve"], ids=["not reserved", "reserved for another"])
async def test_a_claim_that_is_not_reserved_for_the_server_is_left_alone(warm_hub, reserved_for):
    """Even if an attacker answers instead of the service, no claim of others is used, changed or deleted."""
    await warm_hub.cluster.publish(*node("node-a", whole("gpu-0"), whole("gpu-1")))
    shape = await warm_hub.shape_of_servers()
    marks = {names.SHAPE: shape.id, **({names.RESERVED_FOR: reserved_for} if reserved_for else {})}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "team-gpu", "labels": marks},
        "spec": shape.claims["gpu"],
    }
    (before,) = await warm_hub.cluster.publish(claim)
    node_a = {"apiVersion": "v1", "metadata": {"labels": {names.IMAGES_READY: "true"}}}
    await warm_hub.cluster.admin.patch("/api/v1/nodes/node-a", node_a)
    until = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    warm_hub.service.always({"state": "ready", "node": "node-a", "claims": {"gpu": "team-gpu"}, "until": until})
    assert await warm_hub.spawn() is None
    assert "resourceClaimTemplateName" in (await warm_hub.pod())["spec"]["resourceClaims"][0]
    await warm_hub.stop()
    after = await warm_hub.cluster.admin.get(warm_hub.cluster.path(CLAIMS, "team-gpu"))
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_claims_stay_in_their_namespace(warm_hub):
    """With a namespace for each user there is no handover, whatever the service answers."""
    async with warm_hub.with_placeholders(1, gpus=2):
        spawner = warm_hub.user().spawner
        spawner.enable_user_namespaces = True
        await spawner.load_user_options()
        pod = await spawner.get_pod_manifest()
        before = list(pod.spec.resource_claims)
        await parts_of(spawner).start.attempt.prepare_request(pod)
        assert pod.spec.resource_claims == before
        assert warm_hub.service.questions[-1]["namespace"] == spawner.namespace


@pytest.mark.parametrize("when", ["patch", "create"])
async def test_a_start_that_is_cancelled(warm_hub, when):
    async with warm_hub.with_placeholders(1, gpus=1):
        reached = asyncio.Event()

        def cancel(_) -> bool:
            reached.set()
            cancel_start(warm_hub.user().spawner)
            return True

        warm_hub.proxy.fail(
            Fault.lose_answer(), verb=when, resource={"patch": CLAIMS, "create": "pods"}[when], matching=cancel
        )
        spawning = asyncio.create_task(warm_hub.spawn())
        await asyncio.wait_for(reached.wait(), PATIENCE_SECONDS)
        with contextlib.suppress(asyncio.CancelledError):
            await spawning
        warm_hub.proxy.heal()
        await warm_hub.only_placeholders_are_left()


# --- full nodes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", [3, 5], ids=["fits beside", "full"])
async def test_a_service_that_ends_after_a_reservation(warm_hub, cpu):
    """The server starts with its claim and does not wait. No object stays that only a service could delete."""
    warm_hub.side.spawner_config.cpu_guarantee = cpu  # of 8
    async with warm_hub.with_placeholders(1, most=1, gpus=1):
        answer = await warm_hub.reserve_for("jupyter-ada")
    # From here on no reconciler decides, but the service still answers.
    warm_hub.service.always(answer)
    before = await warm_hub.cluster.admin.get(warm_hub.cluster.path(CLAIMS, answer["claims"]["gpu"]))
    assert [each["resource"] for each in before["status"]["reservedFor"]] == ["pods"]
    assert await warm_hub.spawn() is None
    claim = await warm_hub.claim_of()
    assert claim["metadata"]["uid"] == before["metadata"]["uid"]
    # The scheduler that preempts the placeholder may have freed the device for a moment.
    now, then = (each["status"]["allocation"]["devices"]["results"] for each in (claim, before))
    assert [each["device"] for each in now] == [each["device"] for each in then]
    assert "jupyter-ada" in pods_of(claim)
    await warm_hub.stop()
    async with warm_hub.with_placeholders(1, most=1):
        await warm_hub.only_placeholders_are_left()


@pytest.mark.promise("A handover works on a node that the placeholder fills.")
async def test_a_handover_on_a_node_that_a_placeholder_fills(warm_hub, monkeypatch):
    """The placeholder is deleted when the pod exists. The claim stays allocated during the handover."""

    def terminate(container: FakeContainer) -> None:
        asyncio.get_running_loop().call_later(4.5, container.exit, EXIT_CODE_TERMINATED)

    # The scheduler preempts the placeholder, too. It ends late, so that the service is in time on a busy machine.
    monkeypatch.setattr(FakeContainer, "terminate", terminate)
    warm_hub.side.spawner_config.cpu_guarantee = 5
    async with warm_hub.with_placeholders(1, gpus=1) as world:
        (placeholder,) = world.warm(warm_hub.shape)
        (warm_claim,) = placeholder.claims
        before = await warm_hub.cluster.admin.get(warm_hub.cluster.path(CLAIMS, warm_claim.name))
        assert await warm_hub.spawn() is None
        claim = await warm_hub.claim_of()
        assert claim["metadata"]["uid"] == before["metadata"]["uid"]
        assert claim["status"]["allocation"] == before["status"]["allocation"]
        assert "patch pods" not in warm_hub.requests()
        assert "schedulingGates" not in (await warm_hub.pod())["spec"]
        await warm_hub.only_the_pod_uses_it()
        await warm_hub.stop_last()


@pytest.mark.parametrize("fault", [Fault.lose_answer(), Fault.answer(403, "Forbidden", "no")], ids=["lost", "refused"])
async def test_a_failed_start_on_a_full_node_releases_its_device(warm_hub, fault):
    """The claim is deleted. Its reservation does not block the only device for the next server."""
    warm_hub.side.spawner_config.cpu_guarantee = 5
    async with warm_hub.with_placeholders(1, gpus=1) as world:
        warm_hub.proxy.fail(fault, verb="create", resource="pods")
        error = await warm_hub.spawn()
        assert warm_hub.proxy.count("create", "pods") >= 1
        if error is None:
            assert "resourceClaimTemplateName" in (await warm_hub.pod())["spec"]["resourceClaims"][0]
            await warm_hub.stop()
        warm_hub.proxy.heal()
        await warm_hub.only_placeholders_are_left()
        await world.until(lambda: len(world.warm(warm_hub.shape)) == 1)
        assert await warm_hub.spawn() is None
        await warm_hub.stop_last()
