"""The setting idle_servers: what it means, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.fairness.idle.metrics import PRESETS, TellsApart
from dra_spawner.fairness.idle.policy import IdlePolicy, IdleSettings
from dra_spawner.fairness.idle.settings import read_idle_settings
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from tests.all_of_them import all_of_them

MINUTE = timedelta(minutes=1)
PROMETHEUS = {"url": "http://prometheus:9090/", "queries": ["dcgm"]}


def test_it_is_off_by_default() -> None:
    assert read_idle_settings({}) == IdleSettings()
    assert not read_idle_settings({}).is_on


def test_all_of_it() -> None:
    own = {"preset": "example", "query": "use", "used_above": 2, "drivers": ["a", "b"], "apart": "device"}
    found = read_idle_settings(
        {
            "prometheus": {**PROMETHEUS, "token_file": "/token", "queries": ["dcgm", own]},
            "policies": {
                "*": {"after_minutes": 60},
                "gpu": {"after_minutes": 30, "notice_minutes": 5, "keep_minutes": 30, "keeps": 0},
            },
            "look_seconds": 30,
        }
    )
    assert found.is_on
    assert found.prometheus.url == "http://prometheus:9090"
    first, second = found.prometheus.queries
    assert first == PRESETS["dcgm"]
    assert (second.query, second.used_above, second.apart) == ("use", 2.0, TellsApart.DEVICE)
    assert [second.tells_of(each) for each in ("a", "b", "c")] == [True, True, False]
    assert found.policy_of("gpu") == IdlePolicy(30 * MINUTE, 5 * MINUTE, 30 * MINUTE, 0)
    assert found.policy_of("other") == IdlePolicy(60 * MINUTE)
    assert read_idle_settings({"policies": {"gpu": {"after_minutes": 60}}}).policy_of("other") is None


@all_of_them("value, path", {
    "no mapping": ([], "idle_servers"),
    "an unknown key": ({"policy": {}}, "idle_servers.policy"),
    "a profile without a time": ({"policies": {"gpu": {}}}, "idle_servers.policies.'gpu'.after_minutes"),
    "too short a time": ({"policies": {"gpu": {"after_minutes": 1}}}, "idle_servers.policies.'gpu'.after_minutes"),
    "a notice that nobody could see": (
        {"policies": {"gpu": {"after_minutes": 60, "notice_minutes": 2}}, "look_seconds": 120}, "idle_servers.look_seconds",
    ),
    "no queries": ({"prometheus": {"url": "http://p"}}, "idle_servers.prometheus.queries"),
    "no address": ({"prometheus": {"queries": ["dcgm"]}}, "idle_servers.prometheus.url"),
    "a file": ({"prometheus": {**PROMETHEUS, "url": "file:///etc/passwd"}}, "idle_servers.prometheus.url"),
    "an unknown preset": ({"prometheus": {**PROMETHEUS, "queries": ["nvml"]}}, "idle_servers.prometheus.queries[0]"),
    "no query": ({"prometheus": {**PROMETHEUS, "queries": [{}]}}, "idle_servers.prometheus.queries[0].query"),
    "policies that are a list": ({"policies": []}, "idle_servers.policies"),
})  # fmt: skip
def test_what_is_refused(value: Any, path: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_idle_settings(value)
    assert path in str(refused.value)
    assert "//p" not in str(refused.value), "it shows no address"
