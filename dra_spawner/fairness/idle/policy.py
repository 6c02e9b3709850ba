"""What is done about a server that is idle, as an administrator has set it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from dra_spawner.fairness.idle.metrics import MetricQuery

ALL_PROFILES: Final = "*"
"""Key of the policy of all profiles without an own one."""


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """When a server is warned and stopped.

    Attributes
    ----------
    after
        Idle time until the warning.
    notice
        Time for which the warning can be seen before the stop.
    keep
        Time for which "I still need it" keeps the server.
    keeps
        How often one server may be kept; 0 for never.
    """

    after: timedelta
    notice: timedelta = timedelta(minutes=15)
    keep: timedelta = timedelta(hours=2)
    keeps: int = 3


@dataclass(frozen=True, slots=True)
class PrometheusAddress:
    """Where the use of devices is asked for; nowhere without a URL."""

    url: str = field(default="", repr=False)
    token_file: str = ""
    queries: tuple[MetricQuery, ...] = ()


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """The setting ``idle_servers``.

    Attributes
    ----------
    is_on
        Whether anything is looked at.
    policies
        By profile, or `ALL_PROFILES`; without one, servers are only listed.
    look
        Time between two looks.
    """

    is_on: bool = False
    prometheus: PrometheusAddress = field(default_factory=PrometheusAddress)
    policies: Mapping[str, IdlePolicy] = field(default_factory=dict)
    look: timedelta = timedelta(minutes=1)

    @property
    def longest_gap(self) -> timedelta:
        """Time between two looks from which idle time begins anew."""
        return 2.5 * self.look

    def policy_of(self, profile: str) -> IdlePolicy | None:
        """The policy of a profile; None where nothing is stopped."""
        return self.policies.get(profile, self.policies.get(ALL_PROFILES))
