"""Cached facts of the cluster for checks of choices; they are read again before a refusal."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from dra_spawner.common.project_links import where
from dra_spawner.common.thread_turns import ThreadTurns
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.profiles.choices import Choice, ListedChoice
from dra_spawner.profiles.drivers import names_of_fixed_claims
from dra_spawner.profiles.facts import ClusterFacts, has_cloud_nodes, published_devices
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import CheckReport, Inventory, check_choice, check_choices, never_text
from dra_spawner.spawner.devices.facts_reading import read_facts
from dra_spawner.spawner.devices.reader import NOW, DeviceReader, Reading

#: Age in seconds after which a spawn begins a new reading, without waiting for it.
_FRESH_SECONDS: Final = 300.0
#: Seconds that a refusal waits for a new reading; without one, no choice is refused because of the cluster.
_WAIT_SECONDS: Final = 10.0
#: Limit of claims of others that are read.
_MAX_CLAIMS: Final = 100

_UNKNOWN: Final = ClusterFacts()


class CheckedFacts:
    """Facts of one cluster, for all spawners of a hub.

    Parameters
    ----------
    nodes_may_be_added, drivers_prepare_for, gates
        See `ClusterFacts`; None for nodes that are added where a cloud provides them.
    ignored
        Names of ignored rules.
    """

    def __init__(
        self,
        reader: DeviceReader,
        namespace: str | None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        *,
        nodes_may_be_added: bool | None,
        drivers_prepare_for: Mapping[str, PreparedFor] | None = None,
        gates: Mapping[str, bool] | None = None,
        ignored: Collection[str] = (),
    ) -> None:
        self._reader = reader
        self._namespace = namespace
        self._log = log
        self._nodes_may_be_added = nodes_may_be_added
        self._drivers_prepare_for = drivers_prepare_for or {}
        self._gates = gates or {}
        self._ignored = frozenset(ignored)
        self._claims: dict[str, None] = {}
        self._published: Mapping[tuple[str, str], int] = {}
        self._reading: Reading[Inventory] = Reading(self._read)
        # An inventory caches results; use it in one thread at a time.
        self._turns = ThreadTurns()

    @property
    def _inventory(self) -> Inventory:
        return self._reading.value or Inventory(_UNKNOWN)

    @property
    def facts(self) -> ClusterFacts:
        """The last facts."""
        return self._inventory.facts

    async def check_all(self, listed: Iterable[ListedChoice]) -> CheckReport:
        """Check all choices of a list, with new facts."""
        listed = tuple(listed)
        for each in listed:
            self._note_claims(each.choice)
        with suppress(KubernetesError):
            await self._reading.get(NOW)
        async with self._turns.turn() as turn:
            return await turn.run(check_choices, listed, self._inventory, (), self._ignored)

    async def error_in(self, choice: Choice) -> tuple[Finding, str] | None:
        """Return why a choice cannot work here, by facts that are read after this call; None if it can.

        The second part is for the user, a part of a sentence; empty if only an administrator can make sense of it.
        """
        self._note_claims(choice)
        if self._reading.age() > _FRESH_SECONDS:
            self._reading.begin()
        error = await self._first_error(choice, self._inventory)
        if error is None:
            return None
        # Without new facts, only errors that need no facts count.
        inventory = Inventory(_UNKNOWN)
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                inventory = await self._reading.get(NOW)
        except TimeoutError:
            self._log.info("The cluster did not answer in time whether this still holds: %s", error[0])
        except KubernetesError:
            pass  # _read has logged it
        return await self._first_error(choice, inventory)

    def _note_claims(self, choice: Choice | None) -> None:
        """Read the claims that a choice names, from the next reading on."""
        for name in names_of_fixed_claims(choice) if choice is not None else ():
            if len(self._claims) < _MAX_CLAIMS:
                self._claims[name] = None

    async def _first_error(self, choice: Choice, inventory: Inventory) -> tuple[Finding, str] | None:
        return await self._turns.run(_first_error, choice, inventory, self._ignored)

    async def _read(self) -> Inventory:
        before = self._inventory
        try:
            facts = await read_facts(self._reader, self._namespace, tuple(self._claims), self._published)
        except KubernetesError as error:
            if not self._reading.has_failed:
                self._log.warning("Profiles are not checked against the cluster, which does not answer: %s", error)
            raise
        present = {node["metadata"]["name"] for node in facts.nodes or ()}
        most = Counter(self._published) | Counter(published_devices(facts.slices or ()))
        self._published = {key: count for key, count in most.items() if key[0] in present}
        may_be_added = self._nodes_may_be_added
        if may_be_added is None:
            may_be_added = has_cloud_nodes(facts.nodes or ())
        self._reader.follow_release(facts.kubernetes_version, self._gates)
        facts = replace(
            facts,
            nodes_may_be_added=may_be_added,
            drivers_prepare_for=self._drivers_prepare_for,
            gates=self._gates,
        )
        if facts == before.facts:
            return before  # the cached results still hold
        missing = [name for name in ("device_classes", "slices", "nodes") if getattr(facts, name) is None]
        if missing and facts.dropped_fields != before.facts.dropped_fields:
            self._log.warning(
                "Profiles are not fully checked against the cluster: the hub may not list %s (%s)",
                ", ".join(missing),
                where("helm-values/rbac.yaml"),
            )
        return Inventory(facts)


def _first_error(choice: Choice, inventory: Inventory, ignored: Collection[str]) -> tuple[Finding, str] | None:
    found = check_choice(choice, inventory, ignored)
    error = next((each for each in found if each.level is Level.ERROR), None)
    return (error, never_text(choice, error, inventory)) if error is not None else None
