"""What a person reads of a class and of a request in each phase: only what is true then, and of use."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.settings import HistorySettings
from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data
from dra_spawner.placeholders.planner.targets.class_records import ClassOutcome, ClassRequest
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.scale_ahead.calendars.class_progress import outcome_key
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.service.ahead.rehearsals import Rehearsals
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.service.http.classes.classes_page import ClassesPage
from dra_spawner.service.http.pages.override_pages import CalendarPage
from dra_spawner.service.http.pages.today_page import TodayPage
from tests.local_server import get
from tests.placeholders.planner.simulated_cluster import START
from tests.service.ahead.acting_service import controller
from tests.service.open_service import open_to_all, web_service

ADA = "user ada"
BEGINS = START + timedelta(hours=3)
SAID = "No: 80 of 90 users cannot start."
PAGES = {
    "ada": open_to_all(ClassesPage, "ada", names.ANNOUNCE_SCOPE),
    "root": open_to_all(ClassesPage, "root", names.OPERATE_SCOPE),
    "calendar": open_to_all(CalendarPage, "root", names.OPERATE_SCOPE),
    "today": open_to_all(TodayPage, "root", names.OPERATE_SCOPE),
}


def written(choice: str, begins: datetime = BEGINS, users: int = 90) -> dict[str, object]:
    begin = f"{begins:%Y-%m-%d %H:%M}"
    return {"users": f"{users} of {choice}", "begins": begin, "minutes": 60, "timezone": "UTC", "name": "Lab"}


class Service:
    """A service on which nothing is prepared for classes, and whose clock a test sets."""

    def __init__(self, url: str, context: ServiceContext) -> None:
        self.url = url
        self.controller = controller(most=9, mode=ScaleAheadMode.ADVISE)
        context.follow(self.controller.watch, self.controller)
        history = HistoryRecording(HistorySettings(keep=timedelta(0)), self.controller, DecisionLog())
        self.runner = ScaleAheadRunner(self.controller, history, Rehearsals(self.controller))
        context.scale_ahead = self.runner
        self._version = 0

    def put(self, settings: Overrides) -> None:
        """Let these be all settings, and the verdict of each class be No."""
        self._set(settings)
        self.runner.added.begin()
        outcomes = {}
        for each in self.runner.added.items:
            for time in each.entry.occurrences(START, START + timedelta(days=30), "api/calendar-entries"):
                outcomes[outcome_key(time)] = ClassOutcome(time.begins).rehearsed(SAID, START, is_possible=False)
        self._set(replace(settings, classes=settings.classes.with_outcomes(outcomes)))

    def _set(self, settings: Overrides) -> None:
        self._version += 1
        version = {"resourceVersion": f"{self._version}"}
        self.controller.overrides.put({"metadata": version, "data": overrides_data(settings)})

    async def read(self, page: str, hours: float, part: str = "li") -> list[str]:
        """The texts of the cards or rows that a page shows some time after the begin."""
        self.controller.now = lambda: BEGINS + timedelta(hours=hours)
        status, text = await get(f"{self.url}/{page}")
        assert status == 200
        found = re.findall(rf"<{part}[ >].*?</{part}>", text.partition("<main")[2].partition("<template")[0], re.DOTALL)
        cards = [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", each)).split()) for each in found]
        return [each for each in cards if "Lab" in each]


@pytest.fixture
async def service(context: ServiceContext) -> AsyncIterator[Service]:
    async with web_service(context, *PAGES.items()) as url:
        yield Service(url, context)


TEACHER = "No further servers are prepared for it at present. Ask your administrator."
OPERATOR = "Not prepared: scale-ahead only advises."
#: Sentences of a card, and the hours after the begin at which a person reads them.
PHASES = {
    TEACHER: ("ada", {-1.0}),
    "Fewer servers than announced can be prepared.": ("ada", {-1.0}),
    "No servers are prepared for people who still come. They may wait.": ("ada", {0.5}),
    OPERATOR: ("root", {-1.0}),
    "Nothing is prepared for people who still come: scale-ahead only advises.": ("root", {0.5}),
    "It needs 90 placeholders, more than max": ("root", {-1.0}),
    "Raise max to 90": ("root", {-1.0}),
    f"said before it, 09:00: {SAID}": ("ada", {0.5, 1.5}),
    "rehearsed 09:00": ("ada", {-1.0}),
    "Cancel …": ("ada", {-1.0, 0.5}),
    "Remove …": ("ada", {1.5}),
}


async def test_sentences_about_a_class_before_during_and_after_it(service: Service) -> None:
    service.put(Overrides().with_entry("lab", written("gpu-slice"), ADA, START))
    seen: dict[str, set[float]] = {each: set() for each in PHASES}
    for hours in (-1.0, 0.5, 1.5):
        for reader in ("ada", "root"):
            (card,) = await service.read(reader, hours)
            for sentence, (whose, _) in PHASES.items():
                if whose == reader and sentence in card:
                    seen[sentence].add(hours)
    assert seen == {sentence: hours for sentence, (_, hours) in PHASES.items()}


async def test_a_weekly_class_is_read_with_what_comes_next(service: Service) -> None:
    """While it takes place, what its next times need is said all the same."""
    weekly = {**written("gpu-slice"), "weekly_until": f"{BEGINS + timedelta(days=8):%Y-%m-%d}"}
    service.put(Overrides().with_entry("lab", {**weekly, "users": "200 of gpu-slice"}, ADA, START))
    (during,) = await service.read("ada", 0.5)
    assert "Next time, fewer servers than announced can be prepared." in during
    (after,) = await service.read("ada", 1.5)
    assert TEACHER in after
    assert "Last time: it is not known how many came" in after


async def test_a_class_whose_choice_the_hub_offers_no_longer(service: Service) -> None:
    service.put(Overrides().with_entry("lab", written("gone"), ADA, START))
    for hours in (-1.0, 0.5):
        (card,) = await service.read("ada", hours)
        assert "The hub offers this choice no longer. Ask your administrator." in card, card
        assert "No further servers" not in card


async def test_a_verdict_of_the_past_is_not_that_of_the_moment(service: Service) -> None:
    service.put(Overrides().with_entry("lab", written("gpu-slice"), ADA, START))
    for page in ("calendar", "today"):
        before, during = [(await service.read(page, hours, "tr"))[0] for hours in (-1.0, 0.5)]
        assert (SAID in before, "said before it" in before) == (True, False), before
        assert "said before it" in during, during
        assert "rehearsed 09:00" not in during


async def test_requests_before_during_and_after_their_time(service: Service) -> None:
    requests = {
        "open": ClassRequest(written("gpu-slice"), "user cleo", START),
        "mine": ClassRequest(written("gone"), ADA, START + timedelta(minutes=1)),
    }
    settings = Overrides()
    service.put(replace(settings, classes=replace(settings.classes, requests=requests)))
    cards = {hours: await service.read("root", hours) for hours in (-1.0, 0.5, 1.5)}
    for (offered, gone), says, may_approve in zip(
        cards.values(),
        ("It is being rehearsed.", "It has begun.", "Its time is over."),
        (True, True, False),
        strict=True,
    ):
        assert (says in offered, "Approve" in offered) == (True, may_approve), offered
        assert ("is being rehearsed" in gone, "Approve" in gone) == (False, False), gone
    before, after = [(await service.read("ada", hours))[0] for hours in (-1.0, 1.5)]
    assert "An administrator has not answered yet." in before
    assert "Withdraw …" in before
    assert "Its time is over, and no administrator has answered." in after
    assert "Remove …" in after
