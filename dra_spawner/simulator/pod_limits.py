"""Limits of the parts of a pod's spec that are modelled, as its author could make scheduling take long.

The API server admits 15,000 terms in one pod, and each may be compared with every node or pod. No server needs that
many. A pod that exceeds a limit is undecidable (`Pod.undecidable`); for other pods it has no part that is too long.
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
"""Maximum of values, at any depth, in one part of a pod's spec; a longer part is not read."""
MAX_HOST_PORTS: Final = 500
MAX_RESOURCES: Final = 500
"""Maximum of different resources that a pod requests."""

_PARTS: Final = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
#: Maximum of a pod's conditions on other pods, each compared with all pods of the cluster. Real pods have one or two.
_MAX_ABOUT_PODS: Final = 50
#: Maximum of its other conditions on nodes, tolerations and ports included.
_MAX_ABOUT_NODES: Final = 500
_VALUES_OF_A_CONDITION: Final = 16


def short_parts(spec: Reader) -> tuple[Reader, list[str]]:
    """The spec of a pod without parts that are too long, and the names of these parts for `Pod.undecidable`."""
    too_long = [part for part in _PARTS if spec.has(part) and _has_more_values(spec.raw(part), MAX_VALUES)]
    if not too_long:
        return spec, []
    return spec.without(too_long), [f"spec.{part} with more than {MAX_VALUES} values" for part in too_long]


def within_limits(pod: Pod) -> Pod:
    """The pod, without its conditions on nodes and pods if there are too many of them.

    The API server has no limit for them. Without them it is not known where the pod may run (`Pod.too_many`); a pod
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
    if about_pods <= _MAX_ABOUT_PODS and about_nodes <= _MAX_ABOUT_NODES:
        return pod
    found, most, of = about_nodes, _MAX_ABOUT_NODES, "nodes"
    if about_pods > _MAX_ABOUT_PODS:
        found, most, of = about_pods, _MAX_ABOUT_PODS, "other pods"
    too_many = f"{found:,} conditions on {of}; at most {most} are modelled"
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
    """Whether there are more than `most` values; counts layer by layer, and stops above the limit."""
    try:
        # Each value takes at least one byte. This fast check is enough for nearly all pods.
        if len(marshal.dumps(value)) <= most:
            return False
    except ValueError:
        pass  # too deep for marshal, or not plain JSON
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
