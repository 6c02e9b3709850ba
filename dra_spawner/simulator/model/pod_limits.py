"""Limits of the parts of a pod's spec that are modelled, as its author could make scheduling take long.

The API server admits 15,000 terms in one pod, and each may be compared with every node or pod. No server needs that
many. A pod that exceeds a limit is undecidable (`Pod.undecidable`); for other pods it has no part that is too long.
"""

from __future__ import annotations

import marshal
from collections.abc import Collection, Iterable
from typing import Any, Final

from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.node_selector import NodeSelector, Requirement

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


def too_many_conditions(
    other_pods: Iterable[Collection[Requirement]], nodes: Iterable[NodeSelector], *, more_about_nodes: int
) -> str:
    """The kind of conditions of which a pod has too many, with their number; empty if it has few of both kinds.

    Parameters
    ----------
    other_pods
        The label conditions of each term that selects other pods.
    nodes
        What the pod requires and prefers of nodes.
    more_about_nodes
        Number of its other conditions on nodes.
    """
    about_pods = sum(1 + _size(each) for each in other_pods)
    about_nodes = more_about_nodes + sum(
        1 + _size(term.match_expressions) + _size(term.match_fields) for each in nodes for term in each.terms
    )
    if about_pods > _MAX_ABOUT_PODS:
        return f"{about_pods:,} conditions on other pods; at most {_MAX_ABOUT_PODS} are modelled"
    if about_nodes > _MAX_ABOUT_NODES:
        return f"{about_nodes:,} conditions on nodes; at most {_MAX_ABOUT_NODES} are modelled"
    return ""


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
