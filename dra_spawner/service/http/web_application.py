"""The tornado application: the handler of each address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tornado.web import Application, StaticFileHandler, URLSpec

from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.addresses import Address, pattern_of
from dra_spawner.service.http.api import (
    handlers,
    order_handlers,
    override_handlers,
    pending_handlers,
    placeholder_handlers,
)
from dra_spawner.service.http.api.calendar_entry_handlers import CalendarEntriesHandler, CalendarEntryHandler
from dra_spawner.service.http.api.doctor_handlers import DoctorHandler, DoctorPage
from dra_spawner.service.http.api.event_handler import EventsHandler
from dra_spawner.service.http.api.forecast_handler import ForecastsHandler
from dra_spawner.service.http.api.history_report_handlers import (
    MissesHandler,
    MissReportPage,
    StandingHandler,
    UseHandler,
    UsePage,
)
from dra_spawner.service.http.api.node_summary_handler import NodeSummariesHandler
from dra_spawner.service.http.api.placement_handler import PlacementsHandler
from dra_spawner.service.http.api.rehearsal_handler import RehearsalsHandler
from dra_spawner.service.http.api.resume_handler import ResumeHandler
from dra_spawner.service.http.api.what_if_handler import WhatIfHandler
from dra_spawner.service.http.classes import class_handlers, request_handlers
from dra_spawner.service.http.classes.class_feed import ClassFeedHandler
from dra_spawner.service.http.classes.class_news import ClassNewsHandler
from dra_spawner.service.http.classes.classes_page import ClassesPage
from dra_spawner.service.http.idle.idle_handlers import IdleKeepHandler, IdlePage, IdleServersHandler
from dra_spawner.service.http.openapi import openapi_document
from dra_spawner.service.http.pages import override_pages
from dra_spawner.service.http.pages.nodes_page import NodesPage
from dra_spawner.service.http.pages.timeline_handler import TimelineHandler, TimelinePage
from dra_spawner.service.http.pages.today_page import TodayHandler, TodayPage
from dra_spawner.service.http.requests.authentication import ApiHandler, CallbackHandler
from dra_spawner.service.http.requests.endpoints import Access, endpoint
from dra_spawner.service.http.requests.guarded_handler import GuardedHandler, sentence_of
from dra_spawner.service.http.tickets.ticket_handlers import OwnTicketsHandler, TicketHandler, TicketsHandler
from dra_spawner.service.metrics.service_metrics import register


class OpenApiHandler(ApiHandler):
    """``GET api/openapi.json``: every address of the service, with examples."""

    @endpoint("This document.", Access.READ, answer={"type": "object", "examples": [{"openapi": "3.1.0"}]})
    async def get(self) -> None:
        self.write_json(openapi_document(self.settings["addresses"], self.web.prefix))


_HERE = Path(__file__).parent

#: docs/reference/api.md and tests/adversary/test_requests.py have a row for each address: the
#: answer that each caller gets.
ADDRESSES: tuple[Address, ...] = (
    ("", TodayPage),
    ("api/openapi.json", OpenApiHandler),
    ("api/events", EventsHandler),
    ("api/status", handlers.StatusHandler),
    ("api/nodes", handlers.NodesHandler),
    ("api/node-summaries", NodeSummariesHandler),
    ("api/decisions", handlers.DecisionsHandler),
    ("api/calendar-entries", CalendarEntriesHandler),
    ("api/calendar-entries/{id}", CalendarEntryHandler),
    ("api/classes", class_handlers.ClassesHandler),
    ("api/classes/{id}", class_handlers.ClassHandler),
    ("api/classes/{id}/max", class_handlers.ClassMaxHandler),
    ("api/class-news", ClassNewsHandler),
    ("api/class-rehearsals", class_handlers.ClassRehearsalsHandler),
    ("api/class-requests", request_handlers.ClassRequestsHandler),
    ("api/class-requests/{id}", request_handlers.ClassRequestHandler),
    ("api/class-requests/{id}/approval", request_handlers.ApprovalHandler),
    ("api/class-requests/{id}/refusal", request_handlers.RefusalHandler),
    ("api/forecasts", ForecastsHandler),
    ("api/placeholders", placeholder_handlers.PlaceholdersHandler),
    ("api/placeholders/resume", ResumeHandler),
    ("api/placeholders/{name}", order_handlers.EvictionHandler),
    ("api/placeholders/{name}/reservation", order_handlers.ReleaseHandler),
    ("api/servers/{user}", order_handlers.ServerHandler),
    ("api/settings", override_handlers.SettingsHandler),
    ("api/settings/placeholders/{choice}", override_handlers.PlaceholderSettingHandler),
    ("api/settings/paused/{choice}", override_handlers.PausedHandler),
    ("api/settings/draining/{node}", override_handlers.DrainingHandler),
    ("api/devices/{device}/drain", override_handlers.DeviceDrainHandler),
    ("api/settings/acting", override_handlers.ActingHandler),
    ("api/settings/observing", override_handlers.ObservingHandler),
    ("api/audit", override_handlers.AuditHandler),
    ("api/placements", PlacementsHandler),
    ("api/rehearsals", RehearsalsHandler),
    ("api/what-if", WhatIfHandler),
    ("api/profiles", placeholder_handlers.ProfilesHandler),
    ("api/pending-servers", pending_handlers.PendingServersHandler),
    ("api/tickets", TicketsHandler),
    ("api/tickets/{id}", TicketHandler),
    ("api/own-tickets", OwnTicketsHandler),
    ("api/misses", MissesHandler),
    ("api/standing", StandingHandler),
    ("api/use", UseHandler),
    ("api/idle-servers", IdleServersHandler),
    ("api/idle-servers/keep", IdleKeepHandler),
    ("api/doctor", DoctorHandler),
    ("api/today", TodayHandler),
    ("nodes", NodesPage),
    ("report", MissReportPage),
    ("use", UsePage),
    ("idle", IdlePage),
    ("placeholders", override_pages.PlaceholdersPage),
    ("api/timeline", TimelineHandler),
    ("timeline", TimelinePage),
    ("calendar", override_pages.CalendarPage),
    ("classes", ClassesPage),
    ("classes.ics", ClassFeedHandler),
    ("what-if", override_pages.WhatIfPage),
    ("decisions", override_pages.DecisionsPage),
    ("audit", override_pages.AuditPage),
    ("doctor", DoctorPage),
    ("metrics", handlers.MetricsHandler),
    ("healthz", handlers.LivenessHandler),
    ("readyz", handlers.ReadinessHandler),
    ("oauth_callback", CallbackHandler),
)


class _StaticHandler(GuardedHandler, StaticFileHandler):
    """Static files, without authentication."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("X-Content-Type-Options", "nosniff")

    async def prepare(self) -> None:
        if self.request.method not in ("GET", "HEAD"):
            self.refuse(405, Allow="GET, HEAD")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        # A directory is nothing for readers, and tornado's sentences are for the log.
        status = 404 if status_code == 403 else status_code
        self.write_problem(status, sentence_of(status, None))

    def set_extra_headers(self, path: str) -> None:
        # Modules import one another without a version in the address, so a browser must ask whether they changed.
        self.set_header("Cache-Control", "no-cache")


def web_application(
    context: ServiceContext,
    *,
    cookie_secret: bytes,
    more: Sequence[Address] = (),
    log_function: Callable[[Any], None] | None = None,
) -> Application:
    """The application with all handlers. A handler that needs the cluster answers 503 until the cluster is found.

    Parameters
    ----------
    more
        Further addresses; they come before the service's own.
    """
    register(context)
    handlers.publish_decisions(context)
    prefix, arguments = context.web.prefix, {"context": context}
    rules = [URLSpec(prefix + pattern_of(address), handler, arguments) for address, handler in (*more, *ADDRESSES)]
    rules.append(URLSpec(f"{prefix}static/(.*)", _StaticHandler, {"path": str(_HERE / "static")}))
    if prefix != "/":
        # The kubelet probes the pod without the prefix.
        rules.append(URLSpec("/healthz", handlers.LivenessHandler, arguments))
        rules.append(URLSpec("/readyz", handlers.ReadinessHandler, arguments))
    return Application(
        rules,
        default_handler_class=handlers.NotFoundHandler,
        default_handler_args=arguments,
        template_path=str(_HERE / "templates"),
        cookie_secret=cookie_secret,
        addresses=ADDRESSES,
        log_function=log_function or (lambda handler: None),
    )
