"""Handlers of placeholders and availability."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tornado.web import HTTPError

from dra_spawner import names
from dra_spawner.history.decision_log import Decision
from dra_spawner.placeholders.controller.answers.availability import ChoiceAvailability
from dra_spawner.placeholders.controller.answers.scheduling_reasons import explain_scheduling
from dra_spawner.placeholders.lifecycle import PlaceholderState
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.answers.outlook import UNKNOWN, Outlook
from dra_spawner.placeholders.planner.answers.placement import Placement
from dra_spawner.placeholders.planner.answers.waits import WaitInterval
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View, age
from dra_spawner.placeholders.planner.decisions.readiness import why_not_ready
from dra_spawner.placeholders.planner.decisions.safeguards import safeguard_of
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.requests.authentication import ApiHandler, bearer_token
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT_OR_ALL, Access, Query, endpoint
from dra_spawner.service.http.requests.page_frame import OLD_SECONDS
from dra_spawner.service.http.schemas.placeholder_schemas import PLACEHOLDERS, PROFILES
from dra_spawner.service.http.schemas.schema_parts import text
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod


class PlaceholderHandler(ApiHandler):
    """Base of the handlers that need the placeholder controller."""

    @property
    def controller(self) -> ScaleAheadController:
        """The placeholder controller; 503 while the cluster is not read: nothing counts as none or free."""
        if because := self.context.unread_because():
            raise HTTPError(503, "%s", because)
        assert self.context.controller is not None
        return self.context.controller


class PlaceholdersHandler(PlaceholderHandler):
    """``GET api/placeholders``: each placeholder with its node, its state, and the reasons.

    Query: ``limit`` and ``continue``.
    """

    @endpoint(
        "Placeholders with node, state and reasons.", Access.READ, answer=PLACEHOLDERS, query=(LIMIT_OR_ALL, CONTINUE)
    )
    async def get(self) -> None:
        items = placeholders_json(self.controller, self.context)
        safeguard = safeguard_json(self.controller)
        on_hold = safeguard["reason"] if safeguard is not None and safeguard["holds_everything"] else ""
        self.write_json(
            {
                **self.page(items, lambda each: f"{each['node']}\0{each['name']}"),
                "on_hold": on_hold,
                "safeguard": safeguard,
                "limited": limited_json(self.controller),
                "incomplete_because": self.context.incomplete_because(),
            }
        )


class ProfilesHandler(PlaceholderHandler):
    """``GET api/profiles``: each choice that the hub publishes, with its availability.

    Query: ``name`` for one choice, which may be any combination of options.

    The hub sends the service's own token, for its spawn forms.
    """

    @endpoint(
        "Choices that the hub publishes, with their availability.",
        Access.READ,
        answer=PROFILES,
        query=(
            LIMIT_OR_ALL,
            CONTINUE,
            Query("name", "Only this choice; any combination of options is allowed.", text("gpu-slice")),
        ),
        problems=(404,),
        hub=True,
    )
    async def get(self) -> None:
        controller = self.controller
        if self.context.scale_ahead is not None and self.web.is_own_token(bearer_token(self.request.headers)):
            self.context.scale_ahead.note_form()
        name = self.get_query_argument("name", "")
        if name:
            # First: a name that somebody invents reaches no cache and no task.
            published = controller.published
            found_name = published.find(name) or (name if name in published.skipped else None)
            if found_name is None:
                raise HTTPError(404, "The hub publishes no choice of this name.")
            name = found_name
        answers = self.context.profile_answers
        answer = await answers.answer(controller, name, lambda: profiles_json(self.context, name))
        if name and not answer.items:
            raise HTTPError(404, "The hub publishes no choice of this name.")
        # A form shows nothing of an answer that is too old; so it need not know why.
        data_age = self.context.feed.data_age()
        old = data_age if OLD_SECONDS < data_age < math.inf else 0.0
        self.set_header("Age", str(int(answers.age(answer) + old)))
        if not self.get_query_argument("limit", "") and not self.get_query_argument("continue", ""):
            self.write_encoded(answer.body)
            return
        # In their own order: small amounts come first.
        numbered = [(f"{number:08}", each) for number, each in enumerate(answer.items)]
        found = self.page(numbered, lambda each: each[0])
        self.write_json({**found, "items": [each for _, each in found["items"]], "problem": answer.problem})


def placement_json(placement: Placement) -> dict[str, Any]:
    """A placement as JSON."""
    return {
        "state": placement.state,
        "node": placement.node,
        "reason": placement.reason,
        "sentence": placement.sentence,
    }


def availability_json(choice: ChoiceAvailability) -> dict[str, Any] | None:
    """A choice's placement and outlook as JSON; None if they are not known."""
    if choice.placement is None:
        return None
    return {**placement_json(choice.placement), **outlook_json(choice.outlook, choice.wait)}


def outlook_json(outlook: Outlook | None, wait: WaitInterval | None = None) -> dict[str, Any]:
    """An outlook as JSON; `docs/reference/placeholder-decisions.md` lists the states."""
    known = outlook or UNKNOWN
    seconds = {"low_seconds": wait.low_seconds, "high_seconds": wait.high_seconds} if wait is not None else None
    return {"state": known.state, "sentence": known.sentence, "wait": seconds}


def safeguard_json(controller: ScaleAheadController) -> dict[str, Any] | None:
    """The safeguard that denies evictions, or all decisions, at present; None without one."""
    safeguard = safeguard_of(controller.view(), controller.policy) if controller.is_on else None
    if safeguard is None:
        return None
    return {"rule": safeguard.rule, "reason": safeguard.reason, "holds_everything": safeguard.holds_everything}


def limited_json(controller: ScaleAheadController) -> list[dict[str, Any]]:
    """Shapes with fewer placeholders than wanted, each with the cause. Only the leader knows them."""
    denials = controller.latest.limited if controller.latest is not None else {}
    return [
        {
            "shape": shape,
            "profiles": list(controller.names_of(shape)),
            "cause": each.cause,
            "wanted": each.wanted,
            "allowed": each.allowed,
            "reason": each.sentence(controller.name_of(shape)),
            "is_resumable": each.cause.is_resumable,
        }
        for shape, each in sorted(denials.items())
    ]


def placeholders_json(controller: ScaleAheadController, context: ServiceContext) -> list[dict[str, Any]]:
    """Placeholders as JSON, sorted by node and name."""
    view = controller.view()
    decided = _last_decisions(context)
    found = [
        _placeholder_json(controller, view, each.pod, each.state, each, decided) for each in view.placeholders.values()
    ]
    found += [
        _placeholder_json(controller, view, pod, PlaceholderState.TERMINATING, None, decided)
        for pod in view.terminating
    ]
    return sorted(found, key=lambda each: (each["node"], each["name"]))


def _placeholder_json(
    controller: ScaleAheadController,
    view: View,
    pod: Pod,
    state: PlaceholderState,
    placeholder: Placeholder | None,
    decided: Mapping[str, Decision],
) -> dict[str, Any]:
    key = ObjectKey.of(pod)
    observed = controller.watch.observed(Kind.POD, key)
    last = decided.get(f"Pod {key}")
    made_because = observed.annotations.get(names.REASON, "") if observed is not None else ""
    scheduled = observed.conditions.get("PodScheduled") if observed is not None else None
    reservation = placeholder.reservation if placeholder is not None else None
    denial = controller.latest.denied.get(key) if controller.latest is not None else None
    shape, created = pod.labels.get(names.SHAPE, ""), pod.created
    return {
        "name": key.name,
        "namespace": key.namespace,
        "shape": shape,
        "profiles": list(controller.names_of(shape)),
        "node": pod.node_name,
        "state": state,
        "created": created,
        "age_seconds": round(age(created, controller.now()).total_seconds()),
        "claims": {each.name: each.claim for each in pod.claims if each.claim},
        "reserved_for": reservation.pod if reservation is not None else "",
        "reserved_until": reservation.until.isoformat() if reservation is not None else None,
        # An earlier leader may have decided: the pod's annotation has the reason of its creation.
        "reason": last.reason if last is not None else made_because,
        "scheduled_because": explain_scheduling(view, pod),
        "decided_at": last.at.isoformat() if last is not None else None,
        # Only the leader knows it.
        "stays_because": f"it should be evicted, but {denial.because}" if denial is not None else "",
        "starting_because": _starting_because(controller, view, pod) if state is PlaceholderState.STARTING else "",
        "pending_because": scheduled.message if scheduled is not None and state is PlaceholderState.PENDING else "",
    }


def _starting_because(controller: ScaleAheadController, view: View, pod: Pod) -> str:
    """Why a placeholder is not warm yet."""
    if why := not_ready_because(controller, view, pod.node_name):
        return f"its node is not ready for users: {why}"
    if pod.has_unhealthy_device:
        return "a device of it is not healthy"
    return "its container does not run yet" + (f": {pod.waits_because}" if pod.waits_because else "")


def not_ready_because(controller: ScaleAheadController, view: View, node: str) -> str:
    """Why a node is not ready for users' servers; empty if it is ready."""
    memory = controller.latest.planner_state if controller.latest is not None else PlannerState.fresh(controller.now())
    return why_not_ready(view, controller.policy, memory, node)


def _last_decisions(context: ServiceContext) -> dict[str, Decision]:
    """The last logged decision about each subject."""
    found: dict[str, Decision] = {}
    for numbered in context.decisions.newest(limit=10**9):
        found.setdefault(numbered.decision.subject, numbered.decision)
    return found


async def profiles_json(context: ServiceContext, name: str = "") -> list[dict[str, Any]]:
    """Choices as JSON, sorted by name; only one with `name`."""
    if context.availability is None:
        return []
    choices = await context.availability.choices(name)
    controller = context.controller
    targets = controller.policy.replicas if controller is not None else {}
    shapes = controller.published.shapes if controller is not None else {}
    wants = {each.id: each.wants_devices for each in shapes.values()}
    return [
        _choice_json(
            each,
            targets[each.shape].min if each.replicas is not None and each.shape in targets else None,
            wants.get(each.shape),
        )
        for each in choices
    ]


def _choice_json(choice: ChoiceAvailability, target: int | None, wants_devices: bool | None) -> dict[str, Any]:
    replicas, counts = choice.replicas, choice.counts
    return {
        "name": choice.name,
        "shape": choice.shape,
        "wants_devices": wants_devices,
        "availability": availability_json(choice),
        "skipped_because": choice.skipped_because,
        "replicas": {"min": replicas.min, "max": replicas.max, "floor": replicas.effective_floor}
        if replicas is not None
        else None,
        # The configured number, or the forecast's in mode `act`.
        "target": target,
        "placeholders": {state.value: counts.placeholders[state] for state in PlaceholderState},
        "in_use": counts.used,
        "pending": counts.pending,
    }
