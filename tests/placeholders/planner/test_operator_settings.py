"""What people set, as a ConfigMap keeps it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.placeholders.planner.operator_settings import (
    OperatorSetting,
    OperatorSettings,
    SettingKind,
    read_settings,
    settings_data,
)
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NUMBERS = OperatorSetting(SettingKind.PLACEHOLDERS, "gpu", "user ada", NOW, None, "exam", ReplicaRange(2, 3))
PAUSED = OperatorSetting(SettingKind.PAUSED, "gpu", "user bob", NOW, NOW + timedelta(hours=1))
DRAINING = OperatorSetting(SettingKind.DRAINING, "n1", "service x", NOW)
ALL = OperatorSettings().with_setting(NUMBERS).with_setting(PAUSED).with_setting(DRAINING)


def test_what_is_written_is_read() -> None:
    assert read_settings({"data": settings_data(ALL)}) == ALL
    assert read_settings(None) == OperatorSettings()


def test_a_setting_ends() -> None:
    assert ALL.active(NOW) is ALL
    assert set(ALL.active(NOW + timedelta(hours=1)).settings) == {NUMBERS.key, DRAINING.key}


def test_the_policy_knows_them() -> None:
    policy = ALL.applied_to(Policy(), {"gpu": "shape"})
    assert (policy.paused, dict(policy.drained)) == ({"shape"}, {"n1": "set by service x"})
    assert ALL.replicas == {"gpu": ReplicaRange(2, 3)}
    assert OperatorSettings().applied_to(policy, {}) is policy


def test_the_audit_trail_is_bounded() -> None:
    settings = ALL
    for _ in range(600):
        settings = settings.without(PAUSED.key, "user ada", NOW)
    assert len(settings.audit) == 500
    assert (settings.audit[-1].change, settings.audit[-1].subject) == ("deleted", "paused gpu")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["paused", "placeholders"]),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["kind", "name", "by", "at", "until", "min", "max", "change"]), inner)
        ),
    )
)
def test_whatever_others_wrote_is_read(found: Any) -> None:
    for data in (found, {"settings.json": found, "audit.json": found}, {"settings.json": json.dumps([found])}):
        assert read_settings({"data": data}).settings == {}


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "nul", '[{"kind": "paused"}]', "[1]"])
def test_text_that_is_none_of_ours_is_left_out(text: str) -> None:
    assert read_settings({"data": {"settings.json": text, "audit.json": text}}) == OperatorSettings()
