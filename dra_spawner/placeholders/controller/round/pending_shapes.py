"""Shapes of pending servers that are not published, for example combinations of options.

The hub writes the definition on the server's pod, where every replica finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from dra_spawner import names
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.pod_shapes import OwnShapes
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shape_definition import DefinitionError, read_definition
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod

log = logging.getLogger(__name__)


class PendingShapes:
    """Adds shapes of pending servers to a policy.

    Parameters
    ----------
    watch
        Has the annotations of pods.
    trusts_servers
        Whether the labels of servers' pods are believed; not where users may write them.
    """

    def __init__(self, watch: ClusterWatch, *, trusts_servers: bool = True) -> None:
        self._watch = watch
        self._own = None if trusts_servers else OwnShapes()
        self._read: dict[tuple[str, str], Shape | None] = {}
        self._base: Policy | None = None
        self._added: Mapping[str, Shape] = {}
        self._policy = Policy()

    def added_to(self, policy: Policy, view: View) -> tuple[Policy, View]:
        """The policy with these shapes, and the view with true shapes where servers are not trusted.

        The added shapes have no images, so they do not change the readiness of nodes. Without any published shape both
        are returned unchanged.
        """
        if not policy.shapes:
            return policy, view
        found: dict[str, Shape] = {}
        own: dict[ObjectKey, str] = {}
        read: dict[tuple[str, str], Shape | None] = {}
        for pod in view.pending_users:
            shape = pod.labels.get(names.SHAPE, "")
            known = policy.shapes.get(shape) or found.get(shape)
            if known is None and shape and (text := self._definition(pod)):
                key = (shape, text)
                if key not in read:
                    read[key] = self._read[key] if key in self._read else _shape(shape, text, pod)
                known = read[key]
            if known is not None and self._own is not None:
                known = self._own_of(pod, known, view)
                if known is not None:
                    own[ObjectKey.of(pod)] = known.id
            if known is not None and known.id not in policy.shapes:
                found[known.id] = known
        # Bounded by the number of pending servers.
        self._read = read
        if self._own is not None:
            self._own.forget_others()
            view = view.with_own_shapes(own)
        if not found:
            return policy, view
        if policy is not self._base or found != self._added:
            self._base, self._added = policy, found
            self._policy = replace(policy, shapes={**policy.shapes, **found})
        return self._policy, view

    def _own_of(self, pod: Pod, said: Shape, view: View) -> Shape | None:
        assert self._own is not None
        found, is_new = self._own.of(pod, said, view.snapshot)
        if found is None and is_new:
            log.warning("A pod's declared shape is not its true one: pod=%s shape=%s", pod, said.id)
        return found

    def _definition(self, pod: Pod) -> str:
        observed = self._watch.observed(Kind.POD, ObjectKey.of(pod))
        return observed.annotations.get(names.DEFINITION, "") if observed is not None else ""


def _shape(shape: str, text: str, pod: Pod) -> Shape | None:
    try:
        return read_definition(text, shape)
    except DefinitionError as error:
        log.warning("A pod has no valid shape definition: pod=%s because=%s", pod, error)
        return None
