"""Conditions on nodes that this project adds to users' pods: the node is ready for users, and no person drains it.

A server requires a node that is not drained by order. A kubelet that restarts ends running pods whose required node
affinity does not match any more (``canAdmitPod`` in pkg/kubelet, as of 1.36), and an order must end no server. So each
pod has a mark of its own, and a drained node gets a label for the mark of each server that runs there: an alternative
term of its affinity matches, and no term of a server that is pending does, however long it has waited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.node_selector import NodeSelector, Requirement

if TYPE_CHECKING:  # a hub adds conditions to manifests, without the simulator
    from dra_spawner.simulator.model.pods import Pod

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_READY: Final = {"key": names.IMAGES_READY, "operator": "Exists"}
_NOT_DRAINED: Final = {"key": names.DRAINING, "operator": "NotIn", "values": [names.ORDERED]}
_NOT_DRAINED_REQUIREMENT: Final = Requirement(names.DRAINING, "NotIn", (names.ORDERED,))
#: What a pod may have as its mark: it becomes the name of a label.
_MARK: Final = re.compile(r"[0-9a-f]{10}")


def requiring_readiness(affinity: Mapping[str, Any]) -> JsonObject:
    """A pod's affinity that also requires a node that is ready for users."""
    return _with_terms(affinity, [_with(term, _READY) for term in _terms(affinity)])


def refusing_drained_nodes(affinity: Mapping[str, Any], mark: str | None = None) -> JsonObject:
    """A pod's affinity that also refuses nodes that are drained by order. Idempotent.

    Parameters
    ----------
    mark
        The pod's own, ten hexadecimal digits that no other pod has; None for a pod that is not created.
    """
    terms = [_without_ours(term) for term in _terms(affinity) if not _is_spared(term)] or [{}]
    refusing = [_with(term, _NOT_DRAINED) for term in terms]
    if mark is not None:
        spared = {"key": names.DRAIN_SPARES_PREFIX + mark, "operator": "Exists"}
        refusing += [_with(term, spared) for term in terms]
    return _with_terms(affinity, refusing)


def without_label(pod: Pod, label: str) -> Pod:
    """The pod without its requirement of a node label; the same object if it has none."""
    required = pod.required_nodes
    selector = {key: value for key, value in pod.node_selector.items() if key != label}
    if required is not None:
        terms = tuple(
            replace(term, match_expressions=tuple(each for each in term.match_expressions if each.key != label))
            for term in required.terms
        )
        if terms != required.terms:
            # A term with this label alone then allows any node.
            rest = None if any(term.is_empty for term in terms) else NodeSelector(terms)
            return replace(pod, node_selector=selector, required_nodes=rest)
    return replace(pod, node_selector=selector) if len(selector) < len(pod.node_selector) else pod


def drain_mark(pod: Pod) -> str | None:
    """The mark in a pod's affinity; None if it has none."""
    for requirement in _requirements(pod):
        if requirement.key.startswith(names.DRAIN_SPARES_PREFIX) and requirement.operator == "Exists":
            mark = requirement.key.removeprefix(names.DRAIN_SPARES_PREFIX)
            return mark if _MARK.fullmatch(mark) else None
    return None


def without_drains(pod: Pod) -> Pod:
    """The pod as if no node were drained; the same object if it may run on drained nodes."""
    required = pod.required_nodes
    if required is None or not any(_is_ours(each) for each in _requirements(pod)):
        return pod
    terms = (
        replace(term, match_expressions=tuple(each for each in term.match_expressions if not _is_ours(each)))
        for term in required.terms
        if not any(each.key.startswith(names.DRAIN_SPARES_PREFIX) for each in term.match_expressions)
    )
    kept = tuple(terms)
    # A term that had no other condition then allows any node.
    return replace(pod, required_nodes=None if any(term.is_empty for term in kept) else NodeSelector(kept))


def _requirements(pod: Pod) -> Iterator[Requirement]:
    for term in pod.required_nodes.terms if pod.required_nodes is not None else ():
        yield from term.match_expressions


def _is_ours(requirement: Requirement) -> bool:
    return requirement == _NOT_DRAINED_REQUIREMENT or requirement.key.startswith(names.DRAIN_SPARES_PREFIX)


def _terms(affinity: Mapping[str, Any]) -> list[JsonObject]:
    required = (affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return list(required.get("nodeSelectorTerms") or [{}])


def _with_terms(affinity: Mapping[str, Any], terms: list[JsonObject]) -> JsonObject:
    nodes = affinity.get("nodeAffinity") or {}
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": terms}}}


def _with(term: Mapping[str, Any], expression: Mapping[str, Any]) -> JsonObject:
    return {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), dict(expression)]}


def _without_ours(term: Mapping[str, Any]) -> JsonObject:
    expressions = [each for each in term.get("matchExpressions") or () if each != _NOT_DRAINED]
    rest = {key: value for key, value in term.items() if key != "matchExpressions"}
    return {**rest, "matchExpressions": expressions} if expressions else rest


def _is_spared(term: Mapping[str, Any]) -> bool:
    return any(
        str(each.get("key")).startswith(names.DRAIN_SPARES_PREFIX) for each in term.get("matchExpressions") or ()
    )
