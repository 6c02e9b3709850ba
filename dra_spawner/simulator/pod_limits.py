"""How much of a pod's spec is modelled: its author decides how long it takes to look at, and no server needs much.

The API server admits 15,000 terms in one pod, and each of them may be held against each node or pod. A pod that says
too much is one about which cannot be decided (`Pod.undecidable`); for all others it is there without that part.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dra_spawner.dra.decoding import Reader
from dra_spawner.dra.node_selector import Requirement

if TYPE_CHECKING:
    from dra_spawner.simulator.pods import Pod

__all__ = ["MAX_HOST_PORTS", "MAX_RESOURCES", "MAX_VALUES", "short_parts", "within_limits"]

MAX_VALUES: Final = 2000
"""Single values, of any depth, in one part of a pod's spec that is read at all."""
MAX_HOST_PORTS: Final = 500
MAX_RESOURCES: Final = 500
"""Names of resources that a pod requests."""

_PARTS: Final = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
#: Conditions of a pod on the pods beside it: each is held against all pods of the cluster. Real pods have one or two.
_MOST_ABOUT_PODS: Final = 50
#: Its other conditions on where it may run, tolerations and ports among them.
_MOST_ABOUT_NODES: Final = 500
_VALUES_OF_A_CONDITION: Final = 16


def short_parts(spec: Reader) -> tuple[Reader, list[str]]:
    """The spec of a pod without the parts that are too long, and these parts as `Pod.undecidable` names them."""
    too_long = [part for part in _PARTS if spec.has(part) and _has_more_values(spec.raw(part), MAX_VALUES)]
    if not too_long:
        return spec, []
    return spec.without(too_long), [f"spec.{part} with more than {MAX_VALUES} values" for part in too_long]


def within_limits(pod: Pod) -> Pod:
    """The pod, without its conditions on where it may run if they are so many that to look at them takes long.

    The API server has no limit of its own for them. It is not known then where the pod may run (`Pod.too_many`); one
    that has a node counts as if it had no affinity.
    """
    terms = (
        *pod.required_affinity,
        *pod.required_anti_affinity,
        *pod.preferred_affinity,
        *pod.preferred_anti_affinity,
    )
    about_pods = sum(1 + _size(each.labels or ()) for each in terms)
    about_pods += sum(1 + _size(each.labels or ()) for each in pod.spread_constraints)
    selectors = [each.selector for each in pod.preferred_nodes]
    selectors += [pod.required_nodes] if pod.required_nodes is not None else []
    about_nodes = len(pod.tolerations) + len(pod.host_ports) + len(pod.node_selector)
    about_nodes += sum(
        1 + _size(term.match_expressions) + _size(term.match_fields) for each in selectors for term in each.terms
    )
    if about_pods <= _MOST_ABOUT_PODS and about_nodes <= _MOST_ABOUT_NODES:
        return pod
    found, most, of = about_nodes, _MOST_ABOUT_NODES, "nodes"
    if about_pods > _MOST_ABOUT_PODS:
        found, most, of = about_pods, _MOST_ABOUT_PODS, "other pods"
    too_many = f"{found:,} conditions on {of}, of which {most} are looked at at most"
    return replace(
        pod,
        too_many=too_many,
        undecidable=(*pod.undecidable, too_many),
        tolerations=(),
        node_selector={},
        required_nodes=None,
        preferred_nodes=(),
        required_affinity=(),
        required_anti_affinity=(),
        preferred_affinity=(),
        preferred_anti_affinity=(),
        host_ports=(),
        spread_constraints=(),
    )


def _size(requirements: Iterable[Requirement]) -> int:
    return sum(1 + len(each.values) // _VALUES_OF_A_CONDITION for each in requirements)


def _has_more_values(value: Any, most: int) -> bool:
    """Whether there are more than so many values; layer by layer, it stops where there are."""
    try:
        # Each value has a byte at least. That settles nearly all pods, at the speed of C.
        if len(marshal.dumps(value)) <= most:
            return False
    except ValueError:
        pass  # deeper than it goes, or no plain JSON
    layer = [value] if isinstance(value, (dict, list)) else []
    found = 0
    while layer:
        found += sum(map(len, layer))
        if found > most:
            return True
        layer = [
            item
            for each in layer
            for item in (each.values() if isinstance(each, dict) else each)
            if isinstance(item, (dict, list))
        ]
    return False
