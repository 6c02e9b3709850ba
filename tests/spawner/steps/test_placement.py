"""Changes of a pod by the service's answer; no answer, and no missing answer, makes a start fail."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import time

import pytest
from aiohttp import web

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.shape_definition import read_definition
from dra_spawner.spawner.placement.service import told_of_user
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.steps.placement import ServicePlacement
from dra_spawner.ticket_store.ticket_store import TicketsUnavailable
from tests.all_of_them import all_of_them
from tests.spawner.hub_side import HubSide
from tests.spawner.service_stand_in import TOKEN, ServiceStandIn, service_of_the_hub

GPU = {"device_class": "gpu.example.com", "capacity": {"memory": "10Gi"}}
READY = {"key": names.IMAGES_READY, "operator": "Exists"}
STAYING = {"matchExpressions": [{"key": names.DRAINING, "operator": "DoesNotExist"}]}


@pytest.fixture
async def service(nowhere):
    # A start waits one second, which is little on a busy machine.
    nowhere.spawner_config.placement_wait_seconds = 60
    async with ServiceStandIn().listening() as stand_in:
        with service_of_the_hub(stand_in.url):
            yield stand_in


def serialized(spawner, pod):
    return spawner.api.api_client.sanitize_for_serialization(pod)


async def placed(side: HubSide, **options):
    """The spawner, and its pod before and after the placement step."""
    spawner = side.user("ada").spawner
    spawner.user_options = options
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    before = copy.deepcopy(serialized(spawner, pod))
    await placement_of(spawner, pod)
    return spawner, before, serialized(spawner, pod)


async def placement_of(spawner, pod):
    """Let the step act, if it is there."""
    step = parts_of(spawner).start.attempt.step(ServicePlacement)
    if step is not None:
        await step.prepare_request(pod)


def required(pod):
    return pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]


@all_of_them("name", ["", "other"])
async def test_without_the_service_the_pod_is_as_ever(nowhere, service, name):
    """No request is made, nothing is labelled, nothing is required."""
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    nowhere.spawner_config.placeholder_service = name
    _, before, after = await placed(nowhere)
    assert after == before
    assert names.SHAPE not in str(after)
    assert service.questions == []


@all_of_them("url, token", [(None, ""), ("", TOKEN), ("http://127.0.0.1:1", "")])
async def test_without_a_hub_or_a_service_that_can_be_asked_the_pod_is_as_ever(nowhere, url, token):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    with contextlib.nullcontext() if url is None else service_of_the_hub(url, token):
        _, before, after = await placed(nowhere)
    assert after == before


async def test_the_question_about_a_published_shape(nowhere, service):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    nowhere.user("ada", "maths", "physics")
    _, before, after = await placed(nowhere)
    (question,) = service.questions
    shape = after["metadata"]["labels"][names.SHAPE]
    user = {"user": "ada", "groups": ["maths", "physics"]}
    assert question == {"shape": shape, "pod": "jupyter-ada", "namespace": "jupyterhub", **user}, "no definition"
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")


async def test_a_user_over_budget_reads_why_others_come_first(nowhere, service):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    note = "You have used 12 of your 10 device-hours in the last 7 days. No device is free at the moment."
    for answer, is_behind in (
        ({"state": "waits", "behind": True, "note": note}, True),
        ({"state": "after-preemption", "node": "node-a", "behind": True, "note": f"{note}\n\x00"}, True),
        ({"state": "waits", "behind": "yes", "note": note}, False),
        ({"state": "waits", "sentence": "All are in use.", "note": 5}, False),
    ):
        service.always(answer)
        spawner, _, after = await placed(nowhere)
        assert (after["metadata"]["labels"].get(names.BEHIND) == "true") is is_behind
        assert (parts_of(spawner).page.progress.messages.line() == note) is is_behind


@all_of_them("known", [("user", "groups"), ()])
async def test_an_older_service_is_asked_without_what_it_does_not_know(nowhere, service, monkeypatch, known):
    allowed = {"shape", "pod", "namespace", *known}

    async def answer(question):
        if newer := sorted(question.keys() - allowed):
            return web.json_response({"detail": f"{newer[0]}: not known; allowed: shape, pod, namespace"}, status=400)
        return {"state": "free", "node": "node-a"}

    monkeypatch.setattr("dra_spawner.spawner.ticket_access.tickets_of", lambda server: _Queue(("gpu",)))
    nowhere.spawner_config.tickets = True
    service.answer = answer
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    _, _, after = await placed(nowhere)
    assert "node-a" in str(after["spec"]["affinity"])
    assert service.questions[-1].keys() == allowed


async def test_a_user_in_very_many_groups_still_gets_a_placement(nowhere, service):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    groups = [f"{number}-{'€' * 200}" for number in range(1_100)]
    told = told_of_user("ada", [*groups, "x" * 300])
    assert 0 < len(told["groups"]) <= 1_000
    assert len(json.dumps(told)) < 2**16
    assert told_of_user("ada", map(str, range(1_000)))["groups"] == [*map(str, range(1_000))]
    assert told_of_user("a" * 256, ()) == {}


async def test_a_service_gets_the_definition_of_an_unknown_shape(nowhere, service):
    """The pod has the definition, too, for the replica that leads while the pod is pending."""

    async def answer(question):
        if "definition" not in question:
            return web.json_response({"kind": "unknown", "message": "The hub does not publish this shape."}, status=404)
        return {"state": "waits"}

    service.answer = answer
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    nowhere.spawner_config.node_selector = {"pool": "gpus"}
    _, before, after = await placed(nowhere)
    first, second = service.questions
    definition = second.pop("definition")
    assert first == second
    assert read_definition(definition, first["shape"]).node_fields == {"nodeSelector": {"pool": "gpus"}}
    annotations = {**before["metadata"].get("annotations", {}), names.DEFINITION: definition}
    assert after["metadata"]["annotations"] == annotations
    assert required(after) == {"nodeSelectorTerms": [{"matchExpressions": [READY]}]}


async def test_no_node_is_asked_for_devices_that_a_server_can_do_without(nowhere, service):
    async def answer(question):
        return {"state": "free"} if "definition" in question else web.json_response({"kind": "unknown"}, status=404)

    service.answer = answer
    nowhere.spawner_config.device_claims = {"gpu": {**GPU, "optional": True}}
    spawner = nowhere.user("ada").spawner
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    await placement_of(spawner, pod)
    assert len(service.questions) == 2
    assert names.DEFINITION not in (pod.metadata.annotations or {})


async def test_fresh_goes_to_a_ready_node_best_to_the_one_that_is_named(nowhere, service):
    service.always({"state": "free", "node": "node-a"})
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    nowhere.spawner_config.node_affinity_required = [zone]
    nowhere.spawner_config.node_affinity_preferred = [{"weight": 5, "preference": zone}]
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    _, before, after = await placed(nowhere)
    affinity = after["spec"]["affinity"]["nodeAffinity"]
    assert affinity == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [*zone["matchExpressions"], READY]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]},
            },
            {"weight": 20, "preference": STAYING},
            {"weight": 5, "preference": zone},
        ],
    }
    assert after["spec"]["resourceClaims"] == before["spec"]["resourceClaims"]
    assert "schedulingGates" not in after["spec"]


UUID = {"driver": "gpu.example.com", "attributes": {"gpu.example.com/uuid": "GPU-1"}}
PREFERRED = {"state": "free", "node": "node-a", "preferences": {"gpu": {"gpu": [[UUID]]}}}


def claims_of(spawner):
    """The requests of the claims that the pod's templates make."""
    templates = parts_of(spawner).start.attempt.objects.templates
    return {entry: each["spec"]["spec"]["devices"]["requests"] for entry, each in templates.items()}


async def test_claims_prefer_the_devices_of_the_answer(nowhere, service):
    service.always(PREFERRED)
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    spawner, before, after = await placed(nowhere)
    (request,) = claims_of(spawner)["gpu"]
    assert [each["name"] for each in request["firstAvailable"]] == ["preferred", "any"]
    assert all(each["capacity"] == {"requests": {"memory": "10Gi"}} for each in request["firstAvailable"])
    assert after["spec"]["resourceClaims"] == before["spec"]["resourceClaims"]


@all_of_them(
    "answer, config",
    {
        "no preference": ({"state": "free", "node": "node-a"}, {}),
        "a pod in a queue": (PREFERRED, {"extra_labels": {names.KUEUE_QUEUE: "lab"}}),
        "a pod with a gate": (PREFERRED, {"extra_pod_config": {"schedulingGates": [{"name": "a.b/c"}]}}),
        "another request": ({**PREFERRED, "preferences": {"gpu": {"nic": [[UUID]]}}}, {}),
        "another claim": ({**PREFERRED, "preferences": {"nic": {"gpu": [[UUID]]}}}, {}),
        "no device": ({**PREFERRED, "preferences": {"gpu": {"gpu": [[]]}}}, {}),
        "a list of its own": (PREFERRED, {"device_claims": {"gpu": {"requests": {"gpu": {"first_available": {"a": {"device_class": "gpu.example.com"}}}}}}}),
    },
)  # fmt: skip
async def test_claims_stay_as_they_are(nowhere, service, answer, config):
    service.always(answer)
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    nowhere.spawner_config.extra_labels = {}
    nowhere.spawner_config.extra_pod_config = {}
    for name, value in config.items():
        nowhere.spawner_config[name] = value
    spawner, _, _ = await placed(nowhere)
    (request,) = claims_of(spawner)["gpu"]
    assert [each["name"] for each in request.get("firstAvailable", ())] in ([], ["a"])


async def test_gates_of_a_profile_stay(nowhere, service):
    service.always({"state": "free", "node": "node-a"})
    nowhere.spawner_config.extra_pod_config = {"schedulingGates": [{"name": "example.com/quota"}]}
    _, before, after = await placed(nowhere)
    assert before["spec"]["schedulingGates"] == after["spec"]["schedulingGates"] == [{"name": "example.com/quota"}]


@all_of_them(
    "answer, sentences",
    [
        ({"state": "ready", "node": "node-a"}, ["CPU and memory were reserved for you on machine node-a."]),
        ({"state": "after-preemption", "node": "node-a", "sentence": "It is freed."}, ["It is freed."]),
        ({"state": "waits", "sentence": "All are in use. One\nmust end."}, ["All are in use. One must end."]),
        ({"state": "free", "reason": "free"}, []),
    ],
)  # fmt: skip
async def test_sentences_for_the_user(nowhere, service, answer, sentences):
    service.always({"reason": "x", **answer})
    spawner, _, after = await placed(nowhere)
    assert [event["message"] for event in parts_of(spawner).page.progress.messages.with_events([])] == sentences
    assert required(after) == {"nodeSelectorTerms": [{"matchExpressions": [READY]}]}


NEVER = "It can never start: it asks for more memory or processors than any machine has."


@pytest.mark.promise("A server that can never run is refused at once, with the reason.")
async def test_never_is_refused_at_once_with_the_reason(nowhere, service):
    service.always(
        {"state": "never", "sentence": NEVER, "reason": "no node of this cluster can run it: too much CPU (3 nodes)"}
    )
    with pytest.raises(SpawnRefused) as refused:
        await placed(nowhere)
    assert refused.value.jupyterhub_message == NEVER, "the reason with its nodes is for the log"
    assert refused.value.status_code == 400


async def never_ends(_):
    await asyncio.Event().wait()


async def trickles(_):
    """A byte now and then keeps no limit at bay."""
    return web.Response(body=_slowly())


async def _slowly():
    while True:
        yield b" "
        await asyncio.sleep(0.05)


NONSENSE = {
    "no JSON": web.Response(text="<html>"),
    "a list": web.json_response([]),
    "deep": web.Response(text="[" * 60_000),
    "too much": web.Response(text=" " * 2**17 + '{"state": "free"}'),
    "binary": web.Response(body=b"\xff\xfe\x00"),
    "500": web.json_response({"message": "oh"}, status=500),
    "503 of a standby": web.json_response({"status": 503, "message": "This replica does not lead."}, status=503),
    "a wrong address": web.json_response({"status": 404, "detail": "There is nothing at this address."}, status=404),
    "404": web.json_response({"kind": "unknown", "status": 404, "message": "not published"}, status=404),
    "401": web.json_response({"message": 7}, status=401),
    "elsewhere": web.Response(status=307, headers={"Location": "http://127.0.0.1:1/"}),
    "another's claim, path": web.json_response({"state": "ready", "claims": {"gpu": "../../x"}, "until": 1}),
    "an unknown entry": web.json_response({"state": "ready", "claims": {"nic": "x"}, "until": 1}),
    "an older service's gate": web.json_response(
        {"state": "ready", "claims": {"gpu": "x"}, "until": 1, "gates": ["hub.jupyter.org/handover"]}
    ),
    "a node of markup": web.json_response({"state": "free", "node": "<b>"}),
}


@all_of_them("response", NONSENSE)
async def test_an_answer_that_makes_no_sense_changes_nothing(nowhere, service, response):
    service.always(lambda: copy.copy(response))
    service.questions.clear()
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    _, before, after = await placed(nowhere)
    # A service that does not know the shape gets its definition, once.
    assert len(service.questions) == (2 if response.status == 404 and b"unknown" in response.body else 1)
    del after["metadata"]["labels"][names.SHAPE]
    assert after == before


async def test_a_wrong_address_is_reported(nowhere, service, capfd):
    service.always(lambda: web.json_response({"detail": "There is nothing at this address."}, status=404))
    await placed(nowhere)
    (warning,) = [line for line in capfd.readouterr().err.splitlines() if "gave no placement" in line]
    assert "it answers 404: 'There is nothing at this address.'; its url or prefix in the hub's services is" in warning


@all_of_them("answer", [never_ends, trickles])
async def test_the_service_has_a_second(nowhere, service, answer):
    nowhere.spawner_config.pop("placement_wait_seconds", None)  # the default
    service.answer = answer
    begun = time.monotonic()
    async with asyncio.timeout(60):
        _, before, after = await placed(nowhere)
    assert time.monotonic() - begun > 0.9
    assert after["spec"] == before["spec"]


@pytest.mark.promise("A start works while the service is away.")
async def test_a_service_that_is_away(nowhere):
    with service_of_the_hub("http://127.0.0.1:1"):
        _, before, after = await placed(nowhere)
    assert after["spec"] == before["spec"]


async def test_the_service_is_asked_once_for_a_start(nowhere, service):
    spawner, _, _ = await placed(nowhere)
    pod = await spawner.get_pod_manifest()
    for _ in range(3):
        await placement_of(spawner, pod)
    assert len(service.questions) == 1


async def test_servers_with_shared_claims_ask_for_no_placement(nowhere, service):
    nowhere.spawner_config.device_claims = {"gpu": GPU, "team": {"claim": "team-gpu"}}
    _, before, after = await placed(nowhere)
    assert (after, service.questions) == (before, [])


async def test_changes_of_a_hook_count(nowhere, service):
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    await placed(nowhere)
    spawner = nowhere.user("bob").spawner
    await spawner.load_user_options()
    pod = await spawner.get_pod_manifest()
    pod.spec.node_selector = {"pool": "other"}
    await placement_of(spawner, pod)
    assert service.questions[0]["shape"] != service.questions[1]["shape"]


@all_of_them(
    "joins, before, sentence",
    {
        "without the setting": (None, 2, ""),
        "others are first": ((), 2, "2 persons wait for such a device already."),
        "nobody is first": ((), 0, ""),
        "with a ticket": (("gpu",), 0, ""),
        "tickets cannot be read": (TicketsUnavailable("away"), 0, ""),
        "tickets cannot be read, and a device may be held": (
            TicketsUnavailable("away"),
            2,
            "Your place in the queue is not known now. Please try again in a minute.",
        ),
    },
)
async def test_a_start_sends_tickets_and_lets_others_go_first(nowhere, service, monkeypatch, joins, before, sentence):
    queue = _Queue(joins)
    monkeypatch.setattr("dra_spawner.spawner.ticket_access.tickets_of", lambda server: queue)
    nowhere.spawner_config.device_claims = {"gpu": GPU}
    nowhere.spawner_config.tickets = joins is not None
    service.questions.clear()
    waits = {"state": "waits", "sentence": "2 persons wait for such a device already.", "before": before}
    service.always(waits if before else {"state": "free"})
    if sentence:
        with pytest.raises(SpawnRefused) as refused:
            await placed(nowhere)
        assert (refused.value.refusal, sentence in str(refused.value)) == (RefusalReason.QUEUE, True)
    else:
        await placed(nowhere)
    (question,) = service.questions
    sent = ["0123456789abcdef"] if joins == ("gpu",) else None
    assert question.get("tickets") == sent


class _Queue:
    """A queue with these tickets of each user, or that cannot be read."""

    def __init__(self, joins):
        self._joins = joins

    async def take(self, user):
        assert user == "ada"
        if isinstance(self._joins, Exception):
            raise self._joins
        return tuple("0123456789abcdef" for _ in self._joins or ())
