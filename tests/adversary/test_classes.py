"""People who ask for classes and are no friends: floods, others' classes, endless classes, texts that want to be more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.scale_ahead.calendars.class_limits import read_class_limits
from dra_spawner.service.http.classes import class_feed, class_handlers, classes_page, request_handlers
from dra_spawner.service.http.classes.class_feed import feed_query
from tests.adversary.hostile_texts import NAMES
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.service.open_service import open_to_all
from tests.service.replica import Replica, publish_settings, replica, set_up

GPU = shape(WHOLE)
ASK = f"access:services!service={names.HUB_SERVICE}"
PEOPLE = {"eve": ASK, "mallory": names.ANNOUNCE_SCOPE, "ada": names.ANNOUNCE_SCOPE, "root": names.OPERATE_SCOPE}
HANDLERS = {
    "classes": class_handlers.ClassesHandler,
    "classes/{id}": class_handlers.ClassHandler,
    "class-rehearsals": class_handlers.ClassRehearsalsHandler,
    "class-requests": request_handlers.ClassRequestsHandler,
    "class-requests/{id}": request_handlers.ClassRequestHandler,
    "page": classes_page.ClassesPage,
}
OPEN = tuple(
    (f"{user}/{address}", open_to_all(handler, user, scope))
    for user, scope in PEOPLE.items()
    for address, handler in HANDLERS.items()
)
LAB: dict[str, Any] = {"name": "Lab", "choice": "gpu-slice", "users": 2, "begins": "2036-03-03 10:00"}
HOSTILE: dict[str, tuple[Any, ...]] = {
    "name": ("", " ", "x" * 101, "a\nb", "a\r\nX: y", "\u202eada", "a\x00b", None, 1, ["a"]),
    "choice": ("", "nothing", 'gpu-slice" in total', "gpu-slice\n1 of cpu", "x" * 251, "../gpu-slice", None, {}),
    "users": (0, -1, 10**9, 1.5, "60", True, None, [60], 1e400, "60 of gpu-slice"),
    "begins": ("", "soon", "0001-01-01 00:00", "9999-12-31 23:59", "2036-03-03T10:00:00Z", None, 0, "2020-01-01 10:00"),
    "minutes": (0, -90, 10**9, "90", True, [], 1e400),
    "weekly_until": ("never", 0, "2036-13-01", "x" * 10**5),
    "skipped": (["2036-03-03"], ["2036-03-10"] * 101, "2036-03-03", ["never"], [None], {"2036-03-03": 1}),
    "timezone": ("Europe", "../../etc/passwd", "/etc/passwd", "", "x" * 10**5, 0),
    "within_minutes": (0, -1, 10**6, "15", True),
    "group": ("x" * 101, "a\nb", 7),
    "by": ("user ada",),
    "id": ("0123456789ab",),
    "raised": ({"max": 1},),
}
"""Values that are refused; without its other days a class of one day and a break on it never takes place."""


async def test_people_who_are_no_friends(embedded_cluster: ClusterUnderTest) -> None:
    await set_up(embedded_cluster, {"gpu-slice": GPU}, *node("n1", whole("gpu-0"), whole("gpu-1")))
    await publish_settings(embedded_cluster)
    feed = (("classes.ics", class_feed.ClassFeedHandler),)
    async with replica(embedded_cluster, placeholders={"gpu-slice": {"min": 0}}, more=(*OPEN, *feed)) as service:
        service.context.class_limits = read_class_limits({"*": {"weeks": 520}})
        await service.until(lambda: bool(service.controller.published.shapes), "the choices are known")
        await others_classes(service)
        await hostile_values(service)
        await hostile_names(service)
        await floods(service)


async def others_classes(service: Replica) -> None:
    """One who guesses the id learns nothing, not even that it exists."""
    tomorrow = f"{service.controller.now() + timedelta(days=1):%Y-%m-%d %H:%M}"
    _, made, _ = await service.send("POST", "ada/classes", {**LAB, "begins": tomorrow})
    _, asked, _ = await service.send("POST", "ada/class-requests", LAB)
    for user in ("eve", "mallory"):
        for path in (f"classes/{made['id']}", f"class-requests/{asked['id']}"):
            for method in ("GET", "DELETE") if user == "eve" or "requests" in path else ("GET", "PUT", "DELETE"):
                there = await service.send(method, f"{user}/{path}", LAB if method == "PUT" else None)
                nowhere = await service.send(method, f"{user}/{path[:-12]}{'0' * 12}", LAB if method == "PUT" else None)
                assert there == nowhere, (user, method, path)
                assert there[0] == 404
        assert "ada" not in await service.get(f"{user}/page")
    web = service.context.web
    good = feed_query(web, "ada")
    assert "SUMMARY:Lab" in await service.get(f"classes.ics?{good}")
    key = good.partition("key=")[2]
    for query in (
        "",
        "user=ada",
        "key=",
        f"user=eve&key={key}",
        f"user=ada&key={key[:-1]}",
        "user=ada&key=%00",
        "user=ada&key=é",
    ):
        status, problem, _ = await service.send("GET", f"classes.ics?{query}")
        assert status in (400, 404), (query, problem)


async def hostile_values(service: Replica) -> None:
    """Each is refused with a sentence, and nothing is stored."""
    before, wrong = service.controller.overrides.present, []
    for key, values in HOSTILE.items():
        for value in values:
            service.context.class_rates = type(service.context.class_rates)()
            body = {**LAB, key: value}
            for path in ("root/classes", "eve/class-requests", "mallory/class-rehearsals"):
                status, problem, _ = await service.send("POST", path, body)
                if status not in (400, 409) or not problem["detail"].endswith("."):
                    wrong.append(f"{path}: {key} {value!r:.50}: {status} {problem}")
    assert not wrong, "\n".join(wrong)
    present = service.controller.overrides.present
    assert (present.entries, present.classes.requests) == (before.entries, before.classes.requests)


async def hostile_names(service: Replica) -> None:
    """A title stays a text: on the page, in the feed, in lists and in the audit trail."""
    service.context.class_rates = type(service.context.class_rates)()
    for name in (each for each in NAMES if each.isprintable() and each.strip() and len(each) <= 100):
        status, answer, _ = await service.send("POST", "root/classes", {**LAB, "name": name, "group": name})
        if status == 429:
            service.context.class_rates = type(service.context.class_rates)()
            status, answer, _ = await service.send("POST", "root/classes", {**LAB, "name": name, "group": name})
        assert (status, answer["name"], answer["group"]) == (201, name, name), answer
    page = await service.get("root/page")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    feed = await service.get(f"classes.ics?{feed_query(service.context.web, 'root')}")
    assert all(len(each.encode()) <= 75 for each in feed.split("\r\n"))
    assert {each["by"] for each in (await service.get_json("audit"))["items"]} <= {"user ada", "user root"}


async def floods(service: Replica) -> None:
    """Requests are few, and do not wash the audit trail away; a person who floods does not keep others out."""
    service.context.class_rates = type(service.context.class_rates)()
    before, found = len(service.controller.overrides.present.audit), []
    for number in range(20):
        status, answer, _ = await service.send("POST", "eve/class-requests", {**LAB, "name": f"Lab {number}"})
        found.append(status)
        if status == 201 and found.count(201) > 2:
            await service.send("DELETE", f"eve/class-requests/{answer['id']}")
    assert (found[:2], found[-1], found.count(201) <= 6) == ([201, 201], 429, True), found
    assert len(service.controller.overrides.present.audit) == before
    assert (await service.send("POST", "mallory/class-requests", LAB))[0] == 201
    rehearsed = [(await service.send("POST", "mallory/class-rehearsals", LAB))[0] for _ in range(25)]
    assert (rehearsed[0], rehearsed[-1]) == (200, 429), rehearsed
    long = {**LAB, "weekly_until": "9999-12-31", "skipped": [f"2037-01-{day:02}" for day in range(1, 32)]}
    assert (await service.send("POST", "root/classes", long))[0] == 201, "520 weeks are allowed to operators"
