"""Overrides in a ConfigMap: followed by a watch, written by compare-and-swap."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import methodcaller
from types import TracebackType
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.log_once import LogOnce
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.rights import missing_right
from dra_spawner.kube.client.versions import is_older
from dra_spawner.kube.informer_task import InformerTask
from dra_spawner.kube.informers import Informer, InformerSettings
from dra_spawner.kube.leader import NotLeading
from dra_spawner.kube.resource import Resource
from dra_spawner.placeholders.controller.sources.stored_overrides import (
    OverridesTooLarge,
    OverridesUnreadable,
    changed_data,
    read_overrides,
    unreadable_keys,
)
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.orders import is_order_done
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.simulator.model.claims import ObjectKey

log = logging.getLogger(__name__)

#: Tries of a change that others write at the same time.
_TRIES: Final = 5
#: Shortest time until another look for settings that end.
_LEAST_WAIT_SECONDS: Final = 0.01
#: Time between two looks for orders that are done.
_LOOK_SECONDS: Final = 2.0


class OverridesUnavailable(Exception):
    """Raised where settings cannot be written; the message is a sentence."""


class OverrideStore(InformerTask):
    """Follows the ConfigMap with the settings, and changes it.

    An asynchronous context manager: leaving it ends the informer. Every replica follows it, and may write it: the API
    server refuses the second of two writes to one version.

    Parameters
    ----------
    now
        The present time; settings that have ended have no effect.
    on_change
        Called after each change, also when a setting ends by its time; must not raise.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        name: str = names.SETTINGS_CONFIG_MAP,
        *,
        now: Callable[[], datetime],
        on_change: Callable[[], None] = lambda: None,
        settings: InformerSettings | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._now = now
        self._callbacks = [on_change]
        self._present = Overrides()
        self._version = ""
        self._unreadable: list[str] = []
        self._log_once = LogOnce(log)
        resource = Resource("ConfigMap", "v1", "configmaps", namespace, name)
        super().__init__(Informer(api, resource, self, settings=settings), name)
        self._exists = False
        self._next_end: asyncio.TimerHandle | None = None

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call a function after each change; it must not raise."""
        self._callbacks.append(callback)

    def on_change_of(self, part: Callable[[Overrides], object], callback: Callable[[], None]) -> None:
        """Call a function after each change of a part of the settings; it must not raise."""
        known = part(self.present)

        def compare() -> None:
            nonlocal known
            before, known = known, part(self.present)
            if known != before:
                callback()

        self.on_change(compare)

    @property
    def present(self) -> Overrides:
        """The settings in effect; the same object until something changes."""
        self._present = self._present.active(self._now())
        return self._present

    @property
    def problem(self) -> str:
        """Why the settings cannot be followed, or a part of them; empty if they can."""
        if problem := self._informer.status.problem:
            return f"cannot follow ConfigMap {self._name}: {problem}"
        if self._unreadable:
            keys = ", ".join(self._unreadable)
            return (
                f"ConfigMap {self._name}: {keys} is no valid JSON. What was known before counts; mend it, or empty it"
            )
        return ""

    @property
    def unknown_because(self) -> str:
        """Why the settings are not known; empty if they are. Where no ConfigMap is followed, nothing is set."""
        if not self.is_running or self._informer.synced:
            return self.problem
        return self.problem or f"ConfigMap {self._name} was not read yet"

    async def change(self, change: Callable[[Overrides], Overrides]) -> Overrides:
        """Write changed settings.

        Parameters
        ----------
        change
            Returns the new settings for the present ones; it is called again after a conflict.

        Raises
        ------
        OverridesUnavailable
        """
        try:
            for _ in range(_TRIES):
                obj = await self._read()
                changed = change(read_overrides(obj).active(self._now()))
                try:
                    self.put(await self._write(obj, changed_data(obj, changed)))
                except KubernetesError as error:
                    if error.conflict or error.already_exists:
                        continue
                    raise
                return changed
        except KubernetesError as error:
            because = missing_right(error) or "a request to the Kubernetes API has failed"
            if error.status == 403 and not self._exists:
                because = f"upgrade the chart dra-spawner, which has the ConfigMap {self._name}"
            log.warning("Settings cannot be written: error=%s", error)
            raise OverridesUnavailable(f"Settings cannot be stored at present: {because}.") from None
        except OverridesUnreadable as error:
            because = f"ConfigMap {self._name} was edited, and {error}"
            raise OverridesUnavailable(f"Settings cannot be stored at present: {because}.") from None
        except OverridesTooLarge:
            because = f"ConfigMap {self._name} is full. Delete classes or settings that are not needed any more"
            raise OverridesUnavailable(f"Settings cannot be stored at present: {because}.") from None
        raise OverridesUnavailable("Settings cannot be stored at present: others change them at the same time.")

    async def _read(self) -> JsonObject | None:
        try:
            return await self._api.get(resource_path("v1", "configmaps", self._namespace, self._name))
        except KubernetesError as error:
            if error.not_found:
                return None
            raise

    async def _write(self, obj: JsonObject | None, data: Mapping[str, str]) -> JsonObject:
        if obj is not None:
            path = resource_path("v1", "configmaps", self._namespace, self._name)
            return await self._api.replace(path, {**obj, "data": data})
        labels = {names.MANAGED_BY: names.MANAGER}
        metadata = {"name": self._name, "namespace": self._namespace, "labels": labels}
        # The shipped roles have no right to create it: the chart has it, empty.
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return await self._api.create(resource_path("v1", "configmaps", self._namespace), manifest)

    def put(self, obj: JsonObject) -> None:
        """Take a version of the ConfigMap, unless it is older than the present one, as a watch's after an own write."""
        version = obj["metadata"].get("resourceVersion", "")
        if is_older(version, self._version):
            return
        self._version = version
        self._exists = True
        self._unreadable = unreadable_keys(obj)
        self._log_once.present([self.problem] if self._unreadable else [])
        self._take(read_overrides(obj, self._present))

    def remove(self, key: ObjectKey) -> None:
        """Note that the ConfigMap is gone."""
        self._version, self._exists, self._unreadable = "", False, []
        self._take(Overrides())

    def _take(self, settings: Overrides) -> None:
        if settings != self._present:
            self._present = settings
            self._notify()

    def _notify(self) -> None:
        """Call the callbacks now, and again when the next setting ends."""
        self._forget_end()
        for each in self._callbacks:
            each()
        ends = [each.until for each in self.present.settings.values() if each.until is not None]
        if ends and self.is_running:
            wait = max((min(ends) - self._now()).total_seconds(), _LEAST_WAIT_SECONDS)
            self._next_end = asyncio.get_running_loop().call_later(wait, self._notify)

    def _forget_end(self) -> None:
        if self._next_end is not None:
            self._next_end.cancel()
            self._next_end = None

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._forget_end()
        await super().__aexit__(exc_type, exc, traceback)

    async def forget_done_orders(self, view: Callable[[], View], may_act: Callable[[], None]) -> None:
        """Delete finished orders of people until cancelled; a failed write is retried in the next pass.

        Parameters
        ----------
        may_act
            Called before each write; raises `NotLeading` if this process must not act.
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self.present.orders:
                continue
            present = view()
            if done := [each for each in self.present.orders if is_order_done(present, each.order)]:
                with contextlib.suppress(NotLeading, OverridesUnavailable):  # `change` logs why
                    may_act()
                    await self.change(methodcaller("without_orders", done))
