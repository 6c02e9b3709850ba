"""How long a server without capacity waits: by lead times of nodes, or by the usual lengths of sessions."""

from __future__ import annotations

from datetime import datetime

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.planner.answers.outlook import Outlook
from dra_spawner.placeholders.planner.answers.waits import RunningServer, WaitInterval, first_of_both, kth_stop
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.simulator.model.pods import Pod

__all__ = ["estimate_wait"]


def estimate_wait(controller: PlaceholderController, outlook: Outlook) -> WaitInterval | None:
    """The interval of the wait, from now; None if nothing is awaited, or too little is known."""
    match outlook.state:
        case AvailabilityState.NEEDS_NODE if outlook.kind is not None:
            return _wait_for_node(controller, outlook, outlook.kind)
        case AvailabilityState.WHEN_STOPPED:
            return kth_stop(_holders(controller, outlook), outlook.before + 1)
    return None


def _wait_for_node(controller: PlaceholderController, outlook: Outlook, kind: str) -> WaitInterval | None:
    """Until the node is ready, or enough servers have stopped."""
    waits, elapsed = controller.node_ceilings.waits_for_new(kind), 0.0
    if outlook.coming:
        state = controller.watch.snapshot.nodes.get(outlook.coming)
        if state is None:
            return None
        waits = controller.node_ceilings.waits_for_created(kind)
        elapsed = age(state.node.created, controller.now()).total_seconds()
    return first_of_both(waits, elapsed, _holders(controller, outlook), outlook.before + 1)


def _holders(controller: PlaceholderController, outlook: Outlook) -> list[RunningServer]:
    """Servers that hold the needed devices; empty if a session length is unknown."""
    now, servers = controller.now(), []
    for pod in outlook.holders:
        server = _running_server(controller, pod, now)
        if server is None:
            return []
        servers.append(server)
    return servers


def _running_server(controller: PlaceholderController, pod: Pod, now: datetime) -> RunningServer | None:
    choice = controller.name_of(pod.labels.get(names.SHAPE, ""))
    lengths = controller.sessions.lengths_of(choice) if choice else None
    if lengths is None:
        return None
    began = controller.sessions.began(pod.uid)
    return RunningServer(((now - began) if began is not None else age(pod.created, now)).total_seconds(), lengths)
