"""Whether a pending server would fit on one more node.

The answer "on no node" needs a complete node of each kind. A lost node, or one whose driver has just restarted, does
not show what its kind has.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster.allowed_nodes import allows
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.readiness import drivers_of
from dra_spawner.placeholders.planner.targets.node_conditions import without_drains, without_label
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape, device_classes, is_extended_resource
from dra_spawner.simulator.fitting import NodeAnswer
from dra_spawner.simulator.model.claims import ClaimTemplate
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.node_templates import TemplateError, add_node, lasting_taints, template_of
from dra_spawner.simulator.scheduler.node_fit import FitCode

_NEW: Final = "one-more"
#: Distinct nodes that are tried; with more of them the answer is uncertain.
_MAX_TRIED: Final = 50
_OUR_LABELS: Final = (names.IMAGES_READY, names.ATTRACT, names.DRAINING, names.DRAIN_SPARES_PREFIX)


@dataclass(frozen=True, slots=True)
class ScaleUpEstimate:
    """The effect of one more node.

    Attributes
    ----------
    like
        A node whose equal the server would fit on; empty if there is none.
    unlike
        A node of the same kind whose equal it would not fit on; empty if none is known.
    is_certain
        Whether all kinds of nodes are known well enough for the answer "none".
    refusals
        Why it does not fit on empty nodes, one of each kind, if the policy allows the answer "never".
    """

    like: str = ""
    unlike: str = ""
    is_certain: bool = False
    refusals: tuple[NodeAnswer, ...] = ()


def estimate_scale_up(
    view: View,
    policy: Policy,
    shape: Shape,
    pod: Pod,
    drivers_of_kind: Mapping[str, frozenset[str]],
    kinds_first: Collection[str] = (),
) -> ScaleUpEstimate:
    """Whether a server would fit on one more node of a known kind.

    Parameters
    ----------
    view
        Its snapshot can allocate the pod's claims.
    kinds_first
        Kinds of nodes that are tried first.
    """
    # A new node is not ready yet, and nobody drains it.
    unready = without_drains(without_label(pod, names.IMAGES_READY))
    kinds: dict[str, list[str]] = {}
    for name, state in sorted(view.snapshot.nodes.items()):
        kinds.setdefault(state.node.labels.get(policy.readiness.kind_label, "") or name, []).append(name)
    is_certain = bool(kinds)
    wanted, left = _any_devices(shape, pod.namespace), _MAX_TRIED
    refusals: list[NodeAnswer] = []
    for kind in sorted(kinds, key=lambda each: each not in kinds_first):
        nodes = kinds[kind]
        whole = complete_nodes(view, nodes, drivers_of_kind.get(kind, frozenset()))
        # Without a complete node the kind's devices are not known.
        is_certain = is_certain and bool(whole)
        tried: set[Hashable] = set()
        like = unlike = ""
        for name in [each for each in whole or nodes if allows(view.snapshot.nodes[each], unready)]:
            look = alike_key(view, view.snapshot.nodes[name])
            if look in tried:
                continue
            tried.add(look)
            if (left := left - 1) < 0:
                return ScaleUpEstimate(like, unlike)
            with view.snapshot.trial():
                try:
                    added = add_node(view.snapshot, template_of(view.snapshot, name), _NEW).name
                except TemplateError:
                    is_certain = False
                    continue
                answer = view.snapshot.fits_on(unready, added, explain=policy.node_kinds_complete)
                if answer.fits:
                    like = like or name
                    continue
                unlike = unlike or name
                refusals.append(answer)
                is_certain = is_certain and answer.verdict.code is not FitCode.UNDECIDABLE
                wanted = [each for each in wanted if not _fits(view, each, added)]
            if like and unlike:
                break
        if like:
            return ScaleUpEstimate(like, unlike)
    # Devices that no node publishes may come on any new node.
    return ScaleUpEstimate(is_certain=is_certain and not wanted, refusals=tuple(refusals))


def complete_nodes(view: View, names: Collection[str], drivers: frozenset[str]) -> list[str]:
    """Complete nodes of a kind: they show all devices that the kind has."""
    found = {name: drivers_of(view.index.slices_of_node.get(name, ())) for name in names}
    expected = drivers.union(*(complete | incomplete for complete, incomplete in found.values()))
    return [
        name
        for name, (complete, _) in found.items()
        if view.snapshot.nodes[name].node.is_ready and complete >= expected and not view.doubts_of(name).missing
    ]


def alike_key(view: View, state: NodeState) -> Hashable:
    """Key of equal nodes of one kind: labels, sizes and numbers of devices."""
    node = state.node
    marks = {key: value for key, value in node.labels.items() if not key.startswith(_OUR_LABELS) and value != node.name}
    devices = sorted((each.pool_id.driver, len(each.devices)) for each in view.index.slices_of_node.get(node.name, ()))
    return frozenset(marks.items()), tuple(sorted(node.allocatable.items())), lasting_taints(node), tuple(devices)


_Probe = tuple[Pod, ClaimTemplate | None]


def _any_devices(shape: Shape, namespace: str) -> list[_Probe]:
    """One pod for each device class and extended resource of a shape, which wants any such device."""
    classes = {name for spec in shape.claims.values() for name in device_classes(spec)}
    resources = {name for each in shape.containers for name in each.get("requests", {}) if is_extended_resource(name)}
    return [
        *(_probe(number, namespace, device_class=name) for number, name in enumerate(sorted(classes))),
        *(_probe(len(classes) + number, namespace, resource=name) for number, name in enumerate(sorted(resources))),
    ]


def _probe(number: int, namespace: str, device_class: str = "", resource: str = "") -> _Probe:
    name = f"any-device-{number}"
    metadata = {"name": name, "namespace": namespace, "uid": name}
    spec: dict[str, object] = {"tolerations": [{"operator": "Exists"}]}
    resources = {"requests": {resource: "1"}, "limits": {resource: "1"}} if resource else {}
    spec["containers"] = [{"name": "main", "image": "none", "resources": resources}]
    template = None
    if device_class:
        request = {"name": "any", "exactly": {"deviceClassName": device_class, "count": 1}}
        claim = {"spec": {"devices": {"requests": [request]}}}
        template = ClaimTemplate.from_json({"metadata": {"name": name, "namespace": namespace}, "spec": claim})
        spec["resourceClaims"] = [{"name": "any", "resourceClaimTemplateName": name}]
    return Pod.from_json({"metadata": metadata, "spec": spec}), template


def _fits(view: View, probe: _Probe, node: str) -> bool:
    pod, template = probe
    with view.snapshot.trial():
        if template is not None:
            view.snapshot.put(template)
        return view.snapshot.fits_on(pod, node, explain=False).fits
