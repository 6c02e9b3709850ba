"""Step: keep a pod from nodes that a person drains, also while the service does not answer."""

from __future__ import annotations

from typing import Any

from dra_spawner.spawner.steps.attempt import Step


class DrainedNodes(Step):
    """Adds the condition to the pod that all other steps have changed."""

    async def prepare_request(self, pod: Any) -> bool:
        """Refuse drained nodes. Idempotent."""
        try:
            affinity = self.spawner.api.api_client.sanitize_for_serialization(pod.spec.affinity) or {}
            pod.spec.affinity = self.attempt.refusing_drained_nodes(affinity) or None
        except Exception:  # a hook may have changed the pod in any way; the API server judges it
            self.log.exception("The pod may start on drained nodes, its affinity cannot be read")
        return True
