"""Policies by their names on the command line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from dra_spawner.scale_ahead.demand.policies import Buffer, CalendarOnly, DemandPolicy, ForecastDemand
from dra_spawner.scale_ahead.demand.settings import DemandSettings

EQUAL_HIT: Final = "fixed:equal"
"""The smallest fixed number with the hit rate of the previous policy that uses the calendar."""
_FORMS: Final = (
    "none, fixed:NUMBER, fixed:equal, z2jh:NUMBER, calendar, forecast or forecast:SETTING=VALUE,... with the settings"
)
_SETTINGS: Final = {
    "hit_rate": float,
    "memory": float,
    "hold": float,
    "node_hold": float,
    "burstiness": float,
    "weeks": int,
    "around_minutes": float,
    "recurring_margin": float,
    "calendar_margin_minutes": float,
    "calibration_days": float,
}
_MINUTES: Final = "_minutes"
_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy to replay.

    Attributes
    ----------
    name
        Name on the command line.
    policy
        The policy; None for `EQUAL_HIT`.
    uses_calendar
        Whether it uses calendar entries.
    as_z2jh
        Whether its placeholders are those of zero-to-jupyterhub.
    """

    name: str
    policy: DemandPolicy | None
    settings: DemandSettings = dataclasses.field(default_factory=DemandSettings)
    uses_calendar: bool = False
    as_z2jh: bool = False


def parse_policy(text: str, settings: DemandSettings) -> NamedPolicy:
    """Read a policy.

    Parameters
    ----------
    settings
        Settings of forecasts; the text may override them.

    Raises
    ------
    ValueError
        If the policy does not exist, or a setting is invalid.
    """
    kind, _, rest = text.partition(":")
    match kind:
        case "none" if not rest:
            return NamedPolicy(text, Buffer(0, "none"))
        case "fixed" if text == EQUAL_HIT:
            return NamedPolicy(text, None)
        case "fixed":
            return NamedPolicy(text, Buffer(_number(text, rest), text))
        case "z2jh":
            return NamedPolicy(text, Buffer(_number(text, rest), text), as_z2jh=True)
        case "calendar" if not rest:
            return NamedPolicy(text, CalendarOnly(), settings, uses_calendar=True)
        case "forecast":
            return NamedPolicy(text, ForecastDemand(text), _with(settings, text, rest), uses_calendar=True)
    raise ValueError(f"{text!r} is not a policy; write {_FORMS} {', '.join(_SETTINGS)}")


def _number(text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal()) or int(digits) > _MAX:
        raise ValueError(f"{text!r} needs a whole number from 0 to {_MAX:,} after the colon")
    return int(digits)


def _with(settings: DemandSettings, text: str, rest: str) -> DemandSettings:
    changes: dict[str, object] = {}
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        if name not in _SETTINGS:
            raise ValueError(f"{text!r} has the setting {name!r}; known are {', '.join(_SETTINGS)}")
        try:
            number = _SETTINGS[name](value)
        except ValueError:
            raise ValueError(f"{text!r} has {value!r} for {name}; it must be a number") from None
        if name.endswith(_MINUTES):
            changes[name.removesuffix(_MINUTES)] = timedelta(minutes=number)
        else:
            changes[name] = number
    return dataclasses.replace(settings, **changes)  # type: ignore[arg-type]
