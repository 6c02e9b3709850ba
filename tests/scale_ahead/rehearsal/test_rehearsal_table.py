"""Output of a rehearsal, and its JSON."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from dra_spawner.scale_ahead.rehearsal.rehearsal_table import rehearsal_json, rehearsal_text
from tests.scale_ahead.rehearsal.questions import IN_AN_HOUR, answer, expect, hub, supplies


def test_the_table_and_json_have_the_same_figures() -> None:
    found = answer(
        hub("a"), expect(40, begins=IN_AN_HOUR.astimezone(ZoneInfo("Europe/Berlin"))), supplies(hub("a"), max_nodes=9)
    )
    text = rehearsal_text(found)
    assert text.splitlines()[0] == found.verdict
    assert "40 of gpu-slice, additional, Monday 2026-03-02 11:00 CET within 15 min" in text
    row = next(line.split() for line in text.splitlines() if line.startswith("g2 "))
    assert row == ["g2", "4", "32", "(8", "each)", "1", "9", "10", "min", "03-02", "10:45", "03-02", "10:55", "a"]
    json = rehearsal_json(found)
    assert json["verdict"] == found.verdict
    assert json["first_order_at"] == "2026-03-02T10:45:00+01:00"
    assert json["orders"][0] == {
        "kind": "g2",
        "nodes": 4,
        "servers": 32,
        "servers_on_a_node": 8,
        "present_nodes": 1,
        "max_nodes": 9,
        "lead_seconds": 600.0,
        "image_seconds": 0.0,
        "order_at": "2026-03-02T10:45:00+01:00",
        "is_on_order": False,
        "usable_at": "2026-03-02T10:55:00+01:00",
        "template_node": "a",
    }
    assert (json["wanted"], json["on_present_nodes"], json["lacking"]) == (40, 8, 0)
