"""Answers about placeholders and what can be had, and where a server that is about to start gets its place."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.web import HTTPError

from dra_spawner.cluster.errors import KubernetesError
from dra_spawner.cluster.leader import NotLeading
from dra_spawner.headroom import labels
from dra_spawner.headroom.placement import Placement
from dra_spawner.headroom.view import Placeholder, View, age
from dra_spawner.history.decision_log import Decision
from dra_spawner.placeholders.availability import ChoiceAvailability, PlaceholderState, state_of
from dra_spawner.placeholders.keeper import PlaceholderKeeper, UnknownShape
from dra_spawner.placeholders.placements import Promise
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.simulator.pods import Pod
from dra_spawner.web.authentication import ApiHandler
from dra_spawner.web.context import ServiceContext

__all__ = ["PlaceholdersHandler", "PlacementsHandler", "ProfilesHandler", "placeholders_json", "profiles_json"]

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
_LONGEST_NAME = 253
_SHAPE = re.compile(r"[0-9a-f]{16}")
_KEYS = ("shape", "pod", "namespace")
#: Of a question that another replica passes on, which is passed on once only.
_PASSED_ON = "X-DRA-Spawner-Replica"
#: The hub waits for a second.
_LEADER_SECONDS = 0.8
#: What tornado's client makes of an answer that does not come.
_NO_ANSWER = 599


class _KeeperHandler(ApiHandler):
    @property
    def keeper(self) -> PlaceholderKeeper:
        """503 while the cluster is not found."""
        if self.context.keeper is None:
            raise HTTPError(503, "The cluster is not found yet.")
        return self.context.keeper


class PlaceholdersHandler(_KeeperHandler):
    """``GET api/placeholders``: each placeholder, where it is, and why."""

    def get(self) -> None:
        items = placeholders_json(self.keeper, self.context)
        self.write_json({"items": items, "total": len(items), "frozen": _frozen(self.keeper)})


class ProfilesHandler(_KeeperHandler):
    """``GET api/profiles``: of each choice that the hub publishes, how soon a server of it would run."""

    async def get(self) -> None:
        keeper = self.keeper
        items = await profiles_json(self.context)
        self.write_json({"items": items, "total": len(items), "problem": keeper.shapes.problem if keeper.is_on else ""})


class PlacementsHandler(_KeeperHandler):
    """``POST api/placements`` with ``{"shape", "pod", "namespace"}``: where a server gets its place.

    It is for the hub, which shows the service's own token, and for whoever may manage the service. A login's cookie
    does not do: another site's page could send that, too.
    """

    @property
    def wanted_scopes(self) -> frozenset[str]:
        return self.web.manage_scopes

    async def prepare(self) -> None:
        kind, _, token = self.request.headers.get("Authorization", "").partition(" ")
        if kind.lower() not in ("token", "bearer") or not token:
            self.refuse_stranger()
        if not self.web.is_own_token(token.strip()):
            await super().prepare()

    async def post(self) -> None:
        question = _question(self.request.body)
        try:
            promise = await self.keeper.place(question["shape"], question["namespace"], question["pod"])
        except UnknownShape:
            self.set_status(404)
            self.write_json({"kind": "unknown", "status": 404, "message": "The hub does not publish this shape."})
            return
        except NotLeading:
            await self._pass_on()
            return
        except KubernetesError as error:
            log.warning("Nothing can be promised: pod=%s error=%s", question["pod"], error)
            raise HTTPError(503, "The Kubernetes API does not let the service promise anything at present.") from None
        self.write_json(_promise_json(promise))

    async def _pass_on(self) -> None:
        """Let the leader answer: a load balancer may send the hub to any replica."""
        elector = self.context.elector
        if elector is not None and elector.leader_url and _PASSED_ON not in self.request.headers:
            headers = {"Authorization": self.request.headers["Authorization"], _PASSED_ON: elector.identity}
            request = HTTPRequest(
                f"{elector.leader_url.rstrip('/')}/api/placements",
                method="POST",
                headers=headers,
                body=self.request.body,
                connect_timeout=_LEADER_SECONDS,
                request_timeout=_LEADER_SECONDS,
                follow_redirects=False,
            )
            try:
                answer = await AsyncHTTPClient().fetch(request, raise_error=False)
                body = json.loads(answer.body or b"")
            except (OSError, ValueError, HTTPClientError) as error:
                log.info("The leader does not answer: url=%s error=%s", elector.leader_url, error)
            else:
                if answer.code != _NO_ANSWER:
                    self.set_status(answer.code)
                    self.write_json(body)
                    return
        # The Lease may still name this one, which has not been able to renew it.
        leader = elector.leader if elector is not None and elector.leader != elector.identity else ""
        who = f"; {leader} does" if leader else ", and it is not known who does"
        raise HTTPError(503, "%s", f"This replica does not lead{who}.")


def _question(body: bytes) -> dict[str, str]:
    """The question, checked: path, what was found and what is allowed."""
    try:
        question = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPError(400, "The body must be JSON.") from None
    if not isinstance(question, dict):
        raise HTTPError(400, "The body must be a JSON object.")
    unknown = sorted(set(map(str, question)) - set(_KEYS))
    if unknown:
        raise HTTPError(400, "%s: not known; allowed: %s.", unknown[0][:40], ", ".join(_KEYS))
    for key in _KEYS:
        value = question.get(key)
        pattern = _SHAPE if key == "shape" else _NAME
        if not isinstance(value, str) or len(value) > _LONGEST_NAME or not pattern.fullmatch(value):
            allowed = "16 hexadecimal digits" if key == "shape" else "a name of a Kubernetes object"
            found = f"found {value!r:.60}" if key in question else "nothing found"
            raise HTTPError(400, "%s: %s; allowed: %s.", key, found, allowed)
    return question


def _promise_json(promise: Promise) -> dict[str, Any]:
    placement = promise.placement
    return {
        **_placement_json(placement),
        "claims": dict(promise.claims),
        "until": promise.until.isoformat() if promise.until is not None else None,
        "gates": list(promise.gates),
    }


def _placement_json(placement: Placement) -> dict[str, Any]:
    return {"kind": placement.kind, "node": placement.node, "reason": placement.reason}


def _frozen(keeper: PlaceholderKeeper) -> str:
    return keeper.latest.frozen if keeper.latest is not None else ""


# --- placeholders ----------------------------------------------------------------------------------------------------


def placeholders_json(keeper: PlaceholderKeeper, context: ServiceContext) -> list[dict[str, Any]]:
    """Each placeholder, by node and name."""
    view = keeper.view()
    decided = _last_decisions(context)
    found = [
        _placeholder_json(keeper, view, each.pod, state_of(view, each), each, decided)
        for each in view.placeholders.values()
    ]
    found += [_placeholder_json(keeper, view, pod, PlaceholderState.LEAVING, None, decided) for pod in view.leaving]
    return sorted(found, key=lambda each: (each["node"], each["name"]))


def _placeholder_json(
    keeper: PlaceholderKeeper,
    view: View,
    pod: Pod,
    state: PlaceholderState,
    placeholder: Placeholder | None,
    decided: Mapping[str, Decision],
) -> dict[str, Any]:
    key = ObjectKey.of(pod)
    shape = pod.labels.get(labels.SHAPE, "")
    observed = keeper.watch.observed(Kind.POD, key)
    created = observed.created if observed is not None else ""
    last = decided.get(f"Pod {key}")
    made_because = observed.annotations.get(labels.REASON, "") if observed is not None else ""
    scheduled = observed.conditions.get("PodScheduled") if observed is not None else None
    reservation = placeholder.reservation if placeholder is not None else None
    return {
        "name": key.name,
        "namespace": key.namespace,
        "shape": shape,
        "profiles": list(keeper.names_of(shape)),
        "node": pod.node_name,
        "state": state,
        "created": created,
        "age_seconds": round(age(created, keeper.now()).total_seconds()),
        "claims": {each.name: each.claim for each in pod.claims if each.claim},
        "promised_to": reservation.pod if reservation is not None else "",
        "promised_until": _iso(reservation.until) if reservation is not None else None,
        # Who decided may have been the leader before this one: the pod itself says why it was made.
        "reason": last.reason if last is not None else made_because,
        "decided_at": last.at.isoformat() if last is not None else None,
        "waits_because": scheduled.message if scheduled is not None and state is PlaceholderState.PENDING else "",
    }


def _last_decisions(context: ServiceContext) -> dict[str, Decision]:
    """The last decision about each subject that is still remembered."""
    found: dict[str, Decision] = {}
    for numbered in context.decisions.newest(limit=10**9):
        found.setdefault(numbered.decision.subject, numbered.decision)
    return found


def _iso(moment: datetime) -> str:
    return moment.isoformat()


# --- profiles --------------------------------------------------------------------------------------------------------


async def profiles_json(context: ServiceContext) -> list[dict[str, Any]]:
    """Each choice, by name."""
    if context.availability is None:
        return []
    return [_choice_json(each) for each in await context.availability.choices()]


def _choice_json(choice: ChoiceAvailability) -> dict[str, Any]:
    headroom, placement, seats = choice.headroom, choice.placement, choice.seats
    return {
        "name": choice.name,
        "shape": choice.shape,
        "availability": _placement_json(placement) if placement is not None else None,
        "left_out": choice.left_out,
        "headroom": {"min": headroom.min, "max": headroom.max, "floor": headroom.kept}
        if headroom is not None
        else None,
        "placeholders": {state.value: seats.placeholders[state] for state in PlaceholderState},
        "in_use": seats.used,
        "waiting": seats.waiting,
    }
