"""The label by which a Service selects the leader: each replica sets it on its own pod while it leads.

A pod whose node is cut off, or whose container hangs, cannot remove the label itself. So the leader removes it from
other pods of this installation, and a Service that also serves pods that are not ready sends no requests there. The
label is set while the data about the cluster are incomplete, too: the leader's page then says what is missing.

The label only directs requests. It gives no right to act: the leader checks its Lease before each write. HashiCorp
Vault labels its active replica in the same way (``vault-active``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Final

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.rights import missing_right
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.leader import LeaderElector
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind, Knowledge

log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 0.5
"""Pause between two checks of the watched pod; they send no requests."""
RETRY_SECONDS: Final = 5.0
"""Pause after a failed write."""
LAST_WRITE_SECONDS: Final = 2.0
"""Limit of the label's removal when the process ends."""


@dataclass
class LeaderLabel:
    """Sets and removes the label of this replica's own pod.

    Attributes
    ----------
    watch
        Shows the pod's present labels.
    pod
        The pod of this process.
    problem
        Why the label cannot be set or removed, as a sentence; empty without a problem.
    """

    api: KubernetesApi
    watch: ClusterWatch
    elector: LeaderElector
    pod: ObjectKey
    problem: str = ""
    _written: bool | None = field(default=False, init=False)
    """Whether the last write of this process set the label; None if the write's outcome is unknown."""
    _labelled: set[ObjectKey] = field(default_factory=set, init=False)
    """Pods of this namespace with the label."""

    @property
    def is_set(self) -> bool:
        """Whether the pod was last seen with the label."""
        observed = self.watch.observed(Kind.POD, self.pod)
        return observed is not None and observed.labels.get(names.LEADER) == names.TRUE

    async def run(self) -> None:
        """Set the label while this process leads, and remove it otherwise, until cancelled."""
        for key in self.watch.observed_of(Kind.POD):
            self._note_pod(key)
        end_notes = self.watch.on_change(lambda change: self._note_pod(change.key, change.kind))
        try:
            while True:
                await self._reconcile()
                await asyncio.sleep(RETRY_SECONDS if self.problem else _CHECK_SECONDS)
        finally:
            end_notes()
            # The container may start again in this pod while another replica leads.
            if self.is_set or self._written is not False:
                with contextlib.suppress(KubernetesError, TimeoutError):
                    async with asyncio.timeout(LAST_WRITE_SECONDS):
                        await self._write(self.pod, is_leader=False)

    async def _reconcile(self) -> None:
        is_seen = self.watch.observed(Kind.POD, self.pod) is not None
        if not is_seen and self.watch.knowledge()[Kind.POD] is Knowledge.KNOWN:
            self._note_problem(self.pod, "this pod does not exist (setting pod_name)")
            return
        is_leader = self.elector.is_leader
        due = [] if is_leader == (self.is_set if is_seen else self._written) else [self.pod]
        if is_leader:
            due += filter(self._is_replica, sorted(self._labelled - {self.pod}))
        for pod in due:
            leads = is_leader and pod == self.pod
            try:
                await self._write(pod, is_leader=leads)
            except KubernetesError as error:
                if pod == self.pod or not error.not_found:
                    self._note_problem(pod, missing_right(error) or str(error))
                    return
            else:
                log.info("Pod labelled: pod=%s leader=%s", pod, leads)
        self.problem = ""

    async def _write(self, pod: ObjectKey, *, is_leader: bool) -> None:
        body = {"metadata": {"labels": {names.LEADER: names.TRUE if is_leader else None}}}
        if pod == self.pod:
            # The API server may carry out a write whose answer this process does not wait for.
            self._written = None
        await self.api.patch(resource_path("v1", "pods", pod.namespace, pod.name), body)
        if pod == self.pod:
            self._written = is_leader

    def _note_pod(self, key: ObjectKey, kind: Kind = Kind.POD) -> None:
        if kind is not Kind.POD or key.namespace != self.pod.namespace:
            return
        observed = self.watch.observed(Kind.POD, key)
        if observed is not None and observed.labels.get(names.LEADER) == names.TRUE:
            self._labelled.add(key)
        else:
            self._labelled.discard(key)

    def _is_replica(self, key: ObjectKey) -> bool:
        """Whether a pod is of the same installation as this one; a namespace may have two."""
        own, other = (self.watch.observed(Kind.POD, each) for each in (self.pod, key))
        if own is None or other is None:
            return False
        labels = (names.APPLICATION, names.INSTANCE)
        return all(label in own.labels and own.labels[label] == other.labels.get(label) for label in labels)

    def _note_problem(self, pod: ObjectKey, cause: str) -> None:
        problem = (
            f"The label {names.LEADER} of pod {pod} cannot be written: {cause}. "
            "Without it a Service cannot select the leader."
        )
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
