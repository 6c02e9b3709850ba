"""``GET classes``: the own classes, a form to announce one or to ask for one, and for operators the requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from dra_spawner.placeholders.controller.answers.availability import choice_order
from dra_spawner.placeholders.planner.targets.choice_names import find_choice, is_combination
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.scale_ahead.calendars.class_limits import ClassLimits
from dra_spawner.service.ahead.choice_titles import title_of
from dra_spawner.service.context import Role
from dra_spawner.service.http.classes.class_feed import feed_query
from dra_spawner.service.http.classes.class_handlers import announcer_of
from dra_spawner.service.http.classes.class_json import classes_json, requests_json
from dra_spawner.service.http.pages.override_pages import OverridePage
from dra_spawner.service.http.pages.page_text import begins, clock, moment, moment_beside, person, unrehearsed
from dra_spawner.service.http.requests.endpoints import HTML, Access, endpoint

_SHOWN: Final = 200
_CHOICES: Final = 500
_MAY_WAIT: Final = "No servers are prepared for people who still come. They may wait."


class ClassesPage(OverridePage):
    """See the module."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Why the page may be incomplete, without what only readers may know."""
        controller = self.context.controller
        if controller is None or self.context.scale_ahead is None:
            return ("The service is starting. Try again in a minute.",)
        if not controller.is_on:
            return ("Classes cannot be announced here: the service has no placeholders.",)
        if controller.overrides.unknown_because:
            return ("Classes are not known at present. Try again in a minute.",)
        return () if self.context.role is Role.LEADER else ("Figures may be some minutes old.",)

    @endpoint("Page: classes that the reader has announced or asked for.", Access.ASK, media_type=HTML, is_page=True)
    async def get(self) -> None:
        controller, runner = self.context.controller, self.context.scale_ahead
        who = announcer_of(self.context, self.hub_user)
        is_known = controller is not None and controller.is_on and not controller.overrides.unknown_because
        classes: list[dict[str, Any]] = []
        requests: list[dict[str, Any]] = []
        choices: list[str] = []
        published = PublishedShapes()
        zone: tzinfo = UTC
        if is_known and controller is not None and runner is not None:
            classes, requests = classes_json(controller, runner, who), requests_json(controller, runner, who)
            zone = controller.scale_ahead.settings.options.settings.zone
            published = controller.published
            choices = choices_in_form(published.shapes)
        is_user = self.hub_user.get("kind", "user") == "user"
        feed = feed_query(self.web, str(self.hub_user["name"])) if is_user else ""

        def is_offered(found: Mapping[str, Any]) -> bool:
            return find_choice(found["choice"], published.shapes) is not None

        await self.render(
            "classes_page.html",
            who=who,
            classes=classes[:_SHOWN],
            all_classes=len(classes),
            warnings=[each for each in classes if each["is_own"] and _is_no(each["next"])],
            own_requests=[each for each in requests if each["is_own"]],
            open_requests=[each for each in requests if each["is_open"]] if who.is_operator else [],
            choices=by_limits(choices, who.limits),
            limits=who.limits,
            can_change=is_known,
            prepares=is_known and controller is not None and not controller.not_preparing_because(),
            feed=f"{self.web.url('classes.ics')}?{feed}" if feed else "",
            begins=begins,
            moment=moment,
            first_begin=lambda found: _first_begin(found, zone),
            clock=clock,
            moment_beside=moment_beside,
            weekly=_weekly,
            person=person,
            unprepared=lambda found: unprepared(found, is_offered(found), is_operator=who.is_operator),
            unrehearsed=lambda found: (
                unrehearsed({**found, **found["next"], "added_by": found["by"]}, self.now)
                if is_offered(found)
                else "it cannot be rehearsed"
            ),
            may_approve=lambda found: found["phase"] != "over" and is_offered(found),
            unrehearsed_request=lambda found: _unrehearsed_request(found, is_offered(found)),
            title=lambda choice: title_of(published, choice),
            values_of=lambda found: {**_values_of(found, zone), "title": title_of(published, found["choice"])},
        )


def choices_in_form(names: Iterable[str]) -> list[str]:
    """Choices as the form of a class lists them: single options first, as combinations are many; sizes by amount."""
    return sorted(names, key=lambda name: (is_combination(name), choice_order(name)))[:_CHOICES]


def by_limits(choices: Sequence[str], limits: ClassLimits | None) -> dict[str, list[str]]:
    """Choices, with a heading above those that a person may only ask for; without a heading if all are allowed."""
    allowed = [each for each in choices if limits is None or limits.allows_choice(each)]
    if len(allowed) == len(choices):
        return {"": allowed} if allowed else {}
    return {"You may announce": allowed, "Ask an administrator for": [each for each in choices if each not in allowed]}


def unprepared(found: Mapping[str, Any], is_offered: bool, *, is_operator: bool) -> str:
    """Why nothing is prepared for a class, and what follows in its present phase; empty where nothing does."""
    because, time = found["unusable_because"], found["next"]
    if not because:
        return ""
    if time["phase"] == "running" and is_offered:
        if (time["came"] or 0) + time["waiting"] >= time["users"]:
            return ""
        return f"Nothing is prepared for people who still come: {because}." if is_operator else _MAY_WAIT
    return (
        f"Not prepared: {because}." if is_operator else f"{because[:1].upper()}{because[1:]}. Ask your administrator."
    )


def _unrehearsed_request(found: Mapping[str, Any], is_offered: bool) -> str:
    """Why a request has no rehearsal."""
    if found["phase"] == "over":
        return "Its time is over."
    if not is_offered:
        return "The hub offers this choice no longer."
    return "It is being rehearsed." if found["phase"] == "coming" else "It has begun."


def _is_no(time: Mapping[str, Any] | None) -> bool:
    return time is not None and time["turned_at"] is not None and time["phase"] == "coming"


def _first_begin(found: Mapping[str, Any], zone: tzinfo) -> str:
    """The first begin of a class, as `begins` says times; entries without a zone are in that of the service."""
    own = ZoneInfo(found["timezone"]) if found.get("timezone") else zone
    first = datetime.fromisoformat(found["begins"]).replace(tzinfo=own)
    return begins({"begins": first.isoformat(), "zone": first.tzname()})


def _weekly(found: Mapping[str, Any]) -> str:
    """How often a class takes place."""
    if not found.get("weekly_until"):
        return "once"
    breaks = len(found.get("skipped") or ())
    return f"weekly until {found['weekly_until']}" + (f", {breaks} breaks" if breaks > 1 else ", 1 break" * breaks)


def _values_of(found: Mapping[str, Any], zone: tzinfo) -> dict[str, Any]:
    """What the form is filled with, to change or copy a class; without a zone it would be in that of the browser."""
    found = {"timezone": "UTC" if zone is UTC else getattr(zone, "key", None), **found}
    keys = ("name", "choice", "users", "begins", "minutes", "within_minutes", "weekly_until", "skipped", "group")
    return {key: found[key] for key in (*keys, "timezone") if found.get(key) is not None}
