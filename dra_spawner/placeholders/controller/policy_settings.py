"""Policies of demand as an administrator configures them, validated early."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import time, timedelta
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dra_spawner.placeholders.controller.settings import PlaceholderSettingsError
from dra_spawner.placeholders.planner.choice_names import find_choice
from dra_spawner.placeholders.planner.demand.policies import (
    Buffer,
    CalendarOnly,
    Chain,
    ForecastDemand,
    OrForecast,
    PercentBuffer,
    Policy,
    Scheduled,
    Webhook,
    Window,
)
from dra_spawner.placeholders.planner.policy import MOST_PLACEHOLDERS
from dra_spawner.profiles.problems import Problem, shown

__all__ = ["OTHERS", "WebhookSettings", "policy_for", "read_policies", "unknown_choices"]

OTHERS: Final = "*"
"""Name of the entry for all choices without one of their own."""

_FORECAST: Final = ForecastDemand()
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME: Final = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_ADDRESS: Final = re.compile(r"[!-~]{1,2000}")
_MOST_LEVELS: Final = 5
_MOST_PERCENT: Final = 1_000
_MOST_SECONDS: Final = 30
_MOST_MINUTES: Final = 24 * 60
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "buffer": ("placeholders",),
    "percent": ("percent", "min", "max"),
    "schedule": ("days", "from", "to", "zone", "policy"),
    "webhook": ("name", "url", "timeout_seconds", "longest_age_minutes"),
    "forecast": (),
    "calendar": (),
}
"""By kind of policy; `kind` is one of all."""
_A_POLICY: Final = f'a policy like {{"kind": "buffer", "placeholders": 5}}; kinds are {", ".join(_KEYS)}'


@dataclass(frozen=True, slots=True)
class WebhookSettings(Webhook):
    """A webhook, and how it is asked."""

    url: str = field(default="", repr=False)
    """May hold a secret, so no message has it."""
    timeout: timedelta = timedelta(seconds=2)
    """For the whole answer."""


def read_policies(value: object, path: str = "demand_policies") -> Mapping[str, Policy]:
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
    PlaceholderSettingsError
        With path, found and allowed values of every problem.
    """
    if not isinstance(value, Mapping):
        raise PlaceholderSettingsError([Problem(path, _found(value), "a mapping of names of choices to policies")])
    reader, found = _Reader(), dict[str, Policy]()
    for name, each in value.items():
        if not isinstance(name, str) or not name:
            reader.refuse(path, _found(name), f'names of choices, like gpu-slice/memory=large, and "{OTHERS}"')
            continue
        if (same := find_choice(name, found)) is not None:
            reader.refuse(f"{path}.{name}", shown(name), f"one entry for each choice; {same} is the same choice")
        policy = reader.policy(each, f"{path}.{name}")
        if policy is not None:
            found[name] = policy if isinstance(policy, ForecastDemand) else OrForecast(policy)
    if reader.problems:
        raise PlaceholderSettingsError(reader.problems)
    return found


def policy_for(choice: str, policies: Mapping[str, Policy]) -> Policy:
    """The policy of a choice: its own, that of `OTHERS`, or the forecast."""
    own = find_choice(choice, policies)
    return policies[own] if own is not None else policies.get(OTHERS, _FORECAST)


def unknown_choices(
    policies: Mapping[str, Policy], choices: Collection[str], path: str = "demand_policies"
) -> list[str]:
    """Sentences without a full stop about entries that name no choice of the hub."""
    return [
        f"{path}.{name} is not used: there is no such choice"
        for name in policies
        if name != OTHERS and find_choice(name, choices) is None
    ]


class _Reader:
    """Reads values, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._webhooks: dict[str, WebhookSettings] = {}

    def refuse(self, path: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(path, found, allowed))

    def policy(self, value: object, path: str, level: int = 1) -> Policy | None:
        """A policy or a chain of policies; None if there is a problem."""
        if level > _MOST_LEVELS:
            self.refuse(path, "one more level", f"policies within policies of at most {_MOST_LEVELS} levels")
            return None
        if isinstance(value, list | tuple) and value:
            parts = [self.policy(each, f"{path}[{index}]", level + 1) for index, each in enumerate(value)]
            for index, part in enumerate(parts[:-1]):
                if part is not None and _always_applies(part):
                    allowed = "a schedule or a webhook before the last policy; this one always applies"
                    self.refuse(f"{path}[{index}]", shown(part.name), allowed)
            known = tuple(part for part in parts if part is not None)
            return Chain(known) if len(known) == len(parts) else None
        if not isinstance(value, Mapping):
            self.refuse(path, _found(value), f"{_A_POLICY}; or a list of policies")
            return None
        return self._single(value, path, level)

    def _single(self, value: Mapping[object, object], path: str, level: int) -> Policy | None:
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in _KEYS:
            self.refuse(f"{path}.kind", _found(kind) if "kind" in value else "", f"one of {', '.join(_KEYS)}")
            return None
        before = len(self.problems)
        keys = ("kind", *_KEYS[kind])
        for key in value:
            if key not in keys:
                self.refuse(f"{path}.{_key(key)}", _found(key), f"the keys {', '.join(keys)}")
        policy: Policy | None
        match kind:
            case "buffer":
                policy = Buffer(self._count(value, "placeholders", path))
            case "percent":
                policy = self._percent(value, path)
            case "schedule":
                policy = self._schedule(value, path, level)
            case "webhook":
                policy = self._webhook(value, path)
            case "calendar":
                policy = CalendarOnly()
            case _:
                policy = _FORECAST
        return policy if len(self.problems) == before else None

    def _percent(self, value: Mapping[object, object], path: str) -> Policy:
        percent = self._number(value, "percent", path, 0, _MOST_PERCENT)
        least = self._count(value, "min", path, default=0)
        most = self._count(value, "max", path, least=least, default=MOST_PLACEHOLDERS)
        return PercentBuffer(percent, least, most if value.get("max") is not None else None)

    def _schedule(self, value: Mapping[object, object], path: str, level: int) -> Policy | None:
        days = self._days(value.get("days", _DAYS), f"{path}.days")
        begins, ends = (self._time(value, key, path) for key in ("from", "to"))
        zone = self._zone(value.get("zone", "UTC"), f"{path}.zone")
        if "policy" not in value:
            self.refuse(f"{path}.policy", "", _A_POLICY)
            return None
        policy = self.policy(value["policy"], f"{path}.policy", level + 1)
        if begins is not None and begins == ends:
            self.refuse(f"{path}.to", shown(value["to"]), f"another time than from ({value['from']})")
            return None
        if policy is None or begins is None or ends is None or zone is None or not days:
            return None
        return Scheduled((Window(days, begins, ends, zone),), policy)

    def _days(self, value: object, path: str) -> frozenset[int]:
        if isinstance(value, list | tuple) and value and all(isinstance(each, str) and each in _DAYS for each in value):
            return frozenset(_DAYS.index(each) for each in value)
        self.refuse(path, _found(value), f"a list of {', '.join(_DAYS)}")
        return frozenset()

    def _time(self, value: Mapping[object, object], key: str, path: str) -> time | None:
        text = value.get(key)
        if isinstance(text, str) and _TIME.fullmatch(text):
            return time.fromisoformat(text)
        # YAML reads 18:00 without quotes as 1080.
        self.refuse(f"{path}.{key}", _found(text) if key in value else "", 'a time from "00:00" to "23:59", in quotes')
        return None

    def _zone(self, value: object, path: str) -> ZoneInfo | None:
        try:
            if isinstance(value, str):
                return ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
        self.refuse(path, _found(value), "a time zone like Europe/Berlin")
        return None

    def _webhook(self, value: Mapping[object, object], path: str) -> Policy | None:
        name, url = value.get("name"), value.get("url")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self.refuse(f"{path}.name", _found(name) if "name" in value else "", "a name of letters, digits and . _ -")
            name = ""
        if problem := _address_problem(url):
            self.refuse(
                f"{path}.url", problem if "url" in value else "", "an address that begins with https:// or http://"
            )
        seconds = self._number(value, "timeout_seconds", path, 0.1, _MOST_SECONDS, default=2.0)
        minutes = self._number(value, "longest_age_minutes", path, 1, _MOST_MINUTES, default=10.0)
        if not name or problem:
            return None
        found = WebhookSettings(name, timedelta(minutes=minutes), str(url), timedelta(seconds=seconds))
        if self._webhooks.setdefault(name, found) != found:
            self.refuse(f"{path}.name", shown(name), "another name: a webhook with this one has other settings")
        return found

    def _count(
        self, value: Mapping[object, object], key: str, path: str, *, least: int = 0, default: int | None = None
    ) -> int:
        """A number of placeholders; it is required without a default."""
        found = value.get(key)
        if found is None and default is not None:
            return max(default, least)
        if isinstance(found, int) and not isinstance(found, bool) and least <= found <= MOST_PLACEHOLDERS:
            return found
        allowed = f"a whole number from {least} to {MOST_PLACEHOLDERS}"
        self.refuse(f"{path}.{key}", _found(found) if key in value else "", allowed)
        return least

    def _number(
        self,
        value: Mapping[object, object],
        key: str,
        path: str,
        least: float,
        most: float,
        *,
        default: float | None = None,
    ) -> float:
        found = value.get(key)
        if found is None and default is not None:
            return default
        if isinstance(found, int | float) and not isinstance(found, bool) and least <= found <= most:
            return float(found)
        self.refuse(f"{path}.{key}", _found(found) if key in value else "", f"a number from {least:g} to {most:g}")
        return least


def _always_applies(policy: Policy) -> bool:
    match policy:
        case Scheduled() | Webhook():
            return False
        case Chain(policies):
            return any(map(_always_applies, policies))
    return True


def _address_problem(value: object) -> str:
    """What is wrong with an address, without the address; empty if nothing is."""
    if not isinstance(value, str):
        return _found(value)
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


def _key(key: object) -> str:
    return key[:80] if isinstance(key, str) and key.isprintable() else shown(key)


def _found(value: object) -> str:
    """A value for messages; one with an address is not shown, as it may hold a secret."""
    text = shown(value)
    return "a value with an address" if "//" in text else text
