"""The page Classes without a cluster: it says why it is empty, and names nothing that only readers may know."""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.scale_ahead.calendars.class_limits import ClassLimits
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.classes.class_handlers import ClassesHandler
from dra_spawner.service.http.classes.classes_page import ClassesPage, by_limits, choices_in_form
from dra_spawner.service.web_settings import WebSettings
from tests.local_server import get
from tests.service.open_service import open_to_all, web_service
from tests.service.unstarted_watch import UnstartedWatch, unstarted_controller

EVIL = "<script>alert(1)</script>"
ASK = f"access:services!service={names.HUB_SERVICE}"


async def test_before_the_cluster_is_found_and_without_placeholders(context: ServiceContext) -> None:
    context.web = WebSettings("/", own_token="secret")
    open_to = open_to_all(ClassesPage, EVIL, ASK)
    async with web_service(context, ("open", open_to), ("api", open_to_all(ClassesHandler, EVIL, ASK))) as url:
        status, page = await get(f"{url}/open")
        assert (status, "The service is starting." in page, EVIL in page) == (200, True, False)
        assert 'href="/classes"' in page
        assert 'href="/calendar"' not in page, "only pages that the reader may open"
        assert "class-form" not in page
        assert (await get(f"{url}/api"))[0] == 503
        context.follow(UnstartedWatch(), unstarted_controller())
        status, page = await get(f"{url}/open")
        assert (status, "secret" in page) == (200, False)


def test_sizes_are_listed_by_amount() -> None:
    names = ["gpu/memory=40Gi", "gpu/memory=5Gi", "gpu/image=b,memory=5Gi", "gpu", "cpu"]
    assert choices_in_form(names) == ["cpu", "gpu", "gpu/memory=5Gi", "gpu/memory=40Gi", "gpu/image=b,memory=5Gi"]


def test_choices_that_a_person_may_only_ask_for_stand_apart() -> None:
    choices = ["cpu", "gpu", "gpu/memory=5Gi"]
    limits = ClassLimits(choices=frozenset({"gpu"}))
    apart = {"You may announce": ["gpu", "gpu/memory=5Gi"], "Ask an administrator for": ["cpu"]}
    assert by_limits(choices, limits) == apart
    assert by_limits(choices, ClassLimits()) == by_limits(choices, None) == {"": choices}
    assert by_limits([], limits) == {}
