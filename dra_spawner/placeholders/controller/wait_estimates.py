"""How long a server without capacity waits: by lead times of nodes, or by the usual lengths of sessions."""

from __future__ import annotations

from datetime import datetime

from dra_spawner import names
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.planner.outlook import Outlook, OutlookState
from dra_spawner.placeholders.planner.view import age
from dra_spawner.placeholders.planner.waits import RunningServer, WaitInterval, kth_stop, like_others
from dra_spawner.simulator.pods import Pod

__all__ = ["estimate_wait"]


def estimate_wait(controller: PlaceholderController, outlook: Outlook) -> WaitInterval | None:
    """The interval of the wait, from now; None if nothing is awaited, or too little is known."""
    match outlook.state:
        case OutlookState.NEEDS_NODE if outlook.coming:
            state = controller.watch.snapshot.nodes.get(outlook.coming)
            if state is None or outlook.kind is None:
                return None
            elapsed = age(state.node.created, controller.now()).total_seconds()
            return like_others(controller.node_ceilings.waits_for_created(outlook.kind), elapsed)
        case OutlookState.NEEDS_NODE if outlook.kind is not None:
            return like_others(controller.node_ceilings.waits_for_new(outlook.kind))
        case OutlookState.WHEN_STOPPED:
            return _wait_for_stops(controller, outlook)
    return None


def _wait_for_stops(controller: PlaceholderController, outlook: Outlook) -> WaitInterval | None:
    now, servers = controller.now(), []
    for pod in outlook.holders:
        server = _running_server(controller, pod, now)
        if server is None:
            return None  # the lengths of such sessions are not known
        servers.append(server)
    return kth_stop(servers, outlook.before + 1) if servers else None


def _running_server(controller: PlaceholderController, pod: Pod, now: datetime) -> RunningServer | None:
    choice = controller.name_of(pod.labels.get(names.SHAPE, ""))
    lengths = controller.sessions.lengths_of(choice) if choice else None
    if lengths is None:
        return None
    began = controller.sessions.began(pod.uid)
    return RunningServer(((now - began) if began is not None else age(pod.created, now)).total_seconds(), lengths)
