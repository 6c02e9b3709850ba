"""Scale-ahead at work on the embedded cluster: the service decides as a replay of the same events does."""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.lifecycle import ActionKind
from dra_spawner.scale_ahead.controller.demand_settings import read_calendar_entries, read_demand
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.forecast import Forecast
from dra_spawner.scale_ahead.demand.minutes import datetime_of, minute_of
from dra_spawner.scale_ahead.demand.policies import ForecastDemand, Question
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.traces import Trace
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import node, shape
from tests.presence import present
from tests.service.replica import Replica, publish_settings, server_objects, set_up
from tests.service.virtual_replica import PATIENT, VirtualReplica, VirtualTime
from tests.virtual_time.api import VirtualTimeApi

PLAIN = shape({}, cpu="100m")
FLOOR, MAX = 4, 60
QUIET, BUSY, MINUTES = 12, 45, 68
#: Other than the defaults, so that both sides have to read them.
DEMAND = {"hit_rate": 0.95, "hold": 1.5, "node_lead_minutes": 9, "calendar_margin_minutes": 4}
ENTRY = {"users": "50 of cpu in total within 5 min", "begins": "2026-03-02 09:44", "minutes": 30, "name": "physics"}


class _Remembering:
    """The forecast, which remembers its answers."""

    name = "forecast"

    def __init__(self) -> None:
        self.made_forecasts: dict[int, Forecast] = {}

    def __call__(self, question: Question) -> Forecast:
        self.made_forecasts[question.now] = found = ForecastDemand()(question)
        return found


def trace_from(begin: int) -> Trace:
    """A quiet time in which nodes come, then launches, then a quiet time in which servers end."""
    random = Random(7)
    launches = [0] * QUIET + [int(random.expovariate(0.45)) for _ in range(BUSY - QUIET)] + [0] * (MINUTES - BUSY)
    lengths = [random.choice([3, 8, 20, 60]) for _ in range(sum(launches))]
    return Trace(begin, array("L", launches), array("l", lengths))


def replayed(trace: Trace) -> dict[int, Forecast]:
    """The forecast of the replay for each minute."""
    (entry,) = read_calendar_entries([ENTRY], UTC)
    begins = datetime_of(trace.begin)
    occurrences = tuple(entry.occurrences(begins, begins + timedelta(days=1), "calendar_entries"))
    policy, options = _Remembering(), read_demand(DEMAND)
    kind = NodeKind("cpu", 100, (options.node_lead,))
    result = replay(Scenario(trace, kind, occurrences, floor=FLOOR), policy, options.settings)
    assert result.waits == {0: trace.total}, "the events are only the same where no pod is pending"
    return policy.made_forecasts


@contextlib.asynccontextmanager
async def service_on(cluster: ClusterUnderTest, time: VirtualTime, **traits: Any) -> AsyncIterator[VirtualReplica]:
    """A leading service with one big node."""
    big = node("a")
    big[0]["status"]["capacity"] = {**big[0]["status"]["capacity"], "cpu": "1000", "pods": "1000"}
    await set_up(cluster, {"cpu": PLAIN}, *big)
    # An older node than the service gives no lead time.
    async with await VirtualTimeApi.connect(cluster.admin_kubeconfig, time.stamps) as api:
        await api.get(resource_path("v1", "nodes"))
    time.clock.jump_to(time.now() + timedelta(seconds=20))
    settings = {"placeholders": {"cpu": {"min": FLOOR, "max": MAX}}, "history": {"keep_days": 0}, **traits}
    async with cluster.fault_proxy() as proxy:
        running = VirtualReplica(cluster, time, proxy, settings, PATIENT)
        await running.start()
        try:
            await running.running.until(lambda: running.leads and running.running.controller.leads, "it leads")
            yield running
        finally:
            await running.stop()


def has(service: Replica, servers: set[str]) -> bool:
    """Whether it sees these servers on nodes, and no others."""
    users = service.controller.view().users.values()
    return {pod.name for pod in users} == servers and all(pod.node_name for pod in users)


async def jump(running: VirtualReplica, time: VirtualTime, moment: datetime) -> None:
    time.clock.jump_to(moment)
    running.note_jump()
    service = running.running
    await service.until(lambda: running.is_fresh, "the view of the cluster is fresh")
    service.controller.advance_forecasts()


async def test_the_service_decides_as_a_replay_of_the_same_events(embedded_cluster: ClusterUnderTest) -> None:
    """Each minute the same forecast with all of its inputs, and as many placeholders as the replay would have."""
    time = VirtualTime()
    settings = {"scale_ahead": "act", "demand": DEMAND, "calendar_entries": [ENTRY], "autoscaler": True}
    async with service_on(embedded_cluster, time, **settings) as running:
        service = running.running
        ahead = service.controller.scale_ahead
        await jump(running, time, datetime_of(minute_of(time.now()) + 1) + timedelta(seconds=1))
        demand = ahead.demand_of("cpu")
        assert demand is not None
        first = minute_of(time.now())
        # The first minute that it counts is the first of the trace.
        trace = trace_from(demand.record.counts.begin)
        expected = replayed(trace)
        lengths = iter(trace.lengths or ())
        leaving: dict[int, list[str]] = {}
        there: set[str] = set()
        made_forecasts: dict[int, Forecast] = {}
        for minute, launches in trace.since(first).minutes():
            for name in leaving.pop(minute, ()):
                there.remove(name)
                await embedded_cluster.admin.delete(embedded_cluster.path("pods", name), grace_period_seconds=0)
            for number in range(launches):
                name = f"server-{minute}-{number}"
                leaving.setdefault(minute + next(lengths), []).append(name)
                there.add(name)
                await embedded_cluster.publish(*server_objects(name, PLAIN, cpu="100m"))
            await service.until(lambda: has(service, there), f"{len(there)} servers")
            assert minute_of(time.now()) == minute, "the test is slower than a minute"
            await jump(running, time, datetime_of(minute + 1) + timedelta(seconds=1))
            made = ahead.forecasts["cpu"]
            made_forecasts[made.at] = made.forecast
            assert (made.at, made.forecast) == (minute + 1, expected[minute + 1])
            # The number of the replay, not the target of the service. One more than demand wants stays for ten minutes.
            wanted = expected[made.at].placeholders
            await service.until(
                lambda wanted=wanted: wanted <= len(service.placeholders()) <= wanted + 1,  # type: ignore[misc]
                f"{wanted} placeholders at {made.at - first} min",
            )
        assert list(made_forecasts.items()) == [(at, each) for at, each in expected.items() if at > first]
        made_because = [
            each.decision.reason
            for each in reversed(service.context.decisions.newest(1000))
            if each.decision.kind is ActionKind.CREATE_PLACEHOLDER
        ]
        reasons = list(dict.fromkeys(each.reason for each in expected.values()))
        order = [next((n for n, reason in enumerate(reasons) if f"({reason})" in each), None) for each in made_because]
        assert None not in order[FLOOR:], "the first ones are the configured floor's"
        # There was something to decide, up and down, and every input had its turn.
        numbers = [each.placeholders for each in made_forecasts.values()]
        assert len(set(numbers)) > 8
        assert numbers[-1] < max(numbers) - 5
        assert {each.decided_by.value for each in made_forecasts.values()} >= {"floor", "recent launches", "calendar"}


async def act_until(service: Replica, until: datetime) -> None:
    """An administrator lets forecasts be the targets for a time; pages and dialogs say each time what is so."""
    for page in ("placeholders-page", "calendar-page"):
        assert "Nothing is prepared for expected users:</b> scale-ahead only advises." in await service.get(page)
    calendar = await service.get("calendar-page")
    assert 'data-action-path="api/settings/acting"' in calendar
    assert "Nothing is prepared for them at present:</b> scale-ahead only advises." in calendar, "the dialog"
    assert "Nothing is prepared for its users as it is" in calendar, "the dialog"
    assert (await service.get_json("forecasts"))["expected"][0]["not_prepared_because"] == "scale-ahead only advises"
    status, answer, tag = await service.send("PUT", "settings/acting", {"until": until.isoformat(), "reason": "exam"})
    assert (status, answer["kind"], answer["name"]) == (200, "acting", "service"), answer
    await service.until(lambda: len(service.placeholders()) == 25, "the forecast is the target")
    answer = await service.get_json("forecasts")
    assert (answer["mode"], answer["expected"][0]["not_prepared_because"]) == ("act", None)
    for page in ("placeholders-page", "calendar-page"):
        text = await service.get(page)
        assert "Nothing is prepared:" not in text
        assert "Nothing is prepared for expected users" not in text
        assert "Forecasts are the targets</b> until" in text
        assert "set by user ada: exam. After that scale-ahead only advises." in text
    assert (await service.send("PUT", "settings/paused/cpu", {}))[0] == 200
    assert "Nothing is prepared: placeholders of cpu are paused." in await service.get("calendar-page")
    assert (await service.send("PUT", "settings/observing", {}))[0] == 200
    calendar = await service.get("calendar-page")
    assert "Nothing is prepared for expected users:</b> the service only observes, set by user ada." in calendar
    assert "<p data-held>Nothing of this is done at present: the service only observes" in calendar
    assert (await service.send("DELETE", "settings/observing"))[0] == 204
    assert (await service.send("DELETE", "settings/acting", None, **{"If-Match": tag}))[0] == 204
    assert "Nothing is prepared for expected users:</b> scale-ahead only advises." in await service.get("calendar-page")


async def test_the_page_and_the_api_show_the_advice(embedded_cluster: ClusterUnderTest) -> None:
    time = VirtualTime()
    soon = {
        **ENTRY,
        "users": "25 of cpu",
        "begins": "2026-03-02 10:10",
        "timezone": "Europe/Berlin",
        "name": "<b>physics</b>",
    }
    far = {**ENTRY, "begins": "2026-03-05 09:20", "name": "far away"}
    # The problem of this entry is reported a week ahead.
    lost = {**ENTRY, "users": "9 of gpu", "begins": "2026-03-08 09:20", "name": "lost"}
    async with service_on(embedded_cluster, time, calendar_entries=[soon, far, lost]) as running:
        service = running.running
        await jump(running, time, datetime_of(minute_of(time.now()) + 1) + timedelta(seconds=1))
        answer = await service.get_json("forecasts")
        (made,) = answer["items"]
        assert (answer["mode"], made["name"], made["target"], made["is_target"]) == ("advise", "cpu", 25, False)
        assert made["reason"] == "25 placeholders: calendar (<b>physics</b>: 25 to come)"
        assert [each["source"] for each in made["inputs"]] == [
            "recent launches", "past weeks", "recurring class", "a burst", "calendar", "pending spawns", "floor"
        ]  # fmt: skip
        assert [(each["name"], each["zone"], each["unusable_because"]) for each in answer["expected"]] == [
            ("<b>physics</b>", "CET", None),
            ("far away", "UTC", None),
            ("lost", "UTC", "the hub publishes no such choice"),
        ]
        problem = "calendar entry 'lost' of calendar_entries is about 'gpu', which has no placeholders"
        assert answer["problems"] == [problem]
        assert f"Scale-ahead: {problem}." in json.loads(await service.get("status"))["problems"]
        page, calendar = await service.get("placeholders-page"), await service.get("calendar-page")
        assert "&lt;b&gt;physics" in calendar
        assert "<b>physics" not in page + calendar
        assert "Forecasts are advice: targets stay as they are configured." in page
        assert "forecast 25: calendar (&lt;b&gt;physics&lt;/b&gt;: 25 to come)" in page
        assert "target 4, running" in page
        assert "Mon 2026-03-02 10:10 CET" in calendar, "in the zone of the entry"
        assert "Nothing is done for this entry: the hub publishes no such choice." in calendar
        assert [each for each in Source if f"<dt>{each}</dt>" not in page] == [], "each input is explained"
        await service.until(lambda: len(service.placeholders()) == FLOOR, "only what is configured")
        text = await service.get("metrics")
        assert 'dra_spawner_forecast_placeholders{profile="cpu"} 25.0' in text
        await act_until(service, time.now() + timedelta(hours=1))
        assert 'dra_spawner_placeholders_target{profile="cpu",source="forecast"} 25.0' in text


@pytest.mark.promise("A restart in the middle of a class removes no placeholder.")
async def test_a_restart_in_the_middle_of_a_class_removes_nothing(
    embedded_cluster: ClusterUnderTest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def terms() -> int:
        """How many leaders have read the history."""
        return caplog.text.count("Scale-ahead has learned")

    caplog.set_level("INFO", "dra_spawner.service.ahead.scale_ahead_runner")
    time = VirtualTime()
    soon = {**ENTRY, "users": "25 of cpu", "begins": "2026-03-02 09:10"}
    history = {"url": f"sqlite:///{tmp_path}/history.sqlite"}
    settings: dict[str, Any] = {"scale_ahead": "act", "calendar_entries": [soon], "history": history}
    async with service_on(embedded_cluster, time, **settings) as running:
        await running.running.until(lambda: terms() == 1, "it has read the history")
        await jump(running, time, datetime_of(minute_of(time.now()) + 1) + timedelta(seconds=1))
        await running.running.until(lambda: len(running.running.placeholders()) == 25, "those of the class")
        before = set(running.running.placeholders())
        learned = present(running.running.controller.scale_ahead.demand_of("cpu"))
        await running.stop()
        await running.start()
        await running.running.until(lambda: running.leads and running.running.controller.latest is not None, "it leads")
        await running.running.until(lambda: terms() == 2, "it has read the history")
        await jump(running, time, time.now() + timedelta(minutes=1))
        assert set(running.running.placeholders()) == before
        demand = present(running.running.controller.scale_ahead.demand_of("cpu"))
        assert demand.record.counts.begin == learned.record.counts.begin, "it goes on with what was learned"


@pytest.mark.promise("An administrator adds a class on the page, and the service prepares it.")
async def test_an_entry_that_an_administrator_adds(embedded_cluster: ClusterUnderTest) -> None:
    """It outlives the replica without a database."""
    time = VirtualTime()
    await publish_settings(embedded_cluster)
    soon = {"users": "25 of cpu", "begins": "2026-03-02 09:12"}
    async with service_on(embedded_cluster, time, scale_ahead="act") as running:

        async def ask(method: str, path: str, body: Any = None, match: str = "") -> tuple[int, Any]:
            headers = {"If-Match": match} if match else {}
            status, answer, tag = await running.running.send(method, path, body, **headers)
            tags.append(tag)
            return status, answer

        tags: list[str] = []
        status, refused = await ask("POST", "calendar-entries", {"users": "25 of cpu"})
        message = 'entry.begins: nothing found; allowed: a local time like "2026-11-24 17:00".'
        assert (status, refused["detail"]) == (400, message)
        assert (await ask("POST", "calendar-entries", {**soon, "users": "20 of cpu"}))[0] == 201
        _, answer = await ask("GET", "calendar-entries")
        ((name, written),) = [(each.pop("id"), each) for each in answer["items"]]
        added = {key: written[key] for key in ("by", "at")}
        assert (written, added["by"]) == ({**soon, **added, "users": "20 of cpu"}, "user ada")
        path = f"calendar-entries/{name}"
        assert await ask("GET", path) == (200, {"id": name, **written})
        tag = tags[-1]
        assert (await ask("PUT", path, soon, '"other"'))[0] == 412
        assert (await ask("PUT", path, {"users": "25 of cpu"}, tag))[0] == 400
        assert await ask("PUT", path, soon, tag) == (200, {"id": name, **soon, **added}), "who added it stays"
        assert (await ask("PUT", "calendar-entries/other", soon))[0] == 404
        assert (await ask("DELETE", path, match=tag))[0] == 412, "it is another version now"
        await jump(running, time, datetime_of(minute_of(time.now()) + 1) + timedelta(seconds=1))
        await running.running.until(lambda: len(running.running.placeholders()) == 25, "those of the class")
        await running.stop()
        await running.start()
        await running.running.until(lambda: running.leads and running.running.controller.latest is not None, "it leads")
        await running.running.until(lambda: bool(running.running.controller.scale_ahead.calendars.added), "it is read")
        await jump(running, time, time.now() + timedelta(minutes=1))
        assert len(running.running.placeholders()) == 25
        await ask("GET", path)
        assert (await ask("DELETE", path, match=tags[-1]))[0] == 204
        assert (await ask("DELETE", path))[0] == 404
        audit = (await ask("GET", "audit"))[1]["items"]
        changes = [(each["change"], each["subject"]) for each in audit]
        assert changes == [(change, f"calendar-entry {name}") for change in ("deleted", "set", "set")]
        assert (await ask("GET", "calendar-entries"))[1]["items"] == []
