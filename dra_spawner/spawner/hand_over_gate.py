"""The scheduling gate of a pod that takes over a placeholder's place, should nobody else open it.

The service opens it as soon as the placeholder is gone. A service that has ended meanwhile does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from logging import Logger
from typing import Any, Final

from dra_spawner.cluster.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.headroom import labels
from dra_spawner.headroom.gate import opening_of_gate

__all__ = ["HandOverGate", "HandOverStuck"]

#: For so long the gate is the service's, which needs a few hundredths of it.
PATIENCE_SECONDS: Final = 10.0


class HandOverStuck(Exception):
    """Raised where the gate cannot be opened; the server is to start anew, without a warm claim."""


@dataclass
class HandOverGate:
    """Looks after the gate of one pod."""

    api: KubernetesApi
    log: Logger
    _closed_since: float | None = None

    async def is_closed(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod waits at the gate; after a while it is opened here.

        Raises
        ------
        HandOverStuck
            If the hub may not.
        """
        gates = [each["name"] for each in pod["spec"].get("schedulingGates") or ()]
        if labels.HAND_OVER_GATE not in gates:
            return False
        now = asyncio.get_running_loop().time()
        if self._closed_since is None:
            self._closed_since = now
        if now - self._closed_since >= PATIENCE_SECONDS:
            await self._open(pod["metadata"])
        return True

    async def _open(self, metadata: Mapping[str, Any]) -> None:
        self.log.warning("The service has not let the pod in yet, so the hub does: pod=%s", metadata["name"])
        path = resource_path("v1", "pods", metadata["namespace"], metadata["name"])
        try:
            await self.api.patch(path, opening_of_gate(metadata["uid"]), patch_type=PatchType.STRATEGIC)
        except KubernetesError as error:
            if error.status == 403:
                self.log.warning(
                    "The hub may not open scheduling gates; add this rule to its Role (helm-values/rbac.yaml): "
                    'apiGroups: [""], resources: [pods], verbs: [patch]. Kubernetes says: %s',
                    error.message,
                )
                raise HandOverStuck("What was kept for this server does not become free; it starts anew.") from error
            if not (error.not_found or error.other_uid):  # gone, or another pod of that name
                self.log.warning("Could not let the pod in, trying again: %s", error)
