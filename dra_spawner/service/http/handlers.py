"""Handlers of status, nodes, decisions, metrics and probes."""

from __future__ import annotations

from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from tornado.web import HTTPError

from dra_spawner import __version__
from dra_spawner.history.decision_log import NumberedDecision
from dra_spawner.placeholders.controller.wait_calibration import EstimateOutcome, WaitCalibration
from dra_spawner.placeholders.planner.waits import SHARE_INSIDE
from dra_spawner.service.context import Role, ServiceContext
from dra_spawner.service.http.authentication import ApiHandler, SecureHandler
from dra_spawner.service.node_figures import NodeFigures

__all__ = [
    "DecisionsHandler",
    "LivenessHandler",
    "MetricsHandler",
    "NodesHandler",
    "NotFoundHandler",
    "ReadinessHandler",
    "StatusHandler",
    "decision_json",
    "wait_estimates_json",
]


class LivenessHandler(SecureHandler):
    """``/healthz``: 200 while the process and its event loop run."""

    def get(self) -> None:
        self.write_json({"alive": True})


class ReadinessHandler(SecureHandler):
    """``/readyz``: whether the data of this replica are complete and fresh; 503 if not."""

    def get(self) -> None:
        readiness = self.context.readiness()
        self.set_status(200 if readiness.ready else 503)
        self.write_json({"ready": readiness.ready, "role": readiness.role, "reasons": readiness.reasons})


class StatusHandler(ApiHandler):
    """``GET api/status``: version, role, watched resources, and every problem of this replica."""

    async def get(self) -> None:
        context = self.context
        readiness = context.readiness()
        watch, elector = context.watch, context.elector
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

    Query: ``limit`` and ``after`` (a name) for pages, ``name`` for one node.
    """

    async def get(self) -> None:
        figures = required(self.context.figures)
        name = self.get_query_argument("name", "")
        nodes, after = await figures.nodes(
            after=self.get_query_argument("after", ""), limit=self.number("limit", 100), name=name
        )
        if name and not nodes:
            raise HTTPError(404, "There is no node of this name.")
        watch = self.context.watch
        assert watch is not None
        self.write_json(
            {
                "items": nodes,
                "next": after,
                "total": len(watch.snapshot.nodes),
                "staleness_seconds": _finite(watch.staleness_seconds()),
                "broken": [str(each) for each in watch.snapshot.broken],
            }
        )


class DecisionsHandler(ApiHandler):
    """``GET api/decisions``: the decisions of this replica with time and reason, newest first.

    Query: ``limit``, ``after`` (a number: only newer decisions), and the filters ``kind``, ``profile``, ``node``.
    """

    async def get(self) -> None:
        wanted = {name: self.get_query_argument(name, "") for name in ("kind", "profile", "node")}
        found = self.context.decisions.newest(
            self.number("limit", 100),
            after=self.number("after", 0, most=10**15),
            matches=lambda decision: all(
                not value or getattr(decision, name) == value for name, value in wanted.items()
            ),
        )
        self.write_json(
            {
                "items": [decision_json(each) for each in found],
                "total": self.context.decisions.count,
                "incomplete_because": self.context.incomplete_because(),
            }
        )


class MetricsHandler(ApiHandler):
    """``GET metrics``, for Prometheus."""

    @property
    def is_protected(self) -> bool:
        return self.web.authenticate_metrics

    @property
    def accepted_scopes(self) -> frozenset[str]:
        return super().accepted_scopes | self.web.metrics_scopes

    async def get(self) -> None:
        context = self.context
        if context.figures is not None:
            await context.figures.refresh()
            if context.watch is not None and context.watch.synced:
                context.idle_devices.note(context.figures.by_class, counts=context.role is Role.LEADER)
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.finish(generate_latest(self.context.registry))


class NotFoundHandler(SecureHandler):
    """Every other address: 404."""

    def prepare(self) -> None:
        raise HTTPError(404)


def required(figures: NodeFigures | None) -> NodeFigures:
    """The figures; 503 while the cluster is not found."""
    if figures is None:
        raise HTTPError(503, "The cluster is not found yet.")
    return figures


def decision_json(numbered: NumberedDecision) -> dict[str, Any]:
    """A decision as JSON."""
    decision = numbered.decision
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
