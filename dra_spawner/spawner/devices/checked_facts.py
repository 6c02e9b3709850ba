"""The cluster's facts as a hub last read them, and what they say about choices; read anew before anybody is refused."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from dra_spawner.kube.api import KubernetesApi, KubernetesError
from dra_spawner.profiles.choices import Choice, ListedChoice
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import CheckReport, Inventory, check_choice, check_choices
from dra_spawner.spawner.devices.facts import read_facts

__all__ = ["CheckedFacts"]

#: For how long what was read counts; a spawn that comes later makes the hub read anew, and does not wait for it.
_FRESH_SECONDS: Final = 300.0
#: How long such a spawn waits for the reading; without an answer nobody is refused.
_WAIT_SECONDS: Final = 5.0

_UNKNOWN: Final = ClusterFacts()


class CheckedFacts:
    """What is known of one cluster, for all spawners of a hub.

    Parameters
    ----------
    nodes_may_be_added
        See `ClusterFacts`.
    ignored
        Names of rules that do not count.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str | None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        *,
        nodes_may_be_added: bool,
        ignored: Collection[str] = (),
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._log = log
        self._nodes_may_be_added = nodes_may_be_added
        self._ignored = frozenset(ignored)
        self._inventory = Inventory(_UNKNOWN)
        self._read_at: float | None = None
        #: When the last reading that has ended was begun: what changed before then, it has seen.
        self._begun_at = -math.inf
        self._failed = False
        self._reading: asyncio.Task[None] | None = None
        # An inventory keeps what it finds out; one thread at a time.
        self._turn = asyncio.Lock()

    @property
    def facts(self) -> ClusterFacts:
        """What was last read."""
        return self._inventory.facts

    async def check_all(self, listed: Iterable[ListedChoice]) -> CheckReport:
        """All choices of a list, against facts that are read for it."""
        await self._read_now()
        async with self._turn:
            return await asyncio.to_thread(check_choices, tuple(listed), self._inventory, (), self._ignored)

    async def error_in(self, choice: Choice) -> Finding | None:
        """Why a choice cannot work here, if that is so by what is read after this was asked."""
        asked_at = asyncio.get_running_loop().time()
        age = self._age()
        if age is None or age > _FRESH_SECONDS:
            self._begin_reading()
        error = await self._first_error(choice)
        if error is None:
            return None
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while self._begun_at < asked_at:
                    await self._read_now()
        except TimeoutError:
            self._log.info("The cluster does not say soon enough whether this still holds: %s", error)
            return await self._error_anywhere(choice)
        return await (self._error_anywhere(choice) if self._failed else self._first_error(choice))

    async def _first_error(self, choice: Choice) -> Finding | None:
        async with self._turn:
            found = await asyncio.to_thread(check_choice, choice, self._inventory, self._ignored)
        return next((each for each in found if each.level is Level.ERROR), None)

    async def _error_anywhere(self, choice: Choice) -> Finding | None:
        """An error that is one on every cluster."""
        found = await asyncio.to_thread(check_choice, choice, Inventory(_UNKNOWN), self._ignored)
        return next((each for each in found if each.level is Level.ERROR), None)

    def _age(self) -> float | None:
        """Seconds since the last reading; none if there was none."""
        return None if self._read_at is None else asyncio.get_running_loop().time() - self._read_at

    def _begin_reading(self) -> asyncio.Task[None]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read_now(self) -> None:
        # Whoever stops waiting does not stop the reading for others.
        await asyncio.shield(self._begin_reading())

    async def _read(self) -> None:
        begun_at = asyncio.get_running_loop().time()
        await self._read_once()
        self._begun_at = begun_at

    async def _read_once(self) -> None:
        try:
            facts = await read_facts(self._api, self._namespace)
        except KubernetesError as error:
            if not self._failed:
                self._log.warning("Profiles are not checked against the cluster, which cannot be asked: %s", error)
            self._failed = True
            return
        except Exception:
            self._log.exception("Profiles are not checked against the cluster")
            self._failed = True
            return
        self._failed = False
        self._read_at = asyncio.get_running_loop().time()
        facts = replace(facts, nodes_may_be_added=self._nodes_may_be_added)
        if facts == self._inventory.facts:
            return  # what was found out still holds
        missing = [name for name in ("device_classes", "slices", "nodes") if getattr(facts, name) is None]
        if missing and facts.dropped_fields != self._inventory.facts.dropped_fields:
            self._log.warning(
                "Profiles are not fully checked against the cluster: the hub may not list %s (helm-values/rbac.yaml)",
                ", ".join(missing),
            )
        self._inventory = Inventory(facts)
