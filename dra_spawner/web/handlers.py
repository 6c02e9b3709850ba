"""What the service answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from tornado.web import HTTPError

from dra_spawner import __version__
from dra_spawner.headroom import labels
from dra_spawner.history.decision_log import NumberedDecision
from dra_spawner.web.authentication import ApiHandler, PageHandler, SecureHandler
from dra_spawner.web.context import Role
from dra_spawner.web.figures import NodeFigures
from dra_spawner.web.passing_on import LeadersHandler, ReplicaHandler, leaders_answers, why_not_the_leaders
from dra_spawner.web.placeholder_handlers import placeholders_json, profiles_json, stop_json
from dra_spawner.web.waiting_handlers import waiting_json

__all__ = [
    "AliveHandler",
    "DecisionsHandler",
    "MetricsHandler",
    "NodesHandler",
    "NodesPage",
    "NotFoundHandler",
    "ReadyHandler",
    "StatusHandler",
]

#: On the page; programs ask for all.
_PLACEHOLDERS_SHOWN = 100
_DECISIONS_SHOWN = 20
_WAITING_SHOWN = 50
_WORDS = {
    "warm": "at once, kept ready",
    "fresh": "now, there is room",
    "yield": "in a moment, placeholders make way",
    "scale-up": "when another node has come",
    "never": "never",
}
"""What each `PlacementKind` means to people."""


class AliveHandler(SecureHandler):
    """``/healthz``: the process runs, and its event loop turns."""

    def get(self) -> None:
        self.write_json({"alive": True})


class ReadyHandler(SecureHandler):
    """``/readyz``: whether what this replica says of the cluster is worth anything; 503 if not."""

    def get(self) -> None:
        readiness = self.context.readiness()
        self.set_status(200 if readiness.ready else 503)
        self.write_json({"ready": readiness.ready, "role": readiness.role, "reasons": readiness.reasons})


class StatusHandler(ReplicaHandler):
    """``GET api/status``: what the service is about, and all that is wrong, with what the leader says is."""

    async def get(self) -> None:
        context = self.context
        readiness = context.readiness()
        watch, elector = context.watch, context.elector
        problems = context.problems()
        if readiness.role is Role.STANDBY and not self.is_passed_on:
            answers = await leaders_answers(context, "api/status")
            problems = _merged(problems, answers[0]["problems"] if answers else [why_not_the_leaders(context)])
        self.write_json(
            {
                "version": __version__,
                "ready": readiness.ready,
                "reasons": readiness.reasons,
                "problems": problems,
                "role": readiness.role,
                "identity": elector.identity if elector is not None else "",
                "leader": elector.leader if elector is not None else "",
                "staleness_seconds": _finite(watch.staleness_seconds()) if watch is not None else None,
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


class NodesHandler(ApiHandler):
    """``GET api/nodes``: nodes with their devices, who uses them, and how full they are in both ways.

    Query: ``limit`` and ``after`` (a name) for one page after the other, ``name`` for one node.
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


class DecisionsHandler(LeadersHandler):
    """``GET api/decisions``: what was decided when and why, newest first.

    Query: ``limit``, ``after`` (a number, for what is new since), and ``kind``, ``profile``, ``node`` to choose.
    """

    address = "api/decisions"

    async def own_answer(self) -> dict[str, Any]:
        wanted = {name: self.get_query_argument(name, "") for name in ("kind", "profile", "node")}
        found = self.context.decisions.newest(
            self.number("limit", 100),
            after=self.number("after", 0, most=10**15),
            matches=lambda decision: all(
                not value or getattr(decision, name) == value for name, value in wanted.items()
            ),
        )
        return {"items": [_decision(each) for each in found], "total": self.context.decisions.count}


class MetricsHandler(ApiHandler):
    """``GET metrics``, for Prometheus."""

    @property
    def is_protected(self) -> bool:
        return self.web.authenticate_metrics

    @property
    def wanted_scopes(self) -> frozenset[str]:
        return super().wanted_scopes | self.web.metrics_scopes

    async def get(self) -> None:
        if self.context.figures is not None:
            await self.context.figures.refresh()
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.finish(generate_latest(self.context.registry))


class NodesPage(PageHandler):
    """``GET`` of the service itself: the nodes, for people."""

    async def get(self) -> None:
        nodes: list[dict[str, Any]] = []
        after = ""
        watch = self.context.watch
        if self.context.figures is not None:
            nodes, after = await self.context.figures.nodes(after=self.get_query_argument("after", ""), limit=50)
        readiness = self.context.readiness()
        told = await self._told()
        await self.render(
            "nodes.html",
            nodes=nodes,
            profiles=await profiles_json(self.context),
            words=_WORDS,
            told=told,
            span=_span,
            marks=_marks,
            after=after,
            context=self.context,
            total=len(watch.snapshot.nodes) if watch is not None else 0,
            age=_age(watch.staleness_seconds()) if watch is not None else "never",
            percent=lambda value: f"{value:.0%}",
            readiness=readiness,
            problems=_merged(self.context.problems(), told.problems),
            user=self.hub_user["name"],
            web=self.web,
        )

    async def _told(self) -> _Told:
        """What the leader tells, or this replica where that does not answer, and then why."""
        context = self.context
        addresses = (
            f"api/placeholders?limit={_PLACEHOLDERS_SHOWN}",
            f"api/waiting?limit={_WAITING_SHOWN}",
            f"api/decisions?limit={_DECISIONS_SHOWN}",
            "api/status",
        )
        if context.role is Role.STANDBY and (answers := await leaders_answers(context, *addresses)) is not None:
            kept, waiting, decisions, status = answers
            return _Told(
                kept["items"],
                kept["total"],
                kept["stop"],
                waiting["items"],
                waiting["total"],
                decisions["items"],
                status["problems"],
            )
        keeper = context.keeper
        placeholders = placeholders_json(keeper, context) if keeper is not None else []
        waits = waiting_json(keeper) if keeper is not None else []
        why = why_not_the_leaders(context) if context.role is Role.STANDBY else ""
        return _Told(
            placeholders[:_PLACEHOLDERS_SHOWN],
            len(placeholders),
            stop_json(keeper) if keeper is not None else None,
            waits[:_WAITING_SHOWN],
            len(waits),
            [_decision(each) for each in context.decisions.newest(_DECISIONS_SHOWN)],
            [why] if why else [],
        )


@dataclass(frozen=True, slots=True)
class _Told:
    """What the page shows and only the leader knows, as the API answers it: so much of it as is shown, and how much
    there is.
    """

    placeholders: Sequence[Mapping[str, Any]]
    all_placeholders: int
    stop: Mapping[str, Any] | None
    waiting: Sequence[Mapping[str, Any]]
    all_waiting: int
    decisions: Sequence[Mapping[str, Any]]
    problems: Sequence[str]
    """What is wrong at the leader, or that it does not answer."""


class NotFoundHandler(SecureHandler):
    """Everything else."""

    def prepare(self) -> None:
        raise HTTPError(404)


def required(figures: NodeFigures | None) -> NodeFigures:
    """The figures; 503 while the cluster is not found."""
    if figures is None:
        raise HTTPError(503, "The cluster is not found yet.")
    return figures


def _merged(*problems: Iterable[str]) -> tuple[str, ...]:
    """Each once."""
    return tuple(dict.fromkeys(itertools.chain(*problems)))


def _decision(numbered: NumberedDecision) -> dict[str, Any]:
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


def _marks(node_labels: Mapping[str, str]) -> list[str]:
    """What our labels on a node mean."""
    found = []
    if (ready := node_labels.get(labels.IMAGES_READY)) is not None:
        found.append("for users, although something is missing" if ready == labels.LATE else "ready for users")
    if node_labels.get(labels.ATTRACT) == labels.TRUE:
        found.append("attracts placeholders")
    if node_labels.get(labels.DRAINING) == labels.TRUE:
        found.append("is to become empty")
    return found


def _age(seconds: float) -> str:
    if seconds == float("inf"):
        return "not complete yet"
    return "now" if seconds < 60 else f"{seconds:.0f} s ago"


def _span(seconds: float) -> str:
    """How long something has been, roughly."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _finite(seconds: float) -> float | None:
    """JSON knows no infinity."""
    return round(seconds, 3) if seconds != float("inf") else None
