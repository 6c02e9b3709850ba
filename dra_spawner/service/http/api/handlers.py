"""Handlers of status, nodes, decisions, metrics and probes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from tornado.web import HTTPError

from dra_spawner import __version__
from dra_spawner.history.decision_log import Decision, NumberedDecision
from dra_spawner.placeholders.controller.answers.wait_calibration import EstimateOutcome, WaitCalibration
from dra_spawner.placeholders.lifecycle import IdleAction
from dra_spawner.placeholders.planner.answers.waits import SHARE_INSIDE
from dra_spawner.service.context import Role, ServiceContext
from dra_spawner.service.figures.node_figures import NodeFigures
from dra_spawner.service.http.api.placeholder_handlers import profiles_json
from dra_spawner.service.http.requests.authentication import ApiHandler, SecureHandler
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT, TEXT, Access, Query, endpoint
from dra_spawner.service.http.requests.page_frame import may
from dra_spawner.service.http.requests.paging import write_token
from dra_spawner.service.http.schemas.cluster_schemas import DECISIONS, LIVENESS, NODES, READINESS, STATUS
from dra_spawner.service.http.schemas.schema_parts import integer, text

#: Digits of a decision's number.
_LONGEST_NUMBER: Final = 16
_ABOUT_IDLE: Final = frozenset(each.value for each in IdleAction)


class LivenessHandler(SecureHandler):
    """``/healthz``: 200 while the process and its event loop run."""

    @endpoint("Whether the process and its event loop run.", Access.EVERYBODY, answer=LIVENESS)
    def get(self) -> None:
        self.write_json({"alive": True})


class ReadinessHandler(SecureHandler):
    """``/readyz``: whether the data of this replica are complete and fresh; 503 if not."""

    @endpoint("Whether this replica can answer; 503 if not.", Access.EVERYBODY, answer=READINESS, unready=True)
    def get(self) -> None:
        readiness = self.context.readiness()
        self.set_status(200 if readiness.ready else 503)
        self.write_json({"ready": readiness.ready, "role": readiness.role, "reasons": readiness.reasons})


class StatusHandler(ApiHandler):
    """``GET api/status``: version, role, watched resources, and every problem of this replica."""

    @endpoint("Version, role, watched kinds of objects, and problems of this replica.", Access.READ, answer=STATUS)
    async def get(self) -> None:
        context = self.context
        readiness = context.readiness()
        watch, elector = context.watch, context.elector
        if context.figures is not None:
            await context.figures.refresh()
        self.write_json(
            {
                "version": __version__,
                "ready": readiness.ready,
                "reasons": readiness.reasons,
                "problems": context.problems(),
                "role": readiness.role,
                "identity": elector.identity if elector is not None else "",
                "leader": elector.leader if elector is not None else "",
                "staleness_seconds": _finite(watch.staleness_seconds()) if watch is not None else None,
                "wait_estimates": wait_estimates_json(context),
                "resources": [
                    {
                        "resource": each.resource,
                        "state": each.state,
                        "synced": each.synced,
                        "staleness_seconds": _finite(each.staleness_seconds),
                        "objects": each.objects,
                        "problem": each.problem,
                    }
                    for each in (watch.status() if watch is not None else ())
                ],
            }
        )


def wait_estimates_json(context: ServiceContext) -> dict[str, Any]:
    """How estimates of waits came out since the start; only the leader compares them."""
    calibration = context.waits.calibration if context.waits is not None else WaitCalibration()
    counts = {each.value: calibration.counts[each] for each in EstimateOutcome}
    return {**counts, "share_inside": calibration.share_inside, "aim": SHARE_INSIDE}


class NodesHandler(ApiHandler):
    """``GET api/nodes``: nodes with their devices, the claims and pods of each device, and both utilizations.

    Query: ``limit`` and ``continue`` for pages, ``name`` for one node.
    """

    @endpoint(
        "Nodes with their devices, the shares and users of each device, and the utilization.",
        Access.READ,
        answer=NODES,
        query=(LIMIT, CONTINUE, Query("name", "Only this node.", text("n1"))),
        problems=(404,),
    )
    async def get(self) -> None:
        figures = required(self.context)
        name = self.get_query_argument("name", "")
        nodes, after = await figures.nodes(after=self.continues_after(), limit=self.number("limit"), name=name)
        if name and not nodes:
            raise HTTPError(404, "There is no node of this name.")
        watch = self.context.watch
        assert watch is not None
        self.write_json(
            {
                "items": nodes,
                "continue": write_token(after),
                "total": len(watch.snapshot.nodes),
                "broken": [str(each) for each in watch.snapshot.broken],
            }
        )


class DecisionsHandler(ApiHandler):
    """``GET api/decisions``: the decisions of this replica with time and reason, newest first.

    Query: ``limit``, ``continue``, ``after`` (a number: only newer decisions), and the filters ``kind``, ``profile``,
    ``node``.
    """

    @endpoint(
        "Decisions with their reasons, newest first.",
        Access.READ,
        answer=DECISIONS,
        query=(
            LIMIT,
            CONTINUE,
            Query("after", "Only decisions with a higher number.", integer(16, maximum=10**15)),
            Query("kind", "Only decisions of this kind.", text("delete-placeholder")),
            Query("profile", "Only decisions about this profile.", text("gpu-slice")),
            Query("node", "Only decisions about this node.", text("n1")),
        ),
    )
    async def get(self) -> None:
        before, limit = self.continues_after(), self.number("limit")
        if before and not (before.isdecimal() and len(before) < _LONGEST_NUMBER):
            raise HTTPError(400, "continue: allowed: the text that the page before has in `continue`.")
        wanted = {name: self.get_query_argument(name, "") for name in ("kind", "profile", "node")}
        with_names = may(Access.ADMIN, self.web, self.hub_user)
        found = self.context.decisions.newest(
            limit + 1,
            after=self.number("after", 0, most=10**15),
            before=int(before) if before else None,
            matches=lambda decision: all(
                not value or getattr(shown_decision(decision, with_names=with_names), name) == value
                for name, value in wanted.items()
            ),
        )
        self.write_json(
            {
                "items": [decision_json(each, with_names=with_names) for each in found[:limit]],
                "continue": write_token(str(found[limit - 1].number)) if 0 < limit < len(found) else "",
                "total": self.context.decisions.count,
                "incomplete_because": self.context.incomplete_because(),
            }
        )


class MetricsHandler(ApiHandler):
    """``GET metrics``, for Prometheus."""

    @endpoint("Metrics for Prometheus.", Access.METRICS, media_type=TEXT)
    async def get(self) -> None:
        context = self.context
        if context.figures is not None:
            await context.figures.refresh()
            if context.watch is not None and context.watch.synced:
                context.idle_devices.note(context.figures.by_class, counts=context.role is Role.LEADER)
        if (controller := context.controller) is not None and controller.is_on:
            # For the metric of choices; it is shared with the forms, and seldom computed on a big cluster.
            await context.profile_answers.answer(controller, "", lambda: profiles_json(context))
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.finish(generate_latest(self.context.registry))


class NotFoundHandler(SecureHandler):
    """Every other address: 404."""

    async def prepare(self) -> None:
        raise HTTPError(404)


def required(context: ServiceContext) -> NodeFigures:
    """The figures; 503 while the cluster is not read."""
    if because := context.unread_because():
        raise HTTPError(503, "%s", because)
    assert context.figures is not None
    return context.figures


def publish_decisions(context: ServiceContext) -> None:
    """Give each decision to the streams of events."""
    context.decisions.on_append(
        lambda numbered: context.feed.publish("decision", decision_json(numbered, with_names=False))
    )


def shown_decision(decision: Decision, *, with_names: bool) -> Decision:
    """A decision as a reader sees it: only administrators read whose server is idle."""
    if with_names or decision.kind not in _ABOUT_IDLE:
        return decision
    return replace(decision, subject="a user's server", node="")


def decision_json(numbered: NumberedDecision, *, with_names: bool) -> dict[str, Any]:
    """A decision as JSON."""
    decision = shown_decision(numbered.decision, with_names=with_names)
    return {
        "number": numbered.number,
        "at": decision.at.isoformat(),
        "kind": decision.kind,
        "subject": decision.subject,
        "reason": decision.reason,
        "code": decision.code,
        "node": decision.node,
        "profile": decision.profile,
        "outcome": decision.outcome,
        "details": dict(decision.details),
    }


def _finite(seconds: float) -> float | None:
    """The rounded number; None for infinity, which JSON cannot express."""
    return round(seconds, 3) if seconds != float("inf") else None
