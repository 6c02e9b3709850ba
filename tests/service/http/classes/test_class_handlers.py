"""Classes that people announce or ask for, with a cluster: who may do what, within which limits, and what is stored."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.scale_ahead.calendars.class_limits import read_class_limits
from dra_spawner.service.http.api import calendar_entry_handlers
from dra_spawner.service.http.classes import class_handlers, class_news, classes_page, request_handlers
from dra_spawner.service.http.pages import override_pages
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.polling import eventually
from tests.service.open_service import open_to_all
from tests.service.replica import Replica, publish_settings, replica, set_up

GPU = shape(WHOLE)
EVIL = "<script>alert(1)</script>"
ANSWERS = {
    "classes": class_handlers.ClassesHandler,
    "classes/{id}": class_handlers.ClassHandler,
    "classes/{id}/max": class_handlers.ClassMaxHandler,
    "class-rehearsals": class_handlers.ClassRehearsalsHandler,
    "class-requests": request_handlers.ClassRequestsHandler,
    "class-requests/{id}": request_handlers.ClassRequestHandler,
    "class-requests/{id}/approval": request_handlers.ApprovalHandler,
    "class-requests/{id}/refusal": request_handlers.RefusalHandler,
    "page": classes_page.ClassesPage,
    "news": class_news.ClassNewsHandler,
    "entries": calendar_entry_handlers.CalendarEntriesHandler,
    "audit-page": override_pages.AuditPage,
}
ASK = f"access:services!service={names.HUB_SERVICE}"
PEOPLE = {"ada": names.ANNOUNCE_SCOPE, "ben": names.ANNOUNCE_SCOPE, "cleo": ASK, "root": names.OPERATE_SCOPE}
OPEN = tuple(
    (f"{user}/{address}", open_to_all(handler, user, scope))
    for user, scope in PEOPLE.items()
    for address, handler in ANSWERS.items()
)
LAB = {"name": "Lab", "choice": "gpu-whole", "users": 2, "begins": "2036-03-03 10:00", "timezone": "Europe/Berlin"}
LIMITS = {"*": {"users": 5, "classes": 2, "weeks": 520}, "user:ben": {"choices": []}}


@contextlib.asynccontextmanager
async def service_on(cluster: ClusterUnderTest, **traits: Any) -> AsyncIterator[Replica]:
    """A service with two GPUs whose one choice has at most one placeholder, and four people."""
    settings = {"placeholders": {"gpu-whole": {"min": 0, "max": 1}}, "scale_ahead": "act", **traits}
    async with replica(cluster, more=OPEN, **settings) as found:
        found.context.class_limits = read_class_limits(LIMITS)
        await found.until(lambda: bool(found.controller.published.shapes), "the choices are known")
        yield found


async def ready(cluster: ClusterUnderTest) -> None:
    await set_up(cluster, {"gpu-whole": GPU, "cpu": shape({})}, *node("n1", whole("gpu-0"), whole("gpu-1")))
    await publish_settings(cluster)


@pytest.mark.promise("A teacher changes and cancels own classes only, and a restart keeps them.")
async def test_own_classes_within_limits(embedded_cluster: ClusterUnderTest) -> None:
    await ready(embedded_cluster)
    async with service_on(embedded_cluster) as service:
        status, made, _ = await service.send(
            "POST", "ada/classes", {**LAB, "group": "physics", "weekly_until": "2036-05-01"}
        )
        assert (status, made["by"], made["group"], made["is_own"]) == (201, "user ada", "physics", True), made
        assert made["next"]["begins"] == "2036-03-03T10:00:00+01:00"
        path = f"classes/{made['id']}"
        for user in ("ben", "cleo"):
            assert (await service.get_json(f"{user}/classes"))["items"] == []
            for method, body in (("GET", None), ("PUT", LAB), ("DELETE", None)):
                status, problem, _ = await service.send(method, f"{user}/{path}", body)
                assert status == 404, (user, method, problem)
        refusals: dict[str, dict[str, Any]] = {
            "You have announced this class already. If": {**LAB, "group": "physics", "weekly_until": "2036-05-01"},
            "Your classes would have 6 users": {**LAB, "users": 4},
            "You may not announce": {**LAB, "choice": "gpu-whole", "by": "ben"},
            "offers this choice no longer": {**LAB, "choice": "gpu"},
            "over already": {**LAB, "begins": "2020-01-01 10:00"},
            "last day of the class is before its first": {**LAB, "weekly_until": "2036-03-02"},
            "each of its days is a break": {**LAB, "skipped": ["2036-03-03"]},
        }
        for sentence, written in refusals.items():
            user = written.pop("by", "ada")
            status, problem, _ = await service.send("POST", f"{user}/classes", written)
            assert (status, sentence in problem["detail"]) == (409, True), problem
        # What the form has found is kept with its time. The class that is changed is not beside itself.
        other = {**LAB, "name": EVIL, "users": 4}
        asked: dict[str, dict[str, Any]] = {}
        for query in ("", f"?instead_of={made['id']}"):
            for user in ("root", "ada"):
                _, asked[user + query], _ = await service.send("POST", f"{user}/class-rehearsals{query}", other)
        assert (asked["root"]["needs_max"], asked[f"root{query}"]["needs_max"]) == (6, 4)
        assert (await service.send("POST", f"ben/class-rehearsals{query}", LAB))[0] == 404
        status, changed, _ = await service.send("PUT", f"ada/{path}", other)
        assert [changed["next"][key] for key in ("verdict", "rehearsed_at")] == [
            asked[f"ada{query}"][key] for key in ("verdict", "rehearsed_at")
        ]
        assert (status, changed["name"], changed["users"], changed["by"]) == (200, EVIL, 4, "user ada")
        (entry,) = (await service.get_json("calendar-entries"))["items"]
        assert (entry["id"], entry["users"], entry["by"]) == (made["id"], '4 of "gpu-whole"', "user ada")
    async with service_on(embedded_cluster) as service:
        await service.until(lambda: bool(service.controller.scale_ahead.calendars.added), "the class is read")

        async def is_told() -> bool:
            items = (await service.get_json("root/news"))["items"]
            told = [(each["user"], each["name"], each["is_problem"], each["sentence"]) for each in items]
            verdict = "No: 2 of 4 users cannot start on 2036-03-03 at 10:00: only 1 server can be prepared in advance."
            return told == [("ada", EVIL, True, verdict)]

        await eventually(is_told, "the hub's home page is told that not all can start")
        for user, is_shown in (("ada", True), ("root", True), ("ben", False)):
            page = await service.get(f"{user}/page")
            assert (("&lt;script&gt;" in page), EVIL in page) == (is_shown, False), user
        assert (await service.send("PUT", f"root/{path}", {**LAB, "users": 50}))[1]["by"] == "user ada"
        assert (await service.send("DELETE", f"ada/{path}"))[0] == 204
        assert (await service.get_json("root/classes"))["items"] == []
        audit = (await service.get_json("audit"))["items"]
        assert [(each["by"], each["change"]) for each in audit] == [
            ("user ada", "deleted"),
            ("user root", "set"),
            ("user ada", "set"),
            ("user ada", "set"),
        ]
        exam = {"users": "2 of gpu-whole in total", "begins": "2036-03-04 10:00"}
        _, exam, _ = await service.send("POST", "root/entries", exam)
        zone = service.controller.scale_ahead.settings.options.settings.zone
        page = unescape(await service.get("root/page"))
        assert f'"timezone": "{zone}"' in page, "the browser's zone is not that of the entry"
        changed = (await service.send("PUT", f"root/classes/{exam['id']}", {**LAB, "users": 4, "within_minutes": 5}))[1]
        (entry,) = (await service.get_json("calendar-entries"))["items"]
        assert (changed["users"], entry["users"]) == (4, '4 of "gpu-whole" in total within 5 min'), (
            "the page shows less"
        )


@pytest.mark.promise("A user asks for a class, and an administrator approves it, also for more placeholders.")
async def test_requests_and_their_answers(embedded_cluster: ClusterUnderTest) -> None:
    await ready(embedded_cluster)
    async with service_on(embedded_cluster) as service:
        status, asked, _ = await service.send("POST", "cleo/class-requests", {**LAB, "users": 2})
        assert (status, asked["is_open"], asked["needs_max"], asked["verdict"]) == (201, True, 2, ""), asked
        path = f"class-requests/{asked['id']}"
        assert (await service.get_json("ada/class-requests"))["items"] == []
        assert (await service.send("DELETE", f"ada/{path}"))[0] == 404
        runner = service.context.scale_ahead
        assert runner is not None
        await runner.class_rehearsals.refresh()
        (seen,) = (await service.get_json("root/class-requests"))["items"]
        assert (seen["by"], seen["is_possible"], seen["verdict"][:4]) == ("user cleo", True, "Yes:"), seen
        assert (await service.get_json("cleo/class-requests"))["items"][0]["verdict"] == ""
        status, approved, _ = await service.send("POST", f"root/{path}/approval", {"raise_max": True})
        assert approved["next"]["verdict"] == "", "with another max it is rehearsed anew"
        assert (status, approved["by"], approved["raised"]["max"]) == (200, "user cleo", 2), approved
        page = await service.get("root/audit-page")
        for said in ("max raised to 2", "for the class ", "1 entry to the"):
            assert said in page, said
        assert "Nothing is set" not in page
        assert (await service.send("POST", f"root/{path}/approval", {}))[0] == 404, "it is answered"
        (group,) = service.controller.groups()
        assert group.replicas.max == 2, "until the class is over"
        (mine,) = (await service.get_json("cleo/classes"))["items"]
        assert (mine["needs_max"], mine["is_own"], mine["raised"]["by"]) == (None, True, ""), "no name of another"

        for number in range(5):
            assert (await service.send("POST", "cleo/class-requests", {**LAB, "name": f"Lab {number}"}))[0] == 201
        status, problem, _ = await service.send("POST", "cleo/class-requests", LAB)
        assert (status, "5 requests that are not answered" in problem["detail"]) == (409, True)
        (first, *_) = (await service.get_json("root/class-requests"))["items"]
        status, declined, _ = await service.send(
            "POST", f"root/class-requests/{first['id']}/refusal", {"because": f"Too many {EVIL}."}
        )
        assert (status, declined["is_open"], declined["declined_by"]) == (200, False, "user root")
        own = next(each for each in (await service.get_json("cleo/class-requests"))["items"] if not each["is_open"])
        assert (own["because"], own["declined_by"]) == (f"Too many {EVIL}.", "")
        page = await service.get("cleo/page")
        assert ("Declined: Too many &lt;script&gt;" in page, EVIL in page) == (True, False)
        assert (await service.send("DELETE", f"cleo/classes/{mine['id']}"))[0] == 204
        (group,) = service.controller.groups()
        assert group.replicas.max == 1, "the class is cancelled"
        changes = [(each["by"], each["change"]) for each in (await service.get_json("audit"))["items"]]
        assert ("user cleo", "set") in changes
        assert [each for each in changes if each[0] == "user root"] == [
            ("user root", "declined"),
            ("user root", "set"),
            ("user root", "approved"),
        ]
