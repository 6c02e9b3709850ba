"""Finds services that lead now, as they would create removed objects again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.commands.removing.found_objects import FoundLease
from dra_spawner.commands.removing.survey import Survey

__all__ = ["Leader", "find_leaders"]

_WATCH_SECONDS: Final = 3.0
"""A leader renews its Lease every 2 s to 2.4 s."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A service that leads, or that led until a moment ago.

    Attributes
    ----------
    until
        Time at which its Lease expires without a renewal; None if this machine's clock cannot tell.
    """

    lease: FoundLease
    until: datetime | None

    @property
    def name(self) -> str:
        """Namespace and name of its Lease."""
        return f"{self.lease.found.namespace}/{self.lease.found.name}"

    def sentence(self, now: datetime) -> str:
        """The reason why nothing is removed, and what to do."""
        left = f"; if it has just been stopped, wait {(self.until - now).total_seconds():.0f} s" if self.until else ""
        return (
            f"A service leads (Lease {self.name}, held by {self.lease.holder}): it would create removed objects again. "
            f"Stop it first{left}. To go on nevertheless, use --force."
        )


async def find_leaders(survey: Survey, now: datetime) -> list[Leader]:
    """The services that lead, in all namespaces that the account may read.

    A Lease that is valid by this machine's clock counts. The leader of an expired Lease may have a slow clock, so the
    Lease is observed for long enough to see a renewal.

    Raises
    ------
    KubernetesError
        If Leases cannot be listed.
    """
    held = [each for each in await survey.leases(everywhere=True) if each.holder]
    leaders = [Leader(each, until) for each in held if (until := _fresh_until(each, now))]
    stale = [each for each in held if all(each is not leader.lease for leader in leaders)]
    if stale:
        await asyncio.sleep(_WATCH_SECONDS)
        again = await survey.leases(everywhere=True)
        leaders += [Leader(each, None) for each in again if each.holder and _was_renewed(each, stale)]
    return leaders


def _fresh_until(lease: FoundLease, now: datetime) -> datetime | None:
    try:
        until = datetime.fromisoformat(lease.renewed) + timedelta(seconds=lease.seconds)
    except (ValueError, OverflowError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return until if until > now else None


def _was_renewed(lease: FoundLease, before: Sequence[FoundLease]) -> bool:
    return any(each.found.uid == lease.found.uid and each.found.version != lease.found.version for each in before)
