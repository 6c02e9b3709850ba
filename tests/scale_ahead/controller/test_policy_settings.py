"""Policies as configured: read into functions, or refused early with the path, the value and the allowed values."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from traitlets.config import Config

from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.scale_ahead.controller.policy_settings import (
    WebhookSettings,
    policy_for,
    read_policies,
    unknown_choices,
)
from dra_spawner.scale_ahead.demand.demand_record import DemandRecord
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.scale_ahead.demand.policies import (
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
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from tests.placeholders.controller.refusals import refusal

BUFFER = {"kind": "buffer", "placeholders": 5}
WEBHOOK = {"kind": "webhook", "name": "term", "url": "https://user:secret@example.com/secret"}
LAB = {"kind": "schedule", "days": ["mon", "tue"], "from": "08:00", "to": "18:00", "policy": BUFFER}
KINDS = "buffer, percent, schedule, webhook, forecast, calendar"
A_POLICY = f'a policy like {{"kind": "buffer", "placeholders": 5}}; kinds are {KINDS}'
ALL_DAYS = frozenset(range(7))


def webhook_of(url: object, **more: Any) -> WebhookSettings:
    return WebhookSettings("term", url=str(url), **more)


def test_each_kind_is_read() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    night = {"kind": "schedule", "from": "22:00", "to": "06:30", "policy": {"kind": "calendar"}}
    lab = Scheduled((Window(frozenset({0, 1}), time(8), time(18), ZoneInfo("UTC")),), Buffer(5))
    url = WEBHOOK["url"]
    rows: tuple[tuple[Any, DemandPolicy], ...] = (
        (BUFFER, Buffer(5)),
        ({"kind": "percent", "percent": 20}, PercentBuffer(20)),
        ({"kind": "percent", "percent": 12.5, "min": 1, "max": 10}, PercentBuffer(12.5, 1, 10)),
        (LAB, lab),
        (
            {**LAB, "zone": "Europe/Berlin"},
            Scheduled((Window(frozenset({0, 1}), time(8), time(18), berlin),), Buffer(5)),
        ),
        (night, Scheduled((Window(ALL_DAYS, time(22), time(6, 30), ZoneInfo("UTC")),), CalendarOnly())),
        (WEBHOOK, webhook_of(url)),
        (
            {**WEBHOOK, "timeout_seconds": 5, "longest_age_minutes": 30},
            webhook_of(url, longest_age=timedelta(minutes=30), timeout=timedelta(seconds=5)),
        ),
        ({"kind": "calendar"}, CalendarOnly()),
        ([LAB, BUFFER], Chain((lab, Buffer(5)))),
        ([WEBHOOK], Chain((webhook_of(url),))),
    )
    for value, policy in rows:
        assert read_policies({"gpu-slice": value}) == {"gpu-slice": OrForecast(policy)}


def test_the_forecast_stands_by_itself() -> None:
    assert read_policies({"*": {"kind": "forecast"}}) == {"*": ForecastDemand()}


WHOLE_NUMBER = "allowed: a whole number from 0 to 10000"
A_TIME = 'allowed: a time from "00:00" to "23:59", in quotes'
A_ZONE = 'allowed: a time zone like "Europe/Berlin"'
REFUSED: tuple[tuple[Any, str], ...] = (
    ("buffer", f": found 'buffer'; allowed: {A_POLICY}; or a list of policies"),
    ([], f": found []; allowed: {A_POLICY}; or a list of policies"),
    ({}, f".kind: nothing found; allowed: one of {KINDS}"),
    ({"kind": "buffr"}, f".kind: found 'buffr'; allowed: one of {KINDS}"),
    ({"kind": ["buffer"]}, f".kind: found ['buffer']; allowed: one of {KINDS}"),
    ({"kind": "forecast", "placeholders": 2}, ".placeholders: found 'placeholders'; allowed: the keys kind"),
    ({"kind": "buffer"}, f".placeholders: nothing found; {WHOLE_NUMBER}"),
    ({"kind": "buffer", "placeholders": True}, f".placeholders: found True; {WHOLE_NUMBER}"),
    ({"kind": "percent", "percent": float("nan")}, ".percent: found nan; allowed: a number from 0 to 1000"),
    ({"kind": "percent", "percent": 5, "min": 4, "max": 3}, ".max: found 3; allowed: a whole number from 4 to 10000"),
    ({**LAB, "from": 480}, f".from: found 480; {A_TIME}"),  # as YAML reads a time
    ({**LAB, "to": "24:00"}, f".to: found '24:00'; {A_TIME}"),
    ({**LAB, "to": "08:00"}, ".to: found '08:00'; allowed: another time than from (08:00)"),
    ({**LAB, "days": ["Monday"]}, ".days: found ['Monday']; allowed: a list of mon, tue, wed, thu, fri, sat, sun"),
    ({**LAB, "zone": "Europe/Bonn"}, f".zone: found 'Europe/Bonn'; {A_ZONE}"),
    ({**LAB, "zone": "Europe"}, f".zone: found 'Europe'; {A_ZONE}"),  # a directory of zones
    ({**LAB, "policy": {"kind": "buffer", "placeholders": -1}}, f".policy.placeholders: found -1; {WHOLE_NUMBER}"),
    ({"kind": "schedule", "from": "08:00", "to": "09:00"}, f".policy: nothing found; allowed: {A_POLICY}"),
    (
        [BUFFER, LAB],
        "[0]: found 'buffer'; allowed: a schedule or a webhook before the last policy; this one always applies",
    ),
    ({**WEBHOOK, "name": "a b"}, ".name: found 'a b'; allowed: a name of letters, digits and . _ -"),
    ({**WEBHOOK, "timeout_seconds": 0}, ".timeout_seconds: found 0; allowed: a number from 0.1 to 30"),
)
REFUSED_TOGETHER: tuple[tuple[Any, str], ...] = (
    ([], ": found []; allowed: a mapping of names of choices to policies"),
    ({3: BUFFER}, ': found 3; allowed: names of choices, like gpu-slice/memory=large, and "*"'),
    (
        {"a": WEBHOOK, "b": {**WEBHOOK, "timeout_seconds": 5}},
        ".b.name: found 'term'; allowed: another name: a webhook with this one has other settings",
    ),
    (
        {"a/x=1,y=2": BUFFER, "a/y=2,x=1": BUFFER},
        ".a/y=2,x=1: found 'a/y=2,x=1'; allowed: one entry for each choice; a/x=1,y=2 is the same choice",
    ),
)


def test_refused_with_path_found_and_allowed() -> None:
    rows = [*(({"a": value}, f".a{problem}") for value, problem in REFUSED), *REFUSED_TOGETHER]
    found = {problem: refusal(read_policies, value) for value, problem in rows}
    assert found == {problem: f"demand_policies{problem}" for problem in found}


def test_no_message_has_an_address() -> None:
    rows: tuple[tuple[Any, str], ...] = (
        ("ftp://secret.example.com/", "an address with the scheme 'ftp'"),
        ("file:///secret", "an address with the scheme 'file'"),
        ("https:///secret", "an address without a host, or with the port 0"),
        ("https://example.com:secret/", "an address that cannot be read"),
        ("https://[secret/", "an address that cannot be read"),
        (
            "https://example.com/sec ret",
            "an address that is too long, empty, or has other characters than ASCII ones without spaces",
        ),
        (b"https://secret", "a value with an address"),
        (["https://secret"], "a value with an address"),
    )
    allowed = "allowed: an address that begins with https:// or http://"
    found = {str(url): refusal(read_policies, {"a": {**WEBHOOK, "url": url}}) for url, _ in rows}
    assert found == {str(url): f"demand_policies.a.url: found {problem}; {allowed}" for url, problem in rows}


def test_an_address_at_another_path_is_not_shown_either() -> None:
    for value in ({"a": WEBHOOK["url"]}, {"a": {"kind": WEBHOOK["url"]}}, WEBHOOK["url"], {"a": [WEBHOOK["url"]]}):
        message = refusal(read_policies, value)
        assert message
        assert "secret" not in message
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
