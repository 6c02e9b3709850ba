"""The part of `DRASpawner` that makes a server's pod again, once, where its node does not get it to run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubespawner import KubeSpawner
from traitlets import Integer

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.profiles import ClaimPlan
from dra_spawner.spawner.objects.api_objects import CLAIMS
from dra_spawner.spawner.objects.start_objects import StartObjects
from dra_spawner.spawner.other_nodes import devices_of, fits_elsewhere
from dra_spawner.spawner.placed_pod import manifest_of, without_node
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.start_messages import StartMessages
from dra_spawner.spawner.start_metrics import STARTS_MADE_AGAIN
from dra_spawner.spawner.start_trouble import DeviceTrouble, TroubleWatch

__all__ = ["HealingSpawner"]

#: A second pod that has less time than this, in seconds, is not made.
_LEAST_SECONDS: Final = 10.0
#: Of ``start_timeout``, so that short ones leave time for the second pod.
_LARGEST_PART: Final = 1 / 3


@dataclass(frozen=True, slots=True)
class _SecondTry:
    """What a pod that is made again is told.

    Attributes
    ----------
    failed
        What became of the first one, as a sentence.
    node
        Where that was.
    elsewhere
        Whether it must go to another node, since one has room; else it goes there if it can.
    """

    failed: str
    node: str
    elsewhere: bool


class HealingSpawner(KubeSpawner):
    """KubeSpawner that does not give a start up where only its node or its device is in the way."""

    heal_after_seconds = Integer(
        60,
        min=0,
        config=True,
        help="""
        For how long, in seconds, a node may fail to make a server's devices ready; then the server's pod is made again
        with another device, once in a start. At most a third of ``start_timeout``, so that time is left for it.

        It is made again at once where waiting cannot help: the node refuses the pod or has lost its claim, or the
        device is unhealthy or withdrawn. 0: pods are never made again. ``events_enabled`` has to be on for the first.
        """,
    )

    _messages: StartMessages
    _second_try: _SecondTry | None = None
    _start_ends = 0.0

    def _trouble_watch(self) -> TroubleWatch | None:
        """What judges the next pod; None if none is made again."""
        if not self.heal_after_seconds:
            return None
        return TroubleWatch(min(self.heal_after_seconds, self.start_timeout * _LARGEST_PART))

    def _all_events(self) -> Iterable[JsonObject]:
        """Events of all servers; not sorted, as ``event_reflector.events`` is at each call."""
        return list(self.event_reflector.resources.values()) if self.event_reflector else ()

    async def _plan_second_try(
        self, found: DeviceTrouble, api: KubernetesApi, plan: ClaimPlan, objects: StartObjects | None
    ) -> None:
        """Decide where the second pod goes.

        Raises
        ------
        SpawnRefused
            If this is the second pod, or there is no time for one.
        """
        trouble, pod = found.trouble, found.pod
        sentence = trouble.sentence(await devices_of(api, pod))
        self.log.warning("The pod does not get to run: pod=%s %s", self.pod_name, sentence)
        if self._second_try is not None:
            raise SpawnRefused(
                f"This server was made twice and did not start. First: {self._second_try.failed} Then: {sentence} "
                "Please try again later, or tell your administrator.",
                RefusalReason.DEVICE,
                503,
            )
        if self._start_ends - asyncio.get_running_loop().time() < _LEAST_SECONDS:
            raise SpawnRefused(
                f"{sentence} No time was left to make it again. Please try again.", RefusalReason.DEVICE, 503
            )
        # A claim that others made, or share, stays where it is.
        is_free = objects is not None and not any(each.object.plural == CLAIMS for each in objects.standing.values())
        servers = [each for each in self.pod_reflector.pods.values() if each["metadata"]["name"] != self.pod_name]
        elsewhere = is_free and await fits_elsewhere(api, plan.specs, pod, servers, _gives_way)
        self._second_try = _SecondTry(sentence, trouble.node, elsewhere)
        STARTS_MADE_AGAIN.labels(trouble.kind.value).inc()
        where = "on another node" if elsewhere else "with another device if there is one"
        self._messages.tell(f"{sentence} It is made again, {where}.")

    def _avoid_node(self, pod: Any) -> None:
        """Send a second pod away from where the first one failed. Idempotent."""
        if self._second_try is not None and self._second_try.node:
            affinity = manifest_of(pod, self.api.api_client)["spec"].get("affinity") or {}
            pod.spec.affinity = without_node(affinity, self._second_try.node, required=self._second_try.elsewhere)


def _gives_way(claim: Mapping[str, Any]) -> bool:
    """Whether a claim is a placeholder's, which makes way for servers."""
    found = claim["metadata"].get("labels") or {}
    return names.SHAPE in found and names.RESERVED_FOR not in found
