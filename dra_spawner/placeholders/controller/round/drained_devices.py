"""Writes the DeviceTaintRules for devices that people drain, while this process leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.rights import missing_right
from dra_spawner.kube.leader import NotLeading
from dra_spawner.kube.taint_rules import PLURAL
from dra_spawner.placeholders.controller.sources.override_store import OverrideStore
from dra_spawner.placeholders.planner.targets.device_drains import needed_changes, rules_of
from dra_spawner.placeholders.planner.targets.overrides import OverrideKind

__all__ = ["DrainedDevices"]

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 5.0


class DrainedDevices:
    """Keeps this service's rules as the settings want them.

    Parameters
    ----------
    version
        The API version by which the cluster serves rules; None if it serves none.
    owner
        Namespace of the hub, and the label of this service's objects, which may be empty.

    Attributes
    ----------
    problem
        Why rules cannot be written; empty if they can.
    """

    def __init__(
        self,
        api: KubernetesApi,
        store: OverrideStore,
        version: Callable[[], str | None],
        owner: tuple[str, str],
        now: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._store = store
        self._version = version
        self._owner = owner
        self._now = now
        self._wake = asyncio.Event()
        self._is_clean = False
        self.problem = ""
        store.on_change(self._wake.set)

    async def run(self, may_act: Callable[[], None]) -> None:
        """Write rules until cancelled.

        Parameters
        ----------
        may_act
            Called before each write; raises `NotLeading` if this process must not act.
        """
        self._is_clean = False
        while True:
            self._wake.clear()
            try:
                await self._look(may_act)
                self.problem = ""
            except NotLeading:
                pass
            except KubernetesError as error:
                because = missing_right(error) or str(error)
                if because != self.problem:
                    log.warning("Drained devices cannot be closed: error=%s", error)
                self.problem = because
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _look(self, may_act: Callable[[], None]) -> None:
        settings = self._store.present.of_kind(OverrideKind.DEVICES)
        version = self._version()
        if version is None or self._store.unknown_because or (not settings and self._is_clean):
            return
        path = resource_path(version, PLURAL)
        found = (await self._api.list(path, label_selector=f"{names.MANAGED_BY}={names.MANAGER}"))["items"]
        own = [each for each in found if self._is_own(each)]
        changes = needed_changes(rules_of(settings, self._now(), *self._owner), own)
        for rule in changes.deleted:
            may_act()
            await self._api.delete(resource_path(version, PLURAL, name=rule["metadata"]["name"]))
        for rule in changes.replaced:
            may_act()
            target = resource_path(version, PLURAL, name=rule["metadata"]["name"])
            await self._api.replace(target, {"apiVersion": version, **rule})
        for rule in changes.created:
            may_act()
            await self._api.create(path, {"apiVersion": version, **rule})
        self._is_clean = not settings

    def _is_own(self, rule: JsonObject) -> bool:
        metadata = rule["metadata"]
        labels = metadata.get("labels") or {}
        is_ours = (labels.get(names.HUB_NAMESPACE, ""), labels.get(names.INSTALLATION, "")) == self._owner
        return is_ours and str(metadata["name"]).startswith(names.TAINT_RULE_PREFIX)
