"""Which warm claims a server may join while the placeholder runs.

The kubelet prepares a claim once, for its first pod on the node. Where a driver prepares it for that pod, a server that
joins is called ready and has no device: the placeholder must be gone before the server is bound. Until then a required
anti-affinity of the server keeps kube-scheduler from binding it, as a full node would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dra_spawner import names
from dra_spawner.dra.preparation import PreparedFor, prepared_for
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape, device_classes
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.nodes import SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot


def goes_first(view: View, policy: Policy, placeholder: Pod) -> bool:
    """Whether a placeholder must be gone before a server that gets its claims is bound.

    The drivers of the allocated devices decide. A claim for which a driver reports a network interface is never joined:
    the interface is in the placeholder.
    """
    return serves_placeholder_alone(view.snapshot, policy.drivers_prepare_for, placeholder)


def serves_placeholder_alone(
    snapshot: Snapshot, drivers_prepare_for: Mapping[str, PreparedFor], placeholder: Pod
) -> bool:
    """Whether one of a placeholder's claims is prepared for the placeholder alone."""
    used = {name for container in placeholder.containers for name in container.claims}
    return any(
        _is_for_placeholder(claim, drivers_prepare_for, is_used=entry in used)
        for entry, claim in _claims(snapshot, placeholder)
    )


def can_go_first(placeholder: Pod, node: SchedulableNode) -> bool:
    """Whether a server can wait for the end of a placeholder; an older release made it without the label for that."""
    return placeholder.labels.get(names.PLACEHOLDER_NAME) == placeholder.name and names.HOSTNAME in node.labels


def waits_for(pod: Pod, placeholder: Pod) -> bool:
    """Whether kube-scheduler does not bind a pod before a placeholder is gone."""
    return not pod.node_name and any(term.matches(placeholder) for term in pod.required_anti_affinity)


def unnamed_claims(view: View, policy: Policy, shape: Shape) -> tuple[str, ...]:
    """The claims of a shape that a placeholder's container must not name, so that a server can join them.

    A driver may keep a claim for the first container that names it. All other claims are named: the kubelet reports the
    health of devices for containers alone, and a container that runs proves that its node can hand the devices over.
    Where a class does not name its driver, the container names the claim, and the placeholder goes first.
    """
    classes = view.snapshot.classes
    return tuple(
        entry
        for entry, spec in shape.claims.items()
        if any(
            policy.drivers_prepare_for.get(driver) is PreparedFor.CONTAINER
            for name in device_classes(spec)
            if name in classes
            for driver in classes[name].named_drivers
        )
    )


def _claims(snapshot: Snapshot, placeholder: Pod) -> Iterator[tuple[str, TrackedClaim]]:
    for each in placeholder.claims:
        claim = snapshot.claims.get(ObjectKey(placeholder.namespace, each.claim or ""))
        if claim is not None:
            yield each.name, claim


def _is_for_placeholder(
    tracked: TrackedClaim, drivers_prepare_for: Mapping[str, PreparedFor], *, is_used: bool
) -> bool:
    status = tracked.claim.status
    if status.has_network_data:
        return True
    match prepared_for((each.id.driver for each in status.devices or ()), drivers_prepare_for):
        case PreparedFor.CLAIM:
            return False
        case PreparedFor.CONTAINER:
            return is_used
        case PreparedFor.POD:
            return True


def can_be_handed_over(view: View, policy: Policy, placeholder: Placeholder, namespace: str) -> bool:
    """Whether a placeholder can be handed over now; claims only within their namespace."""
    if placeholder.claims and placeholder.pod.namespace != namespace:
        return False
    claims = [view.snapshot.claims.get(key) for key in placeholder.claims]
    state = view.snapshot.nodes[placeholder.node]
    return (
        all(claim is not None and claim.claim.is_allocated and not claim.is_deleted for claim in claims)
        and not state.node.is_unschedulable
        and not is_labelled(state, names.DRAINING)
        and placeholder.node not in policy.drained
        and (not goes_first(view, policy, placeholder.pod) or can_go_first(placeholder.pod, state.node))
    )
