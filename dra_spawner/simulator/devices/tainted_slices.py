"""Rules that taint devices, and the slices that they change, as published."""

from __future__ import annotations

from collections.abc import Iterable

from dra_spawner.dra.features import Quirks
from dra_spawner.dra.model.objects import DeviceTaintRule, ResourceSlice
from dra_spawner.dra.model.taint_rules import applied, with_rules
from dra_spawner.simulator.model.journal import Journal
from dra_spawner.simulator.model.table import Table


class TaintedSlices:
    """Rules and the slices that they change.

    Attributes
    ----------
    rules
        By name.
    quirks
        Of the scheduler, as far as rules are concerned.
    published
        Slices that the scheduler sees otherwise than their drivers publish them, as published, by name.
    """

    def __init__(self, journal: Journal, quirks: Quirks, rules: Iterable[DeviceTaintRule]) -> None:
        self.rules: Table[str, DeviceTaintRule] = Table(journal)
        self.published: Table[str, ResourceSlice] = Table(journal)
        self.quirks = quirks
        for rule in rules:
            self.rules.put(rule.name, rule)

    def enter(self, item: ResourceSlice) -> ResourceSlice:
        """The slice as the scheduler sees it; where rules change it, the published one is remembered."""
        seen = with_rules(item, applied(self.rules, self.quirks)) if self.rules else item
        if seen is not item:
            self.published.put(item.name, item)
        elif item.name in self.published:
            self.published.discard(item.name)
        return seen
