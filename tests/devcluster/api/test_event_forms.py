"""Events in both forms, on the embedded API server as on a real one; and how long the embedded one has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from dra_spawner.devcluster.api import resource_types as types
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.event_lifetime import LIFETIME, MAX_EVENTS
from dra_spawner.devcluster.api.storage.store import Store

from .fidelity import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Side

CORE = "/api/v1/namespaces/{ns}/events"
GROUP = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
_TIME = "2026-05-01T10:00:00.000001Z"
_SERIES = {"count": 2, "lastObservedTime": _TIME}


def new_event(name: str = "x", **changes: Any) -> dict[str, Any]:
    """An Event of ``events.k8s.io/v1``; a change to None leaves a field out."""
    event = {
        "metadata": {"name": name},
        "eventTime": _TIME,
        "reportingController": "example.com/controller",
        "reportingInstance": "controller-0",
        "action": "HandOver",
        "reason": "HandedOver",
        "type": "Normal",
        "note": "The claim is handed over.",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "{ns}", "name": "ada", "uid": "uid-ada"},
        **changes,
    }
    return {field: value for field, value in event.items() if value is not None}


def old_event(name: str = "y", **changes: Any) -> dict[str, Any]:
    """An Event of ``v1``, as old clients write it."""
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "{ns}", "name": "eve", "fieldPath": "spec.containers{c}"},
        "reason": "Started",
        "message": "Started container",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-05-01T10:00:00Z",
        "lastTimestamp": "2026-05-01T10:00:01Z",
        "count": 2,
        "type": "Normal",
        **changes,
    }


async def test_one_object_has_two_forms(sides: tuple[Side, Side]) -> None:
    for side in sides:
        await side.ask("POST", GROUP, new_event())
        await side.ask("POST", CORE, old_event())
        await side.ask("POST", CORE, new_event())
        await side.send("POST", GROUP, new_event("z", regarding={"kind": "Pod", "namespace": side.namespace}))
        for name in ("x", "y", "none"):
            for path in (CORE, GROUP):
                await side.ask("GET", f"{path}/{name}")
        await side.ask("PATCH", f"{GROUP}/x", {"series": _SERIES}, content_type=STRATEGIC_PATCH)
        await side.ask("PATCH", f"{GROUP}/x", {"series": {"count": 3}}, content_type=MERGE_PATCH)
        await side.ask("PATCH", f"{GROUP}/x", {"series": {"count": 1}}, content_type=MERGE_PATCH)
        count = [{"op": "replace", "path": "/series/count", "value": 4}]
        await side.ask("PATCH", f"{GROUP}/x", count, content_type=JSON_PATCH)
        await side.ask("PATCH", f"{CORE}/x", {"message": "Another one."}, content_type=MERGE_PATCH)
        current = await side.ask("GET", f"{GROUP}/x")
        await side.ask("PUT", f"{GROUP}/x", {**current, "series": {**_SERIES, "count": 5}})
        await side.ask("PUT", f"{GROUP}/x", current)
        for path in (CORE, GROUP):
            await side.ask("GET", path)
            table = (await side.send("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).body
            side.note("columns", [(each["name"], each["priority"]) for each in table["columnDefinitions"]])
            side.note("rows", [each["cells"] for each in table["rows"]])
        await side.ask("DELETE", f"{GROUP}/x")
        await side.ask("GET", f"{CORE}/x")
        await side.ask("DELETE", GROUP, only="kind")
        await side.ask("GET", CORE)


async def test_fields_of_an_event_are_immutable(sides: tuple[Side, Side]) -> None:
    values: dict[str, Any] = dict.fromkeys(
        ("reason", "note", "reportingController", "reportingInstance", "action"), "another"
    )
    values |= {"regarding": {"kind": "Node"}, "eventTime": "2026-05-01T11:00:00.000000Z", "type": "Warning"}
    for side in sides:
        await side.send("POST", GROUP, new_event())
        for field, value in values.items():
            answer = await side.send("PATCH", f"{GROUP}/x", {field: value}, content_type=MERGE_PATCH)
            # The real one checks the reason twice, and shows structures as Go does.
            causes = {(each["field"], each["reason"]) for each in answer.body["details"]["causes"]}
            side.note(field, (answer.status, sorted(causes)))


_NEW: dict[str, dict[str, Any]] = {
    "plain": {},
    "series": {"series": _SERIES},
    "series-of-one": {"series": {**_SERIES, "count": 1}},
    "series-without-time": {"series": {"count": 2}},
    "no-time": {"eventTime": None},
    "short-time": {"eventTime": "2026-05-01T10:00:00Z"},
    "no-controller": {"reportingController": None},
    "bad-controller": {"reportingController": "a b"},
    "no-instance": {"reportingInstance": None},
    "long-instance": {"reportingInstance": "i" * 129},
    "no-action": {"action": None},
    "long-action": {"action": "a" * 129},
    "no-reason": {"reason": None},
    "long-reason": {"reason": "r" * 129},
    "no-type": {"type": None},
    "bad-type": {"type": "Strange"},
    "no-note": {"note": None},
    "long-note": {"note": "n" * 1025},
    "elsewhere": {"regarding": {"kind": "Pod", "name": "p", "namespace": "elsewhere"}},
    "no-object": {"regarding": None},
    "node": {"regarding": {"kind": "Node", "name": "n"}},
    "count": {"deprecatedCount": 1},
    "first": {"deprecatedFirstTimestamp": "2026-05-01T10:00:00Z"},
    "last": {"deprecatedLastTimestamp": "2026-05-01T10:00:00Z"},
    "source": {"deprecatedSource": {"component": "a"}},
    "related": {"related": {"kind": "Pod", "name": "p"}},
    "core-names": {"involvedObject": {"kind": "Pod"}, "message": "m"},
    "bad-name": {"metadata": {"name": "A_"}},
}


_OLD: dict[str, dict[str, Any]] = {
    "plain": {},
    "no-object": {"involvedObject": {}},
    "elsewhere": {"involvedObject": {"kind": "Pod", "namespace": "elsewhere"}},
    "series": {"eventTime": _TIME, "series": {"count": 0}},
}


async def test_accepted_and_refused_events(shared_sides: tuple[Side, Side]) -> None:
    events = [(f"new {name}", GROUP, new_event(**changes)) for name, changes in _NEW.items()]
    events += [(f"old {name}", CORE, old_event(**changes)) for name, changes in _OLD.items()]
    for name, path, event in events:
        for side in shared_sides:
            answer = await side.send("POST", f"{path}?dryRun=All", event)
            side.note(name, (answer.status, answer.body))


async def test_selected_events(sides: tuple[Side, Side]) -> None:
    for side in sides:
        await side.send("POST", GROUP, new_event())
        await side.send("POST", CORE, old_event())
        for path, selector in (
            (GROUP, "regarding.name=ada"),
            (GROUP, "regarding.kind=Pod,reason!=Started"),
            (GROUP, "reportingController=example.com/controller"),
            (GROUP, "type=Normal,metadata.name=y"),
            (GROUP, "involvedObject.name=ada"),
            (GROUP, "source=kubelet"),
            (GROUP, "note=x"),
            (CORE, "involvedObject.name=ada"),
            (CORE, "reportingComponent=example.com/controller"),
            (CORE, "source=kubelet"),
            (CORE, "regarding.name=ada"),
        ):
            answer = await side.send("GET", f"{path}?fieldSelector={quote(selector)}")
            found = [each["metadata"]["name"] for each in answer.body.get("items", ())]
            side.note(selector, (answer.status, found, answer.body.get("message")))


async def test_watches_show_both_forms(sides: tuple[Side, Side]) -> None:
    for side in sides:
        start = (await side.send("GET", GROUP)).body["metadata"]["resourceVersion"]
        await side.send("POST", GROUP, new_event())
        await side.send("POST", CORE, old_event())
        await side.send("PATCH", f"{GROUP}/x", {"series": _SERIES}, content_type=MERGE_PATCH)
        await side.send("DELETE", f"{CORE}/y")
        own = f"resourceVersion={start}"
        await side.ask_watches(GROUP, own, f"{own}&fieldSelector={quote('regarding.name=ada')}")
        await side.ask_watches(CORE, own)


async def test_discovery(shared_sides: tuple[Side, Side]) -> None:
    for side in shared_sides:
        answer = await side.send("GET", "/apis/events.k8s.io/v1")
        side.note("kinds", [each for each in answer.body["resources"] if each["name"] == "events"])
        group = (await side.send("GET", "/apis/events.k8s.io")).body
        side.note("group", group["preferredVersion"])


def test_events_are_removed_after_an_hour() -> None:
    now = datetime(2026, 5, 1, 10, tzinfo=UTC)
    store = Store(lambda: now)
    removed: list[str] = []

    def note(change: WatchEvent) -> None:
        if change.type is WatchEventType.DELETED:
            removed.append(change.object["metadata"]["name"])

    store.subscribe(note)
    for name in ("old", "repeated"):
        store.create(types.GROUP_EVENTS, _in_default(name), "default")
    now += LIFETIME / 2
    store.patch(types.GROUP_EVENTS, "default", "repeated", {"series": _SERIES}, MERGE_PATCH)
    now += LIFETIME / 2 - timedelta(seconds=1)
    store.remove_old_events()
    assert removed == []
    now += timedelta(seconds=1)
    store.remove_old_events()
    assert removed == ["old"]
    assert [each["metadata"]["name"] for each in store.objects(types.EVENTS)] == ["repeated"]
    now += LIFETIME / 2
    store.create(types.GROUP_EVENTS, _in_default("new"), "default")
    assert removed == ["old", "repeated"], "each new event removes those whose time is over"


def test_events_are_bounded() -> None:
    store = Store(lambda: datetime(2026, 5, 1, 10, tzinfo=UTC))
    for number in range(MAX_EVENTS + 10):
        store.create(types.EVENTS, _in_default(f"event-{number:05}", {"involvedObject": {}}), "default")
    store.remove_old_events()
    names = [each["metadata"]["name"] for each in store.objects(types.EVENTS)]
    assert (len(names), names[0]) == (MAX_EVENTS, "event-00010")


def test_a_namespace_with_events_can_be_deleted() -> None:
    store = Store(lambda: datetime(2026, 5, 1, 10, tzinfo=UTC))
    store.create(types.NAMESPACES, {"metadata": {"name": "ns"}})
    body = new_event(regarding={"kind": "Pod", "name": "p", "namespace": "ns"})
    store.create(types.GROUP_EVENTS, body, "ns")
    store.delete(types.NAMESPACES, None, "ns")
    assert store.find(types.NAMESPACES, None, "ns") is None
    assert not list(store.objects(types.EVENTS))


def _in_default(name: str, event: dict[str, Any] | None = None) -> dict[str, Any]:
    body = new_event(regarding={"kind": "Pod", "name": "p", "namespace": "default"}) if event is None else event
    return {**body, "metadata": {"name": name}}
