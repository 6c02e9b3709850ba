"""The first page of an administrator, and the same for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dra_spawner.placeholders.controller.records.decision_text import PREFERENCE, REFUSAL
from dra_spawner.placeholders.lifecycle import ActionKind, IdleAction
from dra_spawner.service.http.pages.override_pages import OverridePage
from dra_spawner.service.http.pages.page_text import begins, begins_in, has_begun, unrehearsed
from dra_spawner.service.http.pages.today_figures import today_json
from dra_spawner.service.http.requests.authentication import ApiHandler
from dra_spawner.service.http.requests.endpoints import HTML, Access, endpoint
from dra_spawner.service.http.requests.page_frame import PAGES
from dra_spawner.service.http.schemas.today_schemas import TODAY

DECISION_WORDS: Final[Mapping[str, str]] = {
    ActionKind.CREATE_PLACEHOLDER: "placeholder created",
    ActionKind.RESERVE_PLACEHOLDER: "placeholder reserved",
    ActionKind.DELETE_PLACEHOLDER: "placeholder deleted",
    ActionKind.ADD_CONSUMER: "device handed over",
    ActionKind.DELETE_CLAIM: "claim deleted",
    REFUSAL: "no placeholder for a server",
    ActionKind.LABEL_NODE: "node labelled",
    ActionKind.LABEL_POD: "pod labelled",
    ActionKind.CHANGE_TICKET: "ticket changed",
    PREFERENCE: "device preferred",
    IdleAction.WARN: "idle server warned",
    IdleAction.WITHDRAW: "warning withdrawn",
    IdleAction.STOP: "idle server stopped",
    IdleAction.KEEP: "idle server kept by its user",
}
"""Words for kinds of decisions."""


class TodayHandler(ApiHandler):
    """``GET api/today``: what is wrong, who waits and for whose devices, what comes, what was done."""

    @endpoint("What is wrong, who waits and for whose devices, what comes, what was done.", Access.READ, answer=TODAY)
    async def get(self) -> None:
        self.write_json(await today_json(self.context))


class TodayPage(OverridePage):
    """``GET`` of the prefix: the same as a page."""

    @endpoint(
        "Page: what is wrong, who waits, what comes, what was done.",
        Access.READ,
        media_type=HTML,
        is_page=True,
        leads_to="classes",
    )
    async def get(self) -> None:
        found = await today_json(self.context)
        errors = sum(each["severity"] == "error" for each in found["wrong"])
        await self.render(
            "today.html",
            found=found,
            errors=errors,
            titles=PAGES,
            words=DECISION_WORDS,
            begins=begins,
            begins_in=lambda entry: begins_in(entry, self.now),
            has_begun=lambda entry: has_begun(entry, self.now),
            unrehearsed=lambda entry: unrehearsed(entry, self.now),
        )
