"""How long a failed start looks for what would start now, and what a page says while a server waits."""

import asyncio
from types import SimpleNamespace

from kubespawner import KubeSpawner
from kubespawner.spawner import EventReflector

from dra_spawner.spawner.free_choices import FreeChoice
from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from tests.all_of_them import all_of_them
from tests.polling import eventually

FREE = FreeChoice("GPU slice, 5 GiB", {"profile": "slice"}, "slice")


@all_of_them(
    "answer_after, jupyterhub_waits, is_told",
    {
        "as long as JupyterHub waits": (1.3, 60.0, True),
        "a second in any case": (0.1, 0.0, True),
        "not longer": (60.0, 0.0, False),
    },
)
async def test_a_free_choice_is_told_if_it_is_found_in_time(nowhere, answer_after, jupyterhub_waits, is_told):
    spawner = nowhere.user("ada").spawner
    refusal = SpawnRefused("All devices are in use.", RefusalReason.TIMEOUT, 503)
    loop = asyncio.get_running_loop()

    async def search():
        found = loop.create_future()
        loop.call_later(answer_after, found.set_result, [FREE])
        return await found

    await parts_of(spawner).page.explain_failure(refusal, asyncio.create_task(search()), loop.time() + jupyterhub_waits)
    assert ("GPU slice, 5 GiB" in refusal.jupyterhub_html_message) is is_told
    assert "All devices are in use." in refusal.jupyterhub_html_message


WAITING = {"metadata": {"name": "jupyter-ada"}, "spec": {}}


@all_of_them(
    "seconds, pod, waits",
    {
        "from the tenth second on": (10.0, WAITING, True),
        "not earlier": (5.0, WAITING, False),
        "not in its place": (60.0, {**WAITING, "spec": {"nodeName": "node-a"}}, False),
        "not without a pod": (60.0, {}, False),
    },
)
async def test_other_choices_are_offered(nowhere, seconds, pod, waits):
    page = parts_of(nowhere.user("ada").spawner).page
    assert not page.is_waiting(), "nothing has begun"
    progress = page.begin()
    progress.began -= seconds
    progress.pod = pod
    assert page.is_waiting() is waits


async def test_the_page_says_that_the_cluster_does_not_answer(nowhere, monkeypatch):
    """What it says of the start, and of other servers, may be old then."""
    spawner = nowhere.user("ada").spawner
    page = parts_of(spawner).page
    progress = page.begin()
    progress.messages.notify("All devices of this kind are in use.")
    answers: list[bool] = []
    monkeypatch.setattr(KubeSpawner, "pod_reflector", SimpleNamespace(is_silent=lambda: answers[-1], pods={}))
    for is_silent in (False, True, False):
        answers.append(is_silent)
        assert ("The cluster does not answer at the moment" in page.line()) is is_silent
        assert page.line().startswith("All devices of this kind are in use.")


async def test_an_error_of_a_profile_list_offers_nothing(nowhere, caplog):
    def broken(spawner):
        raise RuntimeError("no list today")

    nowhere.spawner_config.profile_list = broken
    parts = parts_of(nowhere.user("ada").spawner)
    progress = parts.page.begin()
    progress.began -= 60
    progress.pod = WAITING
    for _ in range(2):
        assert await parts.page.while_waiting(parts.form) == {"usual": "", "offers": []}
        # The search runs beside.
        await eventually(lambda: "No other choice can be offered" in caplog.text, "the search has failed")
    assert caplog.text.count("No other choice can be offered") == 1


def event(uid, second, pod="jupyter-ada", exact=None):
    return {
        "metadata": {"uid": uid},
        "involvedObject": {"name": pod},
        "reason": "Scheduled",
        "message": uid,
        "lastTimestamp": f"2026-01-01T00:00:{second:02}Z" if second else None,
        "eventTime": exact,
    }


class OfOneMoment(EventReflector):
    """Events of all servers, as the watch has them."""

    def __init__(self, events):
        self.resources = {each["metadata"]["uid"]: each for each in events}


class Unsorted(OfOneMoment):
    """To sort the events of all servers takes long."""

    events = property(lambda self: 1 / 0)


@all_of_them("before", [None, "b", "gone"])
async def test_the_events_of_a_pod_are_as_in_kubespawner(nowhere, monkeypatch, before):
    found = [event("c", 3), event("b", 2), event("of bob", 1, "jupyter-bob"), event("a", 1), event("d", 3)]
    found.append(event("e", 0, exact="2026-01-01T00:00:04.5Z"))
    spawner = nowhere.user("ada").spawner
    monkeypatch.setattr(KubeSpawner, "event_reflector", OfOneMoment(found))
    parts_of(spawner).page.event_before = before
    expected = KubeSpawner.events.fget(spawner)
    monkeypatch.setattr(KubeSpawner, "event_reflector", Unsorted(found))
    assert spawner.events == expected
    assert [each["message"] for each in expected] == (["c", "d", "e"] if before == "b" else ["a", "b", "c", "d", "e"])


async def test_an_event_without_a_time_ends_no_start(nowhere, monkeypatch):
    """Writers of events may leave out each of the three times."""
    found = [event("b", 2), {**event("a", 0), "lastTimestamp": None, "eventTime": None, "firstTimestamp": None}]
    del (without := event("c", 1))["lastTimestamp"]
    spawner = nowhere.user("ada").spawner
    monkeypatch.setattr(KubeSpawner, "event_reflector", OfOneMoment([*found, without]))
    assert [each["message"] for each in spawner.events][-1] == "b"
    assert len(spawner.events) == 3
