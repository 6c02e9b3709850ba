"""Servers that may lack their devices, as their placeholder was deleted by force while they waited for its end.

With a grace of 0 the placeholder's object is gone at once. The scheduler then binds the server while the kubelet still
has the claim prepared for the placeholder, and no driver prepares it again. Only another start helps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from dra_spawner import names
from dra_spawner.kube.cluster_watch import Change, ChangeType, ClusterWatch
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.placeholders.planner.decisions.prepared_claims import serves_placeholder_alone
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod

log = logging.getLogger(__name__)


class ForcedEnds:
    """Follows placeholders from the start of the process; see the module."""

    def __init__(self, watch: ClusterWatch, policy: Callable[[], Policy], namespaces: Namespaces) -> None:
        self._watch = watch
        self._policy = policy
        self._namespaces = namespaces
        self._ending: set[ObjectKey] = set()
        self._servers: dict[ObjectKey, tuple[str, str]] = {}
        watch.on_change(self._note)

    def problems(self) -> tuple[str, ...]:
        """A sentence for each server that is still there."""
        return tuple(sentence for _, sentence in self._servers.values())

    def _note(self, change: Change) -> None:
        if change.kind is not Kind.POD:
            return
        key = change.key
        pod = self._watch.snapshot.pods.get(key) if change.type is not ChangeType.REMOVED else None
        if key in self._servers and (pod is None or pod.uid != self._servers[key][0]):
            del self._servers[key]
        if pod is None:
            self._ending.discard(key)
        elif pod.is_deleted and pod.labels.get(names.COMPONENT) == names.PLACEHOLDER and key not in self._ending:
            self._ending.add(key)
            if change.type is not ChangeType.ADDED:
                self._note_end(pod)

    def _note_end(self, placeholder: Pod) -> None:
        """A deletion has begun. A grace of 0 is the begin of one by force, and the end of each."""
        observed = self._watch.observed(Kind.POD, ObjectKey.of(placeholder))
        if observed is None or observed.grace_seconds != 0 or placeholder.is_finished or not placeholder.node_name:
            return
        servers = self._namespaces.servers
        if servers is not None and placeholder.namespace not in servers:
            return
        if not serves_placeholder_alone(self._watch.snapshot, self._policy().drivers_prepare_for, placeholder):
            return
        for server in self._servers_with_claims_of(placeholder):
            sentence = (
                f"Server {server} may lack its devices: they were prepared for placeholder {placeholder}, which "
                "somebody deleted by force. Stop the server and start it again."
            )
            self._servers[ObjectKey.of(server)] = (server.uid, sentence)
            log.warning("%s", sentence)

    def _servers_with_claims_of(self, placeholder: Pod) -> Iterator[Pod]:
        claims = {each.claim for each in placeholder.claims if each.claim}
        for pod in self._watch.snapshot.pods.values():
            is_server = pod.namespace == placeholder.namespace and pod.uid != placeholder.uid
            if is_server and not pod.is_deleted and any(each.claim in claims for each in pod.claims):
                yield pod
