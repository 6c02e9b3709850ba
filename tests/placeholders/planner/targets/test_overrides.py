"""Settings by operators, as stored in a ConfigMap."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import settings as of_hypothesis
from hypothesis import strategies as st

from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data, read_overrides
from dra_spawner.placeholders.planner.targets.overrides import (
    ORDER_LASTING,
    Override,
    OverrideKind,
    Overrides,
    StoredOrder,
)
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.simulator.model.claims import ObjectKey
from tests.examples import example_count

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NUMBERS = Override(OverrideKind.PLACEHOLDERS, "gpu", "user ada", NOW, None, "exam", ReplicaRange(2, 3))
PAUSED = Override(OverrideKind.PAUSED, "gpu", "user bob", NOW, NOW + timedelta(hours=1))
DRAINING = Override(OverrideKind.DRAINING, "n1", "service x", NOW)
ALL = Overrides().with_setting(NUMBERS).with_setting(PAUSED).with_setting(DRAINING)


def test_settings_are_read_as_written() -> None:
    assert read_overrides({"data": overrides_data(ALL)}) == ALL
    assert read_overrides(None) == Overrides()


def test_a_setting_ends() -> None:
    assert ALL.active(NOW) is ALL
    assert set(ALL.active(NOW + timedelta(hours=1)).settings) == {NUMBERS.key, DRAINING.key}


def test_the_policy_has_the_settings() -> None:
    policy = ALL.applied_to(Policy(), {"gpu": "shape"})
    assert (policy.paused, dict(policy.drained)) == ({"shape"}, {"n1": "set by service x"})
    assert ALL.replicas == {"gpu": ReplicaRange(2, 3)}
    assert Overrides().applied_to(policy, {}) is policy


def test_a_pause_lasts_when_the_hub_reorders_options() -> None:
    paused = Override(OverrideKind.PAUSED, "gpu/a=1,b=2", "user bob", NOW)
    policy = Overrides().with_setting(paused).applied_to(Policy(), {"gpu": "plain", "gpu/b=2,a=1": "shape"})
    assert policy.paused == {"shape"}


def test_orders_are_kept_for_a_while() -> None:
    evict = StoredOrder(ObjectKey("hub", "placeholder-1"), "u1", "", "user ada", NOW)
    release = StoredOrder(ObjectKey("hub", "placeholder-2"), "u2", "jupyter-bob", "user ada", NOW + ORDER_LASTING / 2)
    settings = Overrides().with_order(evict).with_order(release)
    assert read_overrides({"data": overrides_data(settings)}) == settings
    assert [each.change for each in settings.audit] == ["evict", "release"]
    assert settings.applied_to(Policy(), {}).orders == (evict.order, release.order)
    assert settings.active(NOW + ORDER_LASTING).orders == (release,)
    assert settings.without_orders([evict]).orders == (release,)
    assert settings.with_order(replace(evict, by="user bob")).orders[-1].by == "user bob"
    assert len(settings.with_order(evict).orders) == 2


def test_the_audit_trail_is_bounded() -> None:
    settings = ALL
    for _ in range(600):
        settings = settings.without(PAUSED.key, "user ada", NOW)
    assert len(settings.audit) == 500
    assert (settings.audit[-1].change, settings.audit[-1].subject) == ("deleted", "paused gpu")


def test_the_text_of_the_audit_trail_is_bounded() -> None:
    long = replace(NUMBERS, reason="\N{SNOWMAN}" * 1_000)
    settings = Overrides()
    for _ in range(200):
        settings = settings.with_setting(long)
    stored = overrides_data(settings.with_setting(PAUSED))
    assert 300_000 < len(stored["audit.json"]) < 400_000
    assert read_overrides({"data": stored}).audit[-1].subject == "paused gpu"


def test_entries_are_kept_while_they_fit() -> None:
    settings = Overrides().with_entry("a", {"users": "9 of gpu"}, "user ada", NOW)
    assert read_overrides({"data": overrides_data(settings)}) == settings
    assert settings.fits_storage
    assert not settings.with_entry("b", {"name": "x" * 250_000}, "user ada", NOW).fits_storage
    settings = settings.without_entry("a", "user ada", NOW)
    assert settings.entries == {}
    assert [(each.change, each.subject) for each in settings.audit] == [
        ("set", "calendar-entry a"),
        ("deleted", "calendar-entry a"),
    ]
    assert settings.audit[0].details == settings.audit[1].details == '{"users": "9 of gpu"}'


EXAMPLES = 100


@of_hypothesis(max_examples=example_count(EXAMPLES))
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
    keys = ("settings.json", "orders.json", "audit.json")
    for data in (found, dict.fromkeys(keys, found), dict.fromkeys(keys[:2], json.dumps([found]))):
        read = read_overrides({"data": data})
        assert (read.settings, read.orders) == ({}, ())


def test_text_that_is_none_of_ours_is_left_out() -> None:
    for text in ("[" * 100_000, "{}", "nul", '[{"kind": "paused"}]', "[1]"):
        data = dict.fromkeys(("settings.json", "orders.json", "audit.json"), text)
        assert read_overrides({"data": data}) == Overrides(), text[:30]
