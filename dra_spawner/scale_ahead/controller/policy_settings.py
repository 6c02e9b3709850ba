"""Policies of demand as an administrator configures them, validated early."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import time, timedelta
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS
from dra_spawner.profiles.syntax.problems import Problem, shown
from dra_spawner.profiles.syntax.settings_reader import SettingsReader, refuse_settings, shown_setting
from dra_spawner.scale_ahead.demand.policies import (
    Buffer,
    CalendarOnly,
    Chain,
    DemandPolicy,
    ForecastDemand,
    OrForecast,
    PercentBuffer,
    Scheduled,
    Webhook,
    Window,
)

OTHERS: Final = "*"
"""Name of the entry for all choices without one of their own."""

_FORECAST: Final = ForecastDemand()
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME: Final = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_ADDRESS: Final = re.compile(r"[!-~]{1,2000}")
_MAX_LEVELS: Final = 5
_MAX_PERCENT: Final = 1_000
_MAX_SECONDS: Final = 30
_MAX_MINUTES: Final = 24 * 60
_KINDS: Final = ("buffer", "percent", "schedule", "webhook", "forecast", "calendar")
_A_POLICY: Final = f'a policy like {{"kind": "buffer", "placeholders": 5}}; kinds are {", ".join(_KINDS)}'


@dataclass(frozen=True, slots=True)
class WebhookSettings(Webhook):
    """A webhook, and how it is asked."""

    url: str = field(default="", repr=False)
    """May hold a secret, so no message has it."""
    timeout: timedelta = timedelta(seconds=2)
    """For the whole answer."""


def read_policies(value: object, path: str = "demand_policies") -> Mapping[str, DemandPolicy]:
    """The policies by choice, as configured: ``{"gpu-slice": {"kind": "buffer", "placeholders": 5}}``.

    Each value is a policy or a list of policies; of a list the first that applies counts. Where none applies, the
    forecast counts, so each of the policies that are returned always answers.

    Parameters
    ----------
    value
        By name of the choice (`planner.choice_names`), and `OTHERS` for all others.
    path
        Name of the setting, for messages.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    choices = SettingsReader(value, path, "a mapping of names of choices to policies")
    policies, found = _Policies(choices.problems), dict[str, DemandPolicy]()
    for name, each in choices.given.items():
        if not isinstance(name, str) or not name:
            choices.refuse_itself(shown_setting(name), f'names of choices, like gpu-slice/memory=large, and "{OTHERS}"')
            continue
        if (same := find_choice(name, found)) is not None:
            choices.refuse(name, f"one entry for each choice; {same} is the same choice", shown(name))
        policy = policies.read(each, choices.path_of(name))
        if policy is not None:
            found[name] = policy if isinstance(policy, ForecastDemand) else OrForecast(policy)
    refuse_settings(choices.problems)
    return found


def policy_for(choice: str, policies: Mapping[str, DemandPolicy]) -> DemandPolicy:
    """The policy of a choice: its own, that of `OTHERS`, or the forecast."""
    own = find_choice(choice, policies)
    return policies[own] if own is not None else policies.get(OTHERS, _FORECAST)


def unknown_choices(
    policies: Mapping[str, DemandPolicy], choices: Collection[str], path: str = "demand_policies"
) -> list[str]:
    """Sentences without a full stop about entries that name no choice of the hub."""
    return [
        f"{path}.{name} is not used: there is no such choice"
        for name in policies
        if name != OTHERS and find_choice(name, choices) is None
    ]


class _Policies:
    """Reads policies within policies; webhooks of the same name are the same."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._webhooks: dict[str, WebhookSettings] = {}

    def read(self, value: object, path: str, level: int = 1) -> DemandPolicy | None:
        """A policy or a chain of policies; None if there is a problem."""
        if level > _MAX_LEVELS:
            allowed = f"policies within policies of at most {_MAX_LEVELS} levels"
            self._problems.append(Problem(path, "one more level", allowed))
            return None
        if isinstance(value, list | tuple) and value:
            return self._chain(value, path, level)
        reader = SettingsReader(value, path, f"{_A_POLICY}; or a list of policies", self._problems)
        return self._single(reader, level) if reader.is_mapping else None

    def _chain(self, value: Sequence[object], path: str, level: int) -> DemandPolicy | None:
        parts = [self.read(each, f"{path}[{index}]", level + 1) for index, each in enumerate(value)]
        for index, part in enumerate(parts[:-1]):
            if part is not None and _always_applies(part):
                allowed = "a schedule or a webhook before the last policy; this one always applies"
                self._problems.append(Problem(f"{path}[{index}]", shown(part.name), allowed))
        known = tuple(part for part in parts if part is not None)
        return Chain(known) if len(known) == len(parts) else None

    def _single(self, reader: SettingsReader, level: int) -> DemandPolicy | None:
        kind = reader.value("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            reader.refuse("kind", f"one of {', '.join(_KINDS)}")
            return None
        before = len(self._problems)
        policy: DemandPolicy | None
        match kind:
            case "buffer":
                reader.required("placeholders", f"a whole number from 0 to {MAX_PLACEHOLDERS}")
                policy = Buffer(reader.whole_number("placeholders", 0, 0, MAX_PLACEHOLDERS))
            case "percent":
                policy = _percent(reader)
            case "schedule":
                policy = self._schedule(reader, level)
            case "webhook":
                policy = self._webhook(reader)
            case "calendar":
                policy = CalendarOnly()
            case _:
                policy = _FORECAST
        reader.refuse_other_keys()
        return policy if len(self._problems) == before else None

    def _schedule(self, reader: SettingsReader, level: int) -> DemandPolicy | None:
        days = _days(reader)
        begins, ends = (_time(reader, key) for key in ("from", "to"))
        zone = reader.zone("zone", ZoneInfo("UTC"))
        if not reader.required("policy", _A_POLICY):
            return None
        policy = self.read(reader.value("policy"), reader.path_of("policy"), level + 1)
        if begins is not None and begins == ends:
            reader.refuse("to", f"another time than from ({reader.value('from')})")
            return None
        if policy is None or begins is None or ends is None or not days:
            return None
        return Scheduled((Window(days, begins, ends, zone),), policy)

    def _webhook(self, reader: SettingsReader) -> DemandPolicy | None:
        allowed = "a name of letters, digits and . _ -"
        name = reader.checked("name", _name, allowed) if reader.required("name", allowed) else None
        url = reader.value("url")
        problem = _address_problem(url)
        if problem:
            reader.refuse("url", "an address that begins with https:// or http://", problem if url is not None else "")
        seconds = reader.number("timeout_seconds", 2.0, 0.1, _MAX_SECONDS)
        minutes = reader.number("longest_age_minutes", 10.0, 1, _MAX_MINUTES)
        if not name or problem:
            return None
        found = WebhookSettings(name, timedelta(minutes=minutes), str(url), timedelta(seconds=seconds))
        if self._webhooks.setdefault(name, found) != found:
            reader.refuse("name", "another name: a webhook with this one has other settings")
        return found


def _percent(reader: SettingsReader) -> DemandPolicy:
    reader.required("percent", f"a number from 0 to {_MAX_PERCENT}")
    percent = reader.number("percent", 0, 0, _MAX_PERCENT)
    least = reader.whole_number("min", 0, 0, MAX_PLACEHOLDERS)
    most = reader.whole_number("max", MAX_PLACEHOLDERS, least, MAX_PLACEHOLDERS)
    return PercentBuffer(percent, least, most if reader.value("max") is not None else None)


def _days(reader: SettingsReader) -> frozenset[int]:
    value = reader.value("days")
    if value is None:
        return frozenset(range(len(_DAYS)))
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) and each in _DAYS for each in value):
        return frozenset(_DAYS.index(each) for each in value)
    reader.refuse("days", f"a list of {', '.join(_DAYS)}")
    return frozenset()


def _time(reader: SettingsReader, key: str) -> time | None:
    value = reader.value(key)
    if isinstance(value, str) and _TIME.fullmatch(value):
        return time.fromisoformat(value)
    # YAML reads 18:00 without quotes as 1080.
    reader.refuse(key, 'a time from "00:00" to "23:59", in quotes')
    return None


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(text)
    return text


def _always_applies(policy: DemandPolicy) -> bool:
    match policy:
        case Scheduled() | Webhook():
            return False
        case Chain(policies):
            return any(map(_always_applies, policies))
    return True


def _address_problem(value: object) -> str:
    """What is wrong with an address, without the address; empty if nothing is."""
    if not isinstance(value, str):
        return shown_setting(value)
    if not _ADDRESS.fullmatch(value):
        return "an address that is too long, empty, or has other characters than ASCII ones without spaces"
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "an address that cannot be read"
    if parts.scheme not in ("https", "http"):
        return f"an address with the scheme {shown(parts.scheme)}"
    if not host or port == 0:
        return "an address without a host, or with the port 0"
    return ""
