"""Tables list their items that may have changed."""

from __future__ import annotations

from dra_spawner.simulator.model import table as tables
from dra_spawner.simulator.model.journal import Journal
from dra_spawner.simulator.model.table import Table


def test_entries_that_were_put_removed_or_reverted_have_changed() -> None:
    journal = Journal()
    table = Table[str, int](journal)
    table.put("old", 1)
    table.put("gone", 1)
    before = table.changes
    assert table.changed_since(before) == {}
    table.put("new", 2)
    table.discard("gone")
    table.discard("never there")
    assert set(table.changed_since(before) or ()) == {"new", "gone"}
    mark, before = journal.mark(), table.changes
    table.put("old", 3)
    assert table.changed_since(before) == {"old": None}
    within = table.changes
    journal.revert_to(mark)
    assert table.changed_since(within) == {"old": None}
    assert dict(table) == {"old": 1, "new": 2}


def test_too_many_changes_are_not_distinguished() -> None:
    table = Table[int, int](Journal())
    for number in range(tables.MAX_REMEMBERED + 1):
        table.put(number, number)
    assert table.changed_since(0) is None
    assert len(table.changed_since(1) or ()) == tables.MAX_REMEMBERED
