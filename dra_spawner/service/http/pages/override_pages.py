"""Pages with overrides of placeholders: placeholders, calendar, decisions, audit trail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tornado.httputil import url_concat
from tornado.web import HTTPError

from dra_spawner.common.counted_text import percent, span
from dra_spawner.history.decision_log import Decision
from dra_spawner.placeholders.planner.targets.overrides import WHOLE_SERVICE, OverrideKind, Overrides
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.context import Role
from dra_spawner.service.http.api.calendar_entry_handlers import entry_json
from dra_spawner.service.http.api.forecast_handler import expected_json
from dra_spawner.service.http.api.handlers import decision_json, shown_decision, wait_estimates_json
from dra_spawner.service.http.api.override_handlers import audit_json
from dra_spawner.service.http.api.placeholder_handlers import profiles_json, safeguard_json
from dra_spawner.service.http.pages.choice_rows import DEMAND_MEANINGS, bar_of, choice_rows, set_by_people
from dra_spawner.service.http.pages.page_text import (
    begins,
    begins_in,
    change_text,
    clock,
    deed,
    has_begun,
    kept_values,
    local_begin,
    moment,
    part_of_path,
    person,
    unrehearsed,
)
from dra_spawner.service.http.requests.authentication import PageHandler
from dra_spawner.service.http.requests.endpoints import HTML, Access, Query, endpoint
from dra_spawner.service.http.requests.page_frame import may
from dra_spawner.service.http.schemas.schema_parts import integer, text

_DECISIONS_SHOWN: Final = 100
_AUDIT_SHOWN: Final = 200
_ENTRIES_SHOWN: Final = 200
_NODES_SHOWN: Final = 1000
#: Placeholders of one choice; the API has all.
_PLACEHOLDERS_SHOWN: Final = 50
#: Digits of a decision's number.
_LONGEST_NUMBER: Final = 16
_SETTING_WORDS: Final = {
    OverrideKind.PLACEHOLDERS: ("placeholders", "reset-placeholders"),
    OverrideKind.PAUSED: ("paused", "resume"),
    OverrideKind.DRAINING: ("node drained", "undrain"),
    OverrideKind.DEVICES: ("device drained", "undrain-device"),
    OverrideKind.OBSERVING: ("observing", "decide"),
    OverrideKind.ACTING: ("acting", "advise"),
}
"""Word of a setting, and the action that ends it."""
_OF_SERVICE: Final = (OverrideKind.OBSERVING, OverrideKind.ACTING)
"""Kinds whose address has no name."""


class OverridePage(PageHandler):
    """Base of these pages."""

    @property
    def notes(self) -> Sequence[str]:
        """Why the page may be incomplete."""
        readiness = self.context.readiness()
        because = self.context.incomplete_because() if self.context.role is not Role.LEADER else ""
        return (*readiness.reasons, *filter(None, [because]))

    @property
    def now(self) -> datetime:
        controller = self.context.controller
        return controller.now() if controller is not None else self.context.now()

    def get_template_namespace(self) -> dict[str, Any]:
        """Names that these templates know."""
        words = {"span": span, "moment": moment, "path_part": part_of_path, "kept_values": kept_values}
        controller = self.context.controller
        found = {"notes": self.notes, "is_found": not self.context.unread_because(), **_mode_words(controller)}
        return {**super().get_template_namespace(), **found, **words}


class PlaceholdersPage(OverridePage):
    """``GET placeholders``: target against running of each choice, with the reason and the actions."""

    @endpoint("Page: target and running placeholders of each choice.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        controller = self.context.controller
        found = await choice_rows(self.context)
        await self.render(
            "placeholders_page.html",
            found=found,
            bar_of=bar_of,
            safeguard=safeguard_json(controller) if controller and not self.context.unread_because() else None,
            is_on=controller is not None and controller.is_on,
            most_shown=_PLACEHOLDERS_SHOWN,
            meanings=DEMAND_MEANINGS,
            percent=percent,
            estimates=wait_estimates_json(self.context),
        )


class CalendarPage(OverridePage):
    """``GET calendar``: entries of the coming week with their rehearsals, and entries that people added."""

    @endpoint("Page: calendar entries, and whether they can be satisfied.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        controller, runner = self.context.controller, self.context.scale_ahead
        leads = self.context.role is Role.LEADER and runner is not None
        expected = expected_json(controller, runner) if controller is not None else []
        items = runner.added.items if leads and runner is not None else ()
        added = [{**entry_json(each), "first": local_begin(each.entry)} for each in items]
        await self.render(
            "calendar_page.html",
            expected=expected[:_ENTRIES_SHOWN],
            all_expected=len(expected),
            added=added,
            choices=[group.name for group in controller.groups()] if controller is not None else [],
            begins=begins,
            clock=clock,
            person=person,
            first_begin=lambda entry: begins(entry["first"]),
            begins_in=lambda entry: begins_in(entry, self.now),
            has_begun=lambda entry: has_begun(entry, self.now),
            unrehearsed=lambda entry: unrehearsed(entry, self.now),
        )


class WhatIfPage(OverridePage):
    """``GET what-if``: a form for ``POST api/what-if``."""

    @endpoint(
        "Page: what if more users came, or nodes came or went.",
        Access.READ,
        media_type=HTML,
        is_page=True,
        query=(
            Query("profile", "Choice of the further users.", text("gpu-slice")),
            Query("users", "Number of further users.", integer(10, maximum=1000)),
            Query("count", "Number of further nodes.", integer(0, maximum=50)),
            Query(
                "added", "Kind of the further nodes, or a node that they are like, as JSON.", text('["kind", "a100"]')
            ),
            Query("lost", "Node that is lost.", text("n1")),
        ),
    )
    async def get(self) -> None:
        # The script of the page asks with what the address has.
        asked = {name: self.get_query_argument(name, "") for name in ("profile", "users", "count", "added", "lost")}
        watch = self.context.watch
        choices = await profiles_json(self.context)
        await self.render(
            "what_if_page.html",
            asked=asked,
            choices=[each["name"] for each in choices if each["availability"] is not None],
            nodes=sorted(watch.snapshot.nodes)[:_NODES_SHOWN] if watch is not None else [],
            kinds=self.context.rehearsals.kinds() if watch is not None and self.context.rehearsals is not None else (),
        )


class DecisionsPage(OverridePage):
    """``GET decisions``: decisions with their reasons, newest first.

    Query: ``search`` (in object, reason and outcome), ``kind``, ``profile``, ``node``, ``before`` (a number).
    """

    @endpoint(
        "Page: decisions with their reasons.",
        Access.READ,
        media_type=HTML,
        is_page=True,
        query=(
            Query("search", "Only decisions with this text in object, reason or outcome.", text("gpu")),
            Query("kind", "Only decisions of this kind.", text("delete-placeholder")),
            Query("profile", "Only decisions about this profile.", text("gpu-slice")),
            Query("node", "Only decisions about this node.", text("n1")),
            Query("before", "Only decisions with a lower number.", integer(16, maximum=10**15)),
        ),
    )
    async def get(self) -> None:
        log, with_names = self.context.decisions, may(Access.ADMIN, self.web, self.hub_user)
        wanted = {name: self.get_query_argument(name, "") for name in ("search", "kind", "profile", "node")}
        before = self.get_query_argument("before", "")
        if before and not (before.isascii() and before.isdigit() and len(before) < _LONGEST_NUMBER):
            raise HTTPError(400, "before: allowed: the number of a decision.")
        found = log.newest(
            _DECISIONS_SHOWN + 1,
            before=int(before) if before else None,
            matches=lambda decision: _matches(shown_decision(decision, with_names=with_names), wanted),
        )
        shown = found[:_DECISIONS_SHOWN]
        rest = (
            {**{name: value for name, value in wanted.items() if value}, "before": str(shown[-1].number)}
            if shown
            else {}
        )
        everything = [each.decision for each in log.newest(10**9)]
        await self.render(
            "decisions_page.html",
            decisions=[decision_json(each, with_names=with_names) for each in shown],
            wanted=wanted,
            kinds=sorted({each.kind for each in everything}),
            profiles=sorted({each.profile for each in everything if each.profile}),
            is_first=not before,
            is_filtered=any(wanted.values()),
            total=len(everything),
            oldest=everything[-1].at.isoformat() if everything else "",
            has_history=self.context.history is not None and self.context.history.is_on,
            older=url_concat(self.web.url("decisions"), rest) if len(found) > len(shown) else "",
        )


class AuditPage(OverridePage):
    """``GET audit``: what people have set at present, and what they changed."""

    @endpoint("Page: what people have set, and the audit trail.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        controller = self.context.controller
        overrides = controller.overrides if controller is not None else None
        problem = overrides.unknown_because if overrides is not None else ""
        settings = list(set_by_people(controller).values()) if controller is not None else []
        present = overrides.present if overrides is not None and not problem else Overrides()
        trail = list(reversed(present.audit))
        raised = present.classes.active(self.now).raised
        await self.render(
            "audit_page.html",
            settings=[(each, *_SETTING_WORDS[OverrideKind(each.setting["kind"])]) for each in settings],
            address_of=_address_of,
            raised=[(present.entries.get(name, {}).get("name", name), each) for name, each in sorted(raised.items())],
            number_of_entries=len(present.entries),
            trail=[
                {**audit_json(each), **deed(each.change, each.subject), "details": change_text(each.details)}
                for each in trail[:_AUDIT_SHOWN]
            ],
            all_changes=len(trail),
            problem=problem,
            is_on=controller is not None and controller.is_on,
        )


def _mode_words(controller: ScaleAheadController | None) -> dict[str, Any]:
    """What `mode_banner.html` shows: the order to act, the mode without it, and whether one can be given."""
    if controller is None:
        return {"acting": None, "can_act": False, "configured_mode": ""}
    mode, settings = controller.scale_ahead.settings.mode, set_by_people(controller)
    return {
        "acting": settings.get((OverrideKind.ACTING, WHOLE_SERVICE)) if mode is not ScaleAheadMode.ACT else None,
        "can_act": controller.is_on
        and controller.scale_ahead.mode is not ScaleAheadMode.ACT
        and not controller.policy.observing_because,
        "configured_mode": mode.value,
    }


def _address_of(setting: Mapping[str, Any]) -> str:
    """Address of a setting below the prefix."""
    kind, name = setting["kind"], part_of_path(setting["name"])
    if kind == OverrideKind.DEVICES:
        return f"api/devices/{name}/drain"
    return f"api/settings/{kind}" + (f"/{name}" if kind not in _OF_SERVICE else "")


def _matches(decision: Decision, wanted: Mapping[str, str]) -> bool:
    search = wanted["search"].lower()
    texts = (decision.subject, decision.reason, decision.outcome, decision.profile, decision.node, decision.code)
    return all(
        not value or getattr(decision, name) == value for name, value in wanted.items() if name != "search"
    ) and (not search or any(search in each.lower() for each in texts))
