"""The part of `DRASpawner` that asks the service where a server gets its place."""

from __future__ import annotations

from typing import Any

from kubespawner import KubeSpawner
from traitlets import Unicode

from dra_spawner import names
from dra_spawner.spawner.objects.start_objects import StartObjects
from dra_spawner.spawner.placement_service import service_of_hub
from dra_spawner.spawner.start_messages import StartMessages
from dra_spawner.spawner.start_place import StartPlace

__all__ = ["PlacedSpawner"]


class PlacedSpawner(KubeSpawner):
    """KubeSpawner whose pods take over what placeholders keep."""

    placement_service = Unicode(
        names.HUB_SERVICE,
        config=True,
        help="""
        Name of the JupyterHub service that is asked where a server gets its place: ``dra-spawner service``. Empty to
        ask none. Where the hub has no service of this name, none is asked, either.

        Servers of profiles with placeholders (``c.DRASpawnerService.placeholders``) take over a warm claim. The service
        is asked once for each start, for a second at most; a start never fails because of it.
        """,
    )

    shapes_config_map = Unicode(
        names.SHAPES_CONFIG_MAP,
        config=True,
        help="""
        Name of the ConfigMap in the hub's namespace in which the hub publishes what servers of each choice need, for
        the service: ``c.DRASpawnerService.shapes_config_map``. Two hubs in one namespace need two names, on both sides,
        and in the roles that name it.
        """,
    )

    _place: StartPlace | None = None
    _messages: StartMessages
    #: How often a pod was stopped: KubeSpawner does so in the middle of a start, if one of that name is there.
    _stops = 0

    def forget_place(self) -> None:
        """Let the next try of a start find a place for itself."""
        self._place = None

    async def find_place(self, pod: Any, objects: StartObjects, *, asks_for_node: bool = True) -> None:
        """Send a pod that is about to be created to its place, if there is a service that knows one.

        All that a ``modify_pod_hook`` has changed counts by now.

        Raises
        ------
        SpawnRefused
            If no node can ever have it.
        """
        if self._place is None:
            address = service_of_hub(self.placement_service)
            if address is None:
                return
            self._place = StartPlace(
                address=address,
                client=self.api.api_client,
                pod_name=self.pod_name,
                hands_over=not self.enable_user_namespaces,
                tell=self._messages.tell,
                log=self.log,
                asks_for_node=asks_for_node,
            )
        await self._place.settle(pod, objects)

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        stops, created = self._stops, False
        try:
            created = bool(await super()._make_create_pod_request(pod, request_timeout))
        finally:
            # It was another pod that KubeSpawner has stopped; without that, this one may be there.
            if not created and stops == self._stops and self._place is not None:
                self._place.pod_may_be_there = True
        return created

    async def stop(self, now: bool = False) -> None:
        """Stop the pod."""
        self._stops += 1
        await super().stop(now)
