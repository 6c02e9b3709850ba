"""Servers that would start if no person had closed a node, or a device: the wait has its own reason."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from dra_spawner import names
from dra_spawner.dra.allocation.cause_text import CauseText, RefusalKind
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.node_conditions import without_drains, without_label
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.fitting import NodeAnswer
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.refusal_text import CLOSED, nearest_reason, out_of_use

#: Closed nodes that are tried.
_MAX_TRIED: Final = 10
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Closed:
    """What is closed, and would run a server.

    Attributes
    ----------
    reason
        For administrators, as a clause: what is closed, by whose order, and how that ends.
    text
        For the server's user.
    node
        Empty if devices are closed.
    """

    reason: str
    text: CauseText
    node: str = ""


def drained_for(view: View, policy: Policy, pod: Pod) -> Closed | None:
    """The node that is drained by order and on which a pod would fit, now or without the placeholders there.

    Of several, the one that is back first; None if there is none as far as is tried.
    """
    return _closed_for(view, policy, pod, _drained(view, policy, pod), without_servers=False)


def closed_for(view: View, policy: Policy, pod: Pod, *, without_servers: bool = False) -> Closed | None:
    """The same, or else such a node that is cordoned.

    Parameters
    ----------
    without_servers
        Whether it may fit only without users' servers there.
    """
    cordoned = [name for name, state in view.snapshot.nodes.items() if state.node.is_unschedulable]
    tried = dict.fromkeys((*_drained(view, policy, pod), *cordoned))
    return _closed_for(view, policy, pod, tried, without_servers=without_servers)


def closed_devices_of(refusals: Iterable[NodeAnswer], policy: Policy) -> Closed | None:
    """The closed devices of the node where a server came nearest to a start; None if they are not what it lacks."""
    reason = nearest_reason(refusals)
    if reason is None or not reason.nearest.kind.is_taint:
        return None
    nearest, detail = reason.nearest, f"device {reason.nearest.device}: {reason.nearest}"
    if not nearest.subject.startswith(names.DRAINED_DEVICE) or nearest.device is None:
        return Closed(detail, reason.for_user)
    name = str(nearest.device)
    text = out_of_use(policy.drained_until.get(name), is_full=nearest.kind is RefusalKind.TAINT_IN_USE)
    return Closed(f"{detail}; `dra-spawner drain {name} --end` ends it", text)


def _drained(view: View, policy: Policy, pod: Pod) -> list[str]:
    """Drained nodes, the one that is back first at the beginning; none for a pod that may run there."""
    if without_drains(pod) is pod:
        return []
    found = {*view.drained_nodes(), *(policy.drained.keys() & view.snapshot.nodes.keys())}
    return sorted(found, key=lambda name: (policy.drained_until.get(name, _LATEST), name))


def _closed_for(view: View, policy: Policy, pod: Pod, tried: Iterable[str], *, without_servers: bool) -> Closed | None:
    anywhere = without_drains(pod)
    for name in list(tried)[:_MAX_TRIED]:
        state = view.snapshot.nodes[name]
        with view.snapshot.trial(), suppress(SearchStopped):
            for each in view.placeholders_of_node.get(name, ()):
                view.snapshot.remove_pod(each.key)
            for server in view.users_of_node.get(name, ()) if without_servers else ():
                view.snapshot.remove_pod(ObjectKey.of(server))
            if state.node.is_unschedulable:
                taints = tuple(each for each in state.node.taints if each.key != names.UNSCHEDULABLE)
                view.snapshot.put(replace(state.node, is_unschedulable=False, taints=taints))
            # A closed node may lack images until it is open.
            wanted = without_label(anywhere, names.IMAGES_READY) if state.node.is_unschedulable else anywhere
            if view.snapshot.fits_on(wanted, name, explain=False).fits:
                return _closed(state, policy)
    return None


def _closed(state: NodeState, policy: Policy) -> Closed:
    name, orders, text = state.node.name, list[str](), CLOSED
    if name in policy.drained or state.node.labels.get(names.DRAINING) == names.ORDERED:
        orders.append(drained_because(name, policy))
        text = out_of_use(policy.drained_until.get(name))
    if state.node.is_unschedulable:
        orders.append(f"it is cordoned; `kubectl uncordon {name}` opens it")
    return Closed(f"it would fit on node {name}, which takes no new server: {', and '.join(orders)}", text, name)


def drained_because(node: str, policy: Policy) -> str:
    """Who drains a node, until when, and how that ends, as a clause."""
    if node not in policy.drained:
        return "it is drained by order of an administrator, in the service of another hub"
    return f"it is drained, {policy.drained[node]}; `dra-spawner drain {node} --end` ends it"
