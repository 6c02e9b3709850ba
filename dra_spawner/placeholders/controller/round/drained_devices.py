"""Writes the DeviceTaintRules for drained devices, while this process leads; drains broken ones where configured."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from dra_spawner import names
from dra_spawner.common.counted_text import listed
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.rights import missing_right
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.leader import NotLeading
from dra_spawner.kube.taint_rules import PLURAL
from dra_spawner.placeholders.controller.sources.health_reports import HealthReports
from dra_spawner.placeholders.controller.sources.override_store import OverrideStore, OverridesUnavailable
from dra_spawner.placeholders.planner.targets.device_drains import needed_changes, rules_of
from dra_spawner.placeholders.planner.targets.overrides import OverrideKind, Overrides
from dra_spawner.placeholders.planner.targets.sick_devices import drained_by_service, self_drains

log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 5.0
_NAMED: Final = 3


class DrainedDevices:
    """Keeps this service's rules as the settings want them.

    Parameters
    ----------
    watch
        Knows the API version by which the cluster serves rules.
    owner
        Namespace of the hub, and the label of this service's objects, which may be empty.
    reports
        Of devices that do not work.
    """

    def __init__(
        self,
        api: KubernetesApi,
        store: OverrideStore,
        watch: ClusterWatch,
        owner: tuple[str, str],
        now: Callable[[], datetime],
        reports: HealthReports,
    ) -> None:
        self._api = api
        self._store = store
        self._watch = watch
        self._owner = owner
        self._now = now
        self._wake = asyncio.Event()
        self._reports = reports
        self._is_clean = False
        self._problem = ""
        self._too_many: tuple[DeviceId, ...] = ()
        store.on_change(self._wake.set)

    def problems(self) -> list[str]:
        """Sentences: why rules cannot be written, and which devices do not work."""
        found = [f"Devices cannot be drained: {self._problem}."] if self._problem else []
        if self._reports.limit and self._watch.synced and self._watch.rules_api is None:
            found.append("Devices that do not work are not drained: the cluster serves no DeviceTaintRules.")
        if sick := drained_by_service(self._store.present):
            found.append(
                f"Nodes report that devices do not work, and the service drains them: {listed(sick, _NAMED)}. Mend "
                "them, then end the draining."
            )
        if self._too_many:
            found.append(
                f"Nodes report that devices do not work, and they stay in use: {listed([*self._too_many], _NAMED)}. "
                f"The service drains {self._reports.limit} at most (drain_sick_devices)."
            )
        return found

    async def run(self, may_act: Callable[[], None]) -> None:
        """Write rules until cancelled.

        Parameters
        ----------
        may_act
            Called before each write; raises `NotLeading` if this process must not act.
        """
        self._is_clean = False
        end = self._reports.follow(self._wake.set)
        try:
            while True:
                self._wake.clear()
                await self._try(may_act)
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            end()
            self._too_many = ()

    async def _try(self, may_act: Callable[[], None]) -> None:
        try:
            await self._look(may_act)
            self._problem = ""
        except NotLeading:
            pass
        except OverridesUnavailable as error:
            self._problem = str(error).rstrip(".")
        except KubernetesError as error:
            because = missing_right(error) or str(error)
            if because != self._problem:
                log.warning("Drained devices cannot be closed: error=%s", error)
            self._problem = because

    async def _look(self, may_act: Callable[[], None]) -> None:
        version = self._watch.rules_api
        if version is None or self._store.unknown_because:
            return
        if self._store.is_running:
            await self._drain_sick(may_act)
        settings = self._store.present.of_kind(OverrideKind.DEVICES)
        if not settings and self._is_clean:
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

    async def _drain_sick(self, may_act: Callable[[], None]) -> None:
        """Store a setting for each device that does not work."""
        sick, limit = self._reports.present(), self._reports.limit
        found = self_drains(sick, self._store.present, limit, self._now())
        if found.settings:

            def add(present: Overrides) -> Overrides:
                for each in self_drains(sick, present, limit, self._now()).settings:
                    present = present.with_setting(each)
                return present

            may_act()
            await self._store.change(add)
            for each in found.settings:
                log.warning("A device is drained: device=%s because=%s", each.name, each.reason)
        self._too_many = found.too_many
        self._reports.forget(sick)

    def _is_own(self, rule: JsonObject) -> bool:
        metadata = rule["metadata"]
        labels = metadata.get("labels") or {}
        is_ours = (labels.get(names.HUB_NAMESPACE, ""), labels.get(names.INSTALLATION, "")) == self._owner
        return is_ours and str(metadata["name"]).startswith(names.TAINT_RULE_PREFIX)
