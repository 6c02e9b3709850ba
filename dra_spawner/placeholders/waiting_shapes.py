"""Shapes of servers that wait for a node and of which no choice is published: combinations of options, for one.

The hub writes the definition on the server's pod, so whoever leads finds it there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from dra_spawner.cluster.cluster_watch import ClusterWatch
from dra_spawner.headroom import labels
from dra_spawner.headroom.policy import Policy
from dra_spawner.headroom.shape_definition import DefinitionError, read_definition
from dra_spawner.headroom.shapes import Shape
from dra_spawner.headroom.view import View
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.simulator.pods import Pod

__all__ = ["WaitingShapes"]

log = logging.getLogger(__name__)


class WaitingShapes:
    """Adds to a policy what servers need that wait now.

    Parameters
    ----------
    watch
        Knows the annotations of pods.
    """

    def __init__(self, watch: ClusterWatch) -> None:
        self._watch = watch
        self._read: dict[tuple[str, str], Shape | None] = {}
        self._base: Policy | None = None
        self._added: Mapping[str, Shape] = {}
        self._policy = Policy()

    def added_to(self, policy: Policy, view: View) -> Policy:
        """The policy with their shapes, which have no images: no node is less ready for others because of them.

        Without any published shape it is left as it is: then nobody makes nodes ready.
        """
        if not policy.shapes:
            return policy
        found: dict[str, Shape] = {}
        read: dict[tuple[str, str], Shape | None] = {}
        for pod in view.waiting_users:
            shape = pod.labels.get(labels.SHAPE, "")
            if not shape or shape in policy.shapes or shape in found:
                continue
            text = self._definition(pod)
            if not text:
                continue
            key = (shape, text)
            read[key] = self._read[key] if key in self._read else _shape(shape, text, pod)
            if (known := read[key]) is not None:
                found[shape] = known
        # Only of who waits now: this is as big as that.
        self._read = read
        if not found:
            return policy
        if policy is not self._base or found != self._added:
            self._base, self._added = policy, found
            self._policy = replace(policy, shapes={**policy.shapes, **found})
        return self._policy

    def _definition(self, pod: Pod) -> str:
        observed = self._watch.observed(Kind.POD, ObjectKey.of(pod))
        return observed.annotations.get(labels.DEFINITION, "") if observed is not None else ""


def _shape(shape: str, text: str, pod: Pod) -> Shape | None:
    try:
        return read_definition(text, shape)
    except DefinitionError as error:
        log.warning("A pod does not say what it needs: pod=%s because=%s", pod, error)
        return None
