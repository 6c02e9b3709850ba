"""Policies as configured: read into functions, or refused early with the path, the value and the allowed values."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from traitlets.config import Config

from dra_spawner.placeholders.controller.policy_settings import (
    WebhookSettings,
    policy_for,
    read_policies,
    unknown_choices,
)
from dra_spawner.placeholders.planner.demand.demand_record import DemandRecord
from dra_spawner.placeholders.planner.demand.forecast import GroupSituation
from dra_spawner.placeholders.planner.demand.minutes import minute_of
from dra_spawner.placeholders.planner.demand.policies import (
    Buffer,
    CalendarOnly,
    Chain,
    DemandPolicy,
    ForecastDemand,
    OrForecast,
    PercentBuffer,
    Question,
    Scheduled,
    Window,
)
from dra_spawner.placeholders.planner.demand.settings import DemandSettings
from dra_spawner.profiles.settings_reader import SettingsError

BUFFER = {"kind": "buffer", "placeholders": 5}
WEBHOOK = {"kind": "webhook", "name": "term", "url": "https://user:secret@example.com/secret"}
LAB = {"kind": "schedule", "days": ["mon", "tue"], "from": "08:00", "to": "18:00", "policy": BUFFER}
KINDS = "buffer, percent, schedule, webhook, forecast, calendar"
A_POLICY = f'a policy like {{"kind": "buffer", "placeholders": 5}}; kinds are {KINDS}'
ALL_DAYS = frozenset(range(7))


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        pytest.param(BUFFER, Buffer(5), id="buffer"),
        pytest.param({"kind": "percent", "percent": 20}, PercentBuffer(20), id="percent"),
        pytest.param(
            {"kind": "percent", "percent": 12.5, "min": 1, "max": 10}, PercentBuffer(12.5, 1, 10), id="percent-bounded"
        ),
        pytest.param(
            {**LAB, "zone": "Europe/Berlin"},
            Scheduled((Window(frozenset({0, 1}), time(8), time(18), ZoneInfo("Europe/Berlin")),), Buffer(5)),
            id="schedule",
        ),
        pytest.param(
            {"kind": "schedule", "from": "22:00", "to": "06:30", "policy": {"kind": "calendar"}},
            Scheduled((Window(ALL_DAYS, time(22), time(6, 30), ZoneInfo("UTC")),), CalendarOnly()),
            id="every-night",
        ),
        pytest.param(WEBHOOK, WebhookSettings("term", url=str(WEBHOOK["url"])), id="webhook"),
        pytest.param(
            {**WEBHOOK, "timeout_seconds": 5, "longest_age_minutes": 30},
            WebhookSettings("term", timedelta(minutes=30), str(WEBHOOK["url"]), timedelta(seconds=5)),
            id="patient-webhook",
        ),
        pytest.param({"kind": "calendar"}, CalendarOnly(), id="calendar"),
        pytest.param([LAB, BUFFER], Chain((read_policies({"a": LAB})["a"].policy, Buffer(5))), id="chain"),  # type: ignore[attr-defined]
        pytest.param([WEBHOOK], Chain((WebhookSettings("term", url=str(WEBHOOK["url"])),)), id="chain-of-one"),
    ],
)
def test_each_kind_is_read(value: Any, policy: DemandPolicy) -> None:
    assert read_policies({"gpu-slice": value}) == {"gpu-slice": OrForecast(policy)}


def test_the_forecast_stands_by_itself() -> None:
    assert read_policies({"*": {"kind": "forecast"}}) == {"*": ForecastDemand()}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param([], "demand_policies: found []; allowed: a mapping of names of choices to policies", id="a-list"),
        pytest.param(
            {3: BUFFER},
            'demand_policies: found 3; allowed: names of choices, like gpu-slice/memory=large, and "*"',
            id="no-name",
        ),
        pytest.param(
            {"a": "buffer"}, f"demand_policies.a: found 'buffer'; allowed: {A_POLICY}; or a list of policies", id="a-word"
        ),
        pytest.param({"a": []}, f"demand_policies.a: found []; allowed: {A_POLICY}; or a list of policies", id="empty"),
        pytest.param({"a": {}}, f"demand_policies.a.kind: nothing found; allowed: one of {KINDS}", id="no-kind"),
        pytest.param(
            {"a": {"kind": "buffr"}}, f"demand_policies.a.kind: found 'buffr'; allowed: one of {KINDS}", id="a-typo"
        ),
        pytest.param({"a": {"kind": ["buffer"]}}, f"demand_policies.a.kind: found ['buffer']; allowed: one of {KINDS}", id="kinds"),
        pytest.param(
            {"a": {"kind": "forecast", "placeholders": 2}},
            "demand_policies.a.placeholders: found 'placeholders'; allowed: the keys kind",
            id="a-key-of-another-kind",
        ),
        pytest.param(
            {"a": {"kind": "buffer"}},
            "demand_policies.a.placeholders: nothing found; allowed: a whole number from 0 to 10000",
            id="no-number",
        ),
        pytest.param(
            {"a": {"kind": "buffer", "placeholders": True}},
            "demand_policies.a.placeholders: found True; allowed: a whole number from 0 to 10000",
            id="a-truth",
        ),
        pytest.param(
            {"a": {"kind": "percent", "percent": float("nan")}},
            "demand_policies.a.percent: found nan; allowed: a number from 0 to 1000",
            id="not-a-number",
        ),
        pytest.param(
            {"a": {"kind": "percent", "percent": 5, "min": 4, "max": 3}},
            "demand_policies.a.max: found 3; allowed: a whole number from 4 to 10000",
            id="max<min",
        ),
        pytest.param(
            {"a": {**LAB, "from": 480}},
            'demand_policies.a.from: found 480; allowed: a time from "00:00" to "23:59", in quotes',
            id="a-time-as-yaml-reads-it",
        ),
        pytest.param(
            {"a": {**LAB, "to": "24:00"}},
            "demand_policies.a.to: found '24:00'; allowed: a time from \"00:00\" to \"23:59\", in quotes",
            id="no-time",
        ),
        pytest.param(
            {"a": {**LAB, "to": "08:00"}},
            "demand_policies.a.to: found '08:00'; allowed: another time than from (08:00)",
            id="an-empty-window",
        ),
        pytest.param(
            {"a": {**LAB, "days": ["Monday"]}},
            "demand_policies.a.days: found ['Monday']; allowed: a list of mon, tue, wed, thu, fri, sat, sun",
            id="days",
        ),
        pytest.param(
            {"a": {**LAB, "zone": "Europe/Bonn"}},
            """demand_policies.a.zone: found 'Europe/Bonn'; allowed: a time zone like "Europe/Berlin\"""",
            id="zone",
        ),
        pytest.param(
            {"a": {**LAB, "zone": "Europe"}},
            """demand_policies.a.zone: found 'Europe'; allowed: a time zone like "Europe/Berlin\"""",
            id="a-directory-of-zones",
        ),
        pytest.param(
            {"a": {**LAB, "policy": {"kind": "buffer", "placeholders": -1}}},
            "demand_policies.a.policy.placeholders: found -1; allowed: a whole number from 0 to 10000",
            id="within",
        ),
        pytest.param(
            {"a": {"kind": "schedule", "from": "08:00", "to": "09:00"}},
            f"demand_policies.a.policy: nothing found; allowed: {A_POLICY}",
            id="without-a-policy",
        ),
        pytest.param(
            {"a": [BUFFER, LAB]},
            "demand_policies.a[0]: found 'buffer'; allowed: a schedule or a webhook before the last policy; this one "
            "always applies",
            id="never-reached",
        ),
        pytest.param(
            {"a": {**WEBHOOK, "name": "a b"}},
            "demand_policies.a.name: found 'a b'; allowed: a name of letters, digits and . _ -",
            id="webhook-name",
        ),
        pytest.param(
            {"a": {**WEBHOOK, "timeout_seconds": 0}},
            "demand_policies.a.timeout_seconds: found 0; allowed: a number from 0.1 to 30",
            id="no-time-to-answer",
        ),
        pytest.param(
            {"a": WEBHOOK, "b": {**WEBHOOK, "timeout_seconds": 5}},
            "demand_policies.b.name: found 'term'; allowed: another name: a webhook with this one has other settings",
            id="two-with-one-name",
        ),
        pytest.param(
            {"a/x=1,y=2": BUFFER, "a/y=2,x=1": BUFFER},
            "demand_policies.a/y=2,x=1: found 'a/y=2,x=1'; allowed: one entry for each choice; a/x=1,y=2 is the same "
            "choice",
            id="the-same-choice",
        ),
    ],
)  # fmt: skip
def test_refused_with_path_found_and_allowed(value: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_policies(value)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("ftp://secret.example.com/", "an address with the scheme 'ftp'"),
        ("file:///secret", "an address with the scheme 'file'"),
        ("https:///secret", "an address without a host, or with the port 0"),
        ("https://example.com:secret/", "an address that cannot be read"),
        ("https://[secret/", "an address that cannot be read"),
        ("https://example.com/sec ret", "an address that is too long, empty, or has other characters than ASCII ones without spaces"),
        (b"https://secret", "a value with an address"),
        (["https://secret"], "a value with an address"),
    ],
)  # fmt: skip
def test_no_message_has_an_address(url: Any, found: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_policies({"a": {**WEBHOOK, "url": url}})
    allowed = "an address that begins with https:// or http://"
    assert str(refused.value) == f"demand_policies.a.url: found {found}; allowed: {allowed}"
    assert "secret" not in str(refused.value)


def test_an_address_at_another_path_is_not_shown_either() -> None:
    for value in ({"a": WEBHOOK["url"]}, {"a": {"kind": WEBHOOK["url"]}}, WEBHOOK["url"], {"a": [WEBHOOK["url"]]}):
        with pytest.raises(SettingsError) as refused:
            read_policies(value)
        assert "secret" not in str(refused.value)
    assert "secret" not in repr(read_policies({"a": WEBHOOK}))


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        read_policies({"a": {"kind": "buffer"}, "b": [{**LAB, "from": 1, "zone": ""}, {"kind": "percent"}]}, "here")
    assert [each.path for each in refused.value.problems] == [
        "here.a.placeholders",
        "here.b[0].from",
        "here.b[0].zone",
        "here.b[1].percent",
    ]


def test_policies_within_policies_end_somewhere() -> None:
    value: Any = BUFFER
    for _ in range(4):
        value = {**LAB, "policy": value}
    read_policies({"a": value})
    with pytest.raises(SettingsError, match=r"found one more level; allowed: .* at most 5 levels"):
        read_policies({"a": [value]})


def test_the_policy_of_a_choice() -> None:
    policies = read_policies({"gpu/a=1,b=2": BUFFER, "*": {"kind": "calendar"}})
    assert policy_for("gpu/b=2,a=1", policies) == OrForecast(Buffer(5))
    assert policy_for("gpu", policies) == OrForecast(CalendarOnly())
    assert policy_for("gpu", {}) == ForecastDemand()


def test_an_entry_for_no_choice_is_reported() -> None:
    policies = read_policies({"gpu": BUFFER, "gpu/a=2": BUFFER, "*": BUFFER})
    assert unknown_choices(policies, ["gpu", "cpu"]) == ["demand_policies.gpu/a=2 is not used: there is no such choice"]


@pytest.mark.parametrize(("hour", "number"), [(8, 5), (18, 2)])
def test_outside_of_its_hours_a_schedule_leaves_it_to_the_forecast(hour: int, number: int) -> None:
    policy = read_policies({"lab": LAB})["lab"]
    now = minute_of(datetime(2026, 11, 23, hour, tzinfo=UTC))
    record = DemandRecord(now - 1, DemandSettings())
    record.observe(now - 1, 0)
    answer = policy(Question(now, GroupSituation(timedelta(minutes=8), floor=2), record))
    assert answer is not None
    assert answer.placeholders == number


DOCUMENT = (Path(__file__).parents[3] / "docs" / "reference" / "demand-policies.md").read_text()


def test_the_documented_policies_are_read() -> None:
    code, *_ = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    config = Config()
    exec(code, {"c": config})
    policies = read_policies(config.DRASpawnerService.demand_policies)
    assert [policy.name for policy in policies.values()] == ["buffer", "percent buffer", "schedule", "chain"]
    documented = {kind for kind in KINDS.split(", ") if f"\n| `{kind}` |" in DOCUMENT}
    assert documented == set(KINDS.split(", "))
