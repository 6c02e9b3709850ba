"""``GET api/class-news``: what the hub's page *Home* tells people of classes.

An item without ``group`` is for ``user``, who has announced the class. One with ``group`` is for its other members, in
words that say no more than they may know; `own_server` has the sentences for those whose server is active.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dra_spawner.placeholders.planner.targets.class_records import ClassNotice
from dra_spawner.scale_ahead.calendars.class_progress import (
    ClassProgress,
    member_sentence,
    own_server_sentences,
    time_text,
)
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.announced_classes import Announcer
from dra_spawner.service.ahead.choice_titles import title_of
from dra_spawner.service.ahead.scale_ahead_runner import ScaleAheadRunner
from dra_spawner.service.http.classes.class_json import classes_json, nearest_times
from dra_spawner.service.http.pages.page_text import begins
from dra_spawner.service.http.requests.authentication import ApiHandler
from dra_spawner.service.http.requests.endpoints import Access, endpoint
from dra_spawner.service.http.schemas.class_schemas import CLASS_NEWS

_USER: Final = "user "
_HUB: Final = Announcer("the hub", None)


class ClassNewsHandler(ApiHandler):
    """See the module. The hub sends the service's own token."""

    @endpoint("What is to be said of coming classes.", Access.OPERATE, answer=CLASS_NEWS, hub=True)
    async def get(self) -> None:
        controller, runner = self.context.controller, self.context.scale_ahead
        items: list[dict[str, Any]] = []
        if controller is not None and runner is not None and not controller.overrides.unknown_because:
            notices = controller.overrides.present.classes.active(controller.now()).notices.values()
            items += (item for each in notices for item in _of_notice(each))
            items += _for_owners(controller, runner)
            items += _for_members(controller, runner)
        self.write_json({"items": items})


def _of_notice(notice: ClassNotice) -> Iterator[dict[str, Any]]:
    """For the group, and for the owner if somebody else has changed the class."""
    sentence = f"It does not take place then. It is on {notice.instead}." if notice.instead else "It is cancelled."
    if notice.group:
        yield _item(notice.owner, notice.group, notice.name, notice.time, sentence, is_problem=True)
    if notice.by != notice.owner and notice.owner.startswith(_USER):
        yield _item(notice.owner, "", notice.name, notice.time, sentence, is_problem=True)


def _for_owners(controller: ScaleAheadController, runner: ScaleAheadRunner) -> Iterator[dict[str, Any]]:
    for each in classes_json(controller, runner, _HUB):
        time = each["next"]
        if time is None or time["phase"] == "over" or not each["by"].startswith(_USER):
            continue
        is_problem = time["phase"] == "coming" and time["turned_at"] is not None
        if sentence := time["verdict"] if is_problem else time["sentence"]:
            yield _item(each["by"], "", each["name"], begins(time), sentence, is_problem=is_problem)


def _for_members(controller: ScaleAheadController, runner: ScaleAheadRunner) -> Iterator[dict[str, Any]]:
    now, published, figures = controller.now(), controller.published, runner.class_figures
    margin = controller.scale_ahead.settings.options.settings.calendar_margin
    owners, near = runner.classes.records.owners, figures.near()
    for added in runner.classes.visible(_HUB):
        owner, (time, _) = owners.get(added.id), nearest_times(added.entry, now)
        choice = published.find(time.profile) if time is not None else None
        if owner is None or not owner.group or time is None or choice is None:
            continue
        may_wait = figures.outcome_of(time).turned_at is not None
        progress, title = near.get(time, ClassProgress()), title_of(published, time.profile)
        if sentence := member_sentence(time, progress, title, now, may_wait=may_wait):
            is_problem = may_wait if now < time.begins else progress.waiting > 0
            item = _item(owner.by, owner.group, time.name, time_text(time.begins), sentence, is_problem=is_problem)
            if time.begins - margin <= now:
                item["own_server"] = {"shape": published.shapes[choice].id, **own_server_sentences(title)}
            yield item


def _item(owner: str, group: str, name: str, begin: str, sentence: str, *, is_problem: bool) -> dict[str, Any]:
    user = owner.removeprefix(_USER) if owner.startswith(_USER) else ""
    return {"user": user, "group": group, "name": name, "begins": begin, "sentence": sentence, "is_problem": is_problem}
