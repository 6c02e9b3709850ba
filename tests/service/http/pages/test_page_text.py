"""Texts of the pages: values that keep a setting."""

from __future__ import annotations

import yaml

from dra_spawner.service.http.pages.page_text import kept_values

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
