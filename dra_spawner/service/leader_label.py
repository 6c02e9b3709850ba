"""The label by which a Service selects the leader: each replica sets it on its own pod while it leads.

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
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.leader import LeaderElector
from dra_spawner.kube.rights import missing_right
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind

__all__ = ["LeaderLabel"]

log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 0.5
"""Pause between two checks of the watched pod; they send no requests."""
_RETRY_SECONDS: Final = 5.0
"""Pause after a failed write."""
_LAST_WRITE_SECONDS: Final = 2.0
"""Limit of the label's removal when the process ends."""


@dataclass
class LeaderLabel:
    """Sets and removes the label of this replica's own pod.

    Attributes
    ----------
    watch
        Shows the pod's present labels.
    pod
        The pod of this process. No other pod is written.
    problem
        Why the label cannot be set or removed, as a sentence; empty without a problem.
    """

    api: KubernetesApi
    watch: ClusterWatch
    elector: LeaderElector
    pod: ObjectKey
    problem: str = ""
    _written: bool = field(default=False, init=False)

    @property
    def is_set(self) -> bool:
        """Whether the pod was last seen with the label."""
        observed = self.watch.observed(Kind.POD, self.pod)
        return observed is not None and observed.labels.get(names.LEADER) == names.TRUE

    async def run(self) -> None:
        """Set the label while this process leads, and remove it otherwise, until cancelled."""
        try:
            while True:
                await self._reconcile()
                await asyncio.sleep(_RETRY_SECONDS if self.problem else _CHECK_SECONDS)
        finally:
            # The container may start again in this pod while another replica leads.
            if self.is_set or self._written:
                with contextlib.suppress(KubernetesError, TimeoutError):
                    async with asyncio.timeout(_LAST_WRITE_SECONDS):
                        await self._write(is_leader=False)

    async def _reconcile(self) -> None:
        if not self.watch.synced:
            return
        if self.watch.observed(Kind.POD, self.pod) is None:
            self._note_problem("this pod does not exist (setting pod_name)")
            return
        is_leader = self.elector.is_leader
        if is_leader == self.is_set:
            self.problem = ""
            return
        try:
            await self._write(is_leader=is_leader)
        except KubernetesError as error:
            self._note_problem(missing_right(error) or str(error))
        else:
            self.problem = ""
            log.info("Pod labelled: pod=%s leader=%s", self.pod, is_leader)

    async def _write(self, *, is_leader: bool) -> None:
        body = {"metadata": {"labels": {names.LEADER: names.TRUE if is_leader else None}}}
        await self.api.patch(resource_path("v1", "pods", self.pod.namespace, self.pod.name), body)
        self._written = is_leader

    def _note_problem(self, cause: str) -> None:
        problem = (
            f"The label {names.LEADER} of pod {self.pod} cannot be written: {cause}. "
            "Without it a Service cannot select the leader."
        )
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
