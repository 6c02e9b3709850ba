"""What an administrator looks at first: what is wrong, who waits and why, what comes, and what was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.counted_text import listed
from dra_spawner.doctor.findings import Severity
from dra_spawner.history.decision_log import Decision
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.shapes import device_classes
from dra_spawner.profiles.drivers import DriverNotUsable
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.ahead.rehearsed_entries import OF_ENTRIES
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.api.forecast_handler import expected_json
from dra_spawner.service.http.api.override_handlers import audit_json
from dra_spawner.service.http.api.pending_handlers import pending_json
from dra_spawner.service.http.api.placeholder_handlers import limited_json, profiles_json
from dra_spawner.service.http.pages.page_text import change_text, deed, part_of_path
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

_PAST: Final = timedelta(hours=1)
_AHEAD: Final = timedelta(days=1)
_WAITING_SHOWN: Final = 50
_HOLDERS_SHOWN: Final = 8
_SHOWN: Final = 20
_NAMED: Final = 5


async def today_json(context: ServiceContext) -> dict[str, Any]:
    """All of it as JSON; what is not known yet is left out, and said in `wrong`."""
    controller = context.controller
    now = controller.now() if controller is not None else context.now()
    wrong = [each async for each in _wrong(context, now)]
    waiting = pending_json(controller) if controller is not None else []
    done = [each.decision for each in context.decisions.newest(10**9)]
    return {
        "at": now.isoformat(),
        "wrong": [each for each in wrong if each["severity"] != Severity.INFO][: 2 * _SHOWN],
        "warnings": sum(each["severity"] == Severity.WARNING for each in wrong),
        "waiting": [each async for each in _waiting(context, waiting[:_WAITING_SHOWN])],
        "all_waiting": len(waiting),
        "expected": _coming(context, now)[:_SHOWN],
        "done": list(_done(done, now - _PAST)),
        "by_people": list(_by_people(controller, now - _PAST)),
        "since": (now - _PAST).isoformat(),
        "incomplete_because": context.incomplete_because(),
    }


# --- what is wrong ----------------------------------------------------------------------------------------------------


async def _wrong(context: ServiceContext, now: datetime) -> Any:
    """Errors first."""
    found = [each async for each in _all_wrong(context, now)]
    order = [*Severity]
    for each in sorted(found, key=lambda one: order.index(one["severity"])):
        yield each


async def _all_wrong(context: ServiceContext, now: datetime) -> Any:
    for each in context.readiness().reasons:
        yield _problem(Severity.ERROR, each)
    for each in context.problems():
        # Below, each entry has its newest verdict.
        if not each.startswith(OF_ENTRIES):
            yield _problem(Severity.WARNING, each)
    controller = context.controller
    if controller is not None:
        choices = await profiles_json(context)
        for choice in choices:
            if because := _never_because(choice):
                sentence = f"Servers of {choice['name']} cannot start: {because}"
                yield _problem(Severity.ERROR, sentence, page="placeholders")
        for because, named in _closed(choices).items():
            sentence = f"Servers of {listed(named, _NAMED)} cannot start: {because}."
            yield _problem(Severity.WARNING, sentence, page="nodes")
        for limited in limited_json(controller):
            yield _problem(Severity.WARNING, limited["reason"], page="placeholders")
        for entry in _coming(context, now):
            rehearsal = entry["rehearsal"]
            if rehearsal is not None and not rehearsal["is_possible"]:
                sentence = f"{entry['name']}: {rehearsal['verdict']}"
                yield _problem(Severity.WARNING, sentence, page="calendar")
    if context.examination is None:
        return
    try:
        report = await context.examination.report()
    except (KubernetesError, DriverNotUsable) as error:
        yield _problem(Severity.WARNING, f"The cluster cannot be examined: {error}.", page="doctor")
        return
    for each in report["findings"]:
        yield _problem(Severity(each["severity"]), each["sentence"], each["fix"], each["where"], "doctor")


def _problem(severity: Severity, sentence: str, fix: str = "", where: str = "", page: str = "") -> dict[str, Any]:
    return {"severity": severity, "sentence": sentence, "fix": fix, "where": where, "page": page}


def _never_because(choice: Mapping[str, Any]) -> str:
    """Why no server of a choice can start, as a sentence; empty if one can, or if that is not known."""
    availability = choice["availability"]
    # A choice that was left out may work: it has no single shape.
    if availability is None or availability["state"] != AvailabilityState.NEVER:
        return ""
    return str(availability["sentence"] or f"{availability['reason']}.")


def _closed(choices: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Choices whose nodes or devices are all closed, by what is closed."""
    found: dict[str, list[str]] = {}
    for each in choices:
        if each["availability"] is not None and each["availability"]["state"] == AvailabilityState.CLOSED:
            found.setdefault(each["availability"]["reason"], []).append(each["name"])
    return found


# --- who waits --------------------------------------------------------------------------------------------------------


async def _waiting(context: ServiceContext, waiting: list[dict[str, Any]]) -> Any:
    """Pending servers, each with users who have the devices that it asks for."""
    controller, figures = context.controller, context.figures
    if waiting and figures is not None:
        await figures.refresh()
    known: dict[frozenset[str], list[dict[str, str]]] = {}
    for each in waiting:
        pod = ObjectKey(each["namespace"], each["name"])
        classes = _asked_classes(controller, pod, each["shape"]) if controller is not None else frozenset()
        if classes not in known:
            known[classes] = _holders(context, classes)
        yield {**each, "user": _user_of(context, pod), "holders": known[classes]}


def _asked_classes(controller: ScaleAheadController, key: ObjectKey, shape_id: str) -> frozenset[str]:
    """Classes of the devices that a server asks for: by its claims, or by its choice while it has none.

    Not each choice is published: its claims may be existing ones, or shared, or differ between users.
    """
    snapshot = controller.watch.snapshot
    pod = snapshot.pods.get(key)
    claims = (
        [snapshot.claims.get(ObjectKey(key.namespace, each.claim)) for each in pod.claims if each.claim] if pod else []
    )
    asked = [each for claim in claims if claim for request in claim.claim.requests for each in request.alternatives]
    if asked:
        return frozenset(each.device_class_name for each in asked)
    shape = next((each for each in controller.published.shapes.values() if each.id == shape_id), None)
    return frozenset(name for spec in shape.claims.values() for name in device_classes(spec)) if shape else frozenset()


def _holders(context: ServiceContext, classes: frozenset[str]) -> list[dict[str, str]]:
    controller, figures = context.controller, context.figures
    if controller is None or figures is None or not classes:
        return []
    found = []
    for each in figures.holders(classes, _HOLDERS_SHOWN):
        tracked = controller.watch.snapshot.claims.get(each.claim)
        pods = sorted(item.name for item in tracked.consumers if item.resource == "pods") if tracked else []
        server = pods[0] if pods else ""
        user = _user_of(context, ObjectKey(each.claim.namespace, server))
        found.append(
            {
                "user": user,
                "server": server or f"claim {each.claim.name}",
                "device": each.device.device,
                "node": each.node,
                "link": f"{context.web.url('nodes')}?search={part_of_path(user or each.node)}",
            }
        )
    return found


def _user_of(context: ServiceContext, pod: ObjectKey) -> str:
    """Whose server a pod is; empty if that is not known."""
    watch = context.watch
    observed = watch.observed(Kind.POD, pod) if watch is not None else None
    if observed is not None and (user := observed.annotations.get(names.USERNAME, "")):
        return user
    found = watch.snapshot.pods.get(pod) if watch is not None else None
    return found.labels.get(names.USERNAME, "") if found is not None else ""


# --- what comes, and what was done ------------------------------------------------------------------------------------


def _coming(context: ServiceContext, now: datetime) -> list[dict[str, Any]]:
    """Calendar entries of the coming day, those that have begun first."""
    if context.controller is None:
        return []
    found = expected_json(context.controller, context.scale_ahead)
    return [each for each in found if datetime.fromisoformat(each["begins"]) < now + _AHEAD]


def _done(decisions: list[Decision], since: datetime) -> Iterator[dict[str, Any]]:
    """Decisions of the last hour, by kind and profile, each group with its newest reason; the newest group first."""
    groups: dict[tuple[str, str], list[Decision]] = {}
    for each in decisions:
        if each.at < since:
            break
        groups.setdefault((each.kind, each.profile), []).append(each)
    for (kind, profile), found in list(groups.items())[:_SHOWN]:
        newest = found[0]
        yield {
            "kind": kind,
            "profile": profile,
            "count": len(found),
            "at": newest.at.isoformat(),
            "reason": newest.reason,
        }


def _by_people(controller: ScaleAheadController | None, since: datetime) -> Iterator[dict[str, Any]]:
    """Changes of the last hour, newest first."""
    if controller is None or controller.overrides.unknown_because:
        return
    changes = [each for each in reversed(controller.overrides.present.audit) if each.at >= since]
    for each in changes[:_SHOWN]:
        yield {**audit_json(each), **deed(each.change, each.subject), "details": change_text(each.details)}
