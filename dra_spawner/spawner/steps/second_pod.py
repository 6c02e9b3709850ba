"""Step: keep the second pod of a start from the node on which the first failed; and decide about a second pod."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from prometheus_client import Counter

from dra_spawner import names
from dra_spawner.spawner.objects.api_objects import CLAIMS
from dra_spawner.spawner.placement.pod import manifest_of, without_node
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.steps.attempt import Attempt, FailedPod, Retry, Step
from dra_spawner.spawner.steps.pod_failures import PodCannotRun, PodFailureKind, PodFailureWatch

PODS_RECREATED: Final = Counter(
    "dra_spawner_pods_recreated",
    "Pods of servers that were created again, since the node or the device of the first pod failed",
    ["reason"],
)
for _kind in PodFailureKind:
    # Created up front, so that dashboards never miss a series.
    PODS_RECREATED.labels(_kind.value)

#: Minimum seconds that must be left for a second pod.
LEAST_SECONDS: Final = 10.0
#: Maximum part of ``start_timeout`` for a failing first pod, so that time is left for the second.
_LARGEST_PART: Final = 1 / 3


class SecondPod(Step):
    """Sends a second pod to another node."""

    def __init__(self, attempt: Attempt, failed: FailedPod) -> None:
        super().__init__(attempt)
        self._failed = failed

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if this is the second pod of a start."""
        if attempt.retry.failed is None:
            return None
        attempt.node_is_chosen = True
        return cls(attempt, attempt.retry.failed)

    async def prepare_request(self, pod: Any) -> bool:
        """Keep the pod from the node of the first pod. Idempotent."""
        if self._failed.node:
            affinity = manifest_of(pod, self.spawner.api.api_client)["spec"].get("affinity") or {}
            pod.spec.affinity = without_node(affinity, self._failed.node, required=self._failed.elsewhere)
        return True


def failure_watch(spawner: SpawnerSettings, retry: Retry) -> PodFailureWatch | None:
    """Return the watch of a pod's failures; None if pods are not created again."""
    if not spawner.retry_failed_pod_after_seconds:
        return None
    limit = min(spawner.retry_failed_pod_after_seconds, spawner.start_timeout * _LARGEST_PART)
    # Most nodes have taken a claim back by the second pod. If not, pods are not created one after the other.
    return PodFailureWatch(limit, held_seconds=0.0 if retry.failed is None else limit)


async def plan_second_pod(attempt: Attempt, found: PodCannotRun, start_ends: float) -> FailedPod:
    """Decide where the second pod runs.

    Parameters
    ----------
    start_ends
        Latest end of the start, by the event loop's clock.

    Raises
    ------
    SpawnRefused
        If this was the second pod, or no time is left for another one. A node that takes the devices back from an
        earlier server is only waited for.
    """
    # Imported here, as few pods fail.
    from dra_spawner.spawner.devices.other_nodes import devices_of, fits_elsewhere

    spawner, failure, pod = attempt.spawner, found.failure, found.pod
    sentence = failure.sentence(await devices_of(attempt.server.kubernetes, pod))
    spawner.log.warning("The pod cannot run: pod=%s %s", spawner.pod_name, sentence)
    still_held = failure.kind is PodFailureKind.STILL_HELD
    if attempt.retry.failed is not None and not still_held:
        raise SpawnRefused(failed_twice(attempt.retry.failed.sentence, sentence), RefusalReason.DEVICE, 503)
    if start_ends - asyncio.get_running_loop().time() < LEAST_SECONDS:
        raise SpawnRefused(
            f"{sentence} No time was left for a second try. Please try again.", RefusalReason.DEVICE, 503
        )
    objects = attempt.objects
    # A shared claim stays on its node.
    is_free = objects is not None and not any(each.object.plural == CLAIMS for each in objects.shared.values())
    servers = [each for each in spawner.pod_reflector.pods.values() if each["metadata"]["name"] != spawner.pod_name]
    elsewhere = is_free and await fits_elsewhere(
        attempt.server.devices, attempt.plan.specs, pod, servers, _can_be_preempted
    )
    PODS_RECREATED.labels(failure.kind.value).inc()
    where = ", on another machine" if elsewhere else "" if still_held else ", with another device if there is one"
    attempt.messages.notify(f"{sentence} It is started again{where}.")
    return FailedPod(sentence, failure.node, elsewhere)


def failed_twice(first: str, second: str) -> str:
    """What a user is told when both pods of a start could not run, for the same reason or for two."""
    reasons = f"Both times: {second}" if first == second else f"First: {first} Then: {second}"
    return (
        f"This server was tried twice and did not start. {reasons} Please try again later, or tell your administrator."
    )


def _can_be_preempted(claim: Mapping[str, Any]) -> bool:
    """Whether a claim is a warm claim that is not reserved for a server."""
    found = claim["metadata"].get("labels") or {}
    return names.SHAPE in found and names.RESERVED_FOR not in found
