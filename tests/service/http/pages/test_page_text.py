"""Texts of the pages: values that keep a setting, and what people did."""

from __future__ import annotations

import yaml

from dra_spawner.service.http.pages.page_text import change_text, deed, kept_values
from tests.all_of_them import all_of_them

HOSTILE = 'gpu/a="b: {c}\n# d'


def test_values_that_keep_a_setting_are_yaml_for_the_chart() -> None:
    for name in ("gpu-slice", "gpu-slice/memory=5Gi", HOSTILE):
        values = kept_values({"kind": "placeholders", "name": name, "min": 1, "max": 4})
        assert yaml.safe_load(values) == {"placeholders": {"targets": {name: {"min": 1, "max": 4}}}}
    acting = yaml.safe_load(kept_values({"kind": "acting", "name": "service"}))
    assert acting == {"service": {"config": {"scale_ahead": "act"}}}
    assert [kept_values({"kind": each, "name": "x"}) for each in ("paused", "draining", "devices", "observing")] == [
        ""
    ] * 4


@all_of_them(
    "change, subject, told",
    {
        "device": ("set", "devices gpu.example.com/n1/gpu-0", "drained device gpu.example.com/n1/gpu-0"),
        "node": ("deleted", "draining n1", "ended the drain of node n1"),
        "numbers": ("set", "placeholders gpu-slice/memory=5Gi", "set numbers of gpu-slice/memory=5Gi"),
        "service": ("set", "observing service", "stopped decisions of the service"),
        "another": ("evict", "placeholder x", "evict placeholder x"),
    },
)
def test_what_a_person_did_is_told_by_a_verb(change: str, subject: str, told: str) -> None:
    assert " ".join(deed(change, subject).values()) == told


def test_details_that_somebody_has_edited_end_no_page() -> None:
    for written, told in (
        (
            '{"users": "2 of gpu", "begins": "2026-11-24 10:00", "timezone": "UTC"}',
            "2 of gpu, begins 2026-11-24 10:00 UTC",
        ),
        ('{"users": "2 of gpu", "begins": 3, "timezone": ["UTC"]}', "2 of gpu, begins"),
        ('{"users": 3', '{"users": 3'),
        ("[1]", "[1]"),
    ):
        assert change_text(written) == told
