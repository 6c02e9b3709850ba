"""Settings of the service about its history."""

from __future__ import annotations

from typing import Any

from traitlets import Bool, Dict, HasTraits, validate

from dra_spawner.fairness.budget_settings import read_budgets
from dra_spawner.history.settings import HistorySettings
from dra_spawner.service.traits.checked_traits import SecretDict, checked
from dra_spawner.service.traits.history_settings import read_history


class HistoryTraits(HasTraits):
    """Mixed into the application."""

    history = SecretDict(
        help="""
        Where launches, lead times of nodes and decisions are recorded, and for how long (docs/reference/history.md)::

            c.DRASpawnerService.history = {"url": "postgresql://dra@db/history", "keep_days": 365}

        `url`: URL of the database, SQLite or PostgreSQL; put a password into `$PGPASSWORD` or `$PGPASSFILE`. By default
        a file in `/var/lib/dra-spawner` if that directory can be written, else memory, which is lost when the process
        ends. `keep_days`: days until records are deleted (365), decisions after 30 at the latest; 0 records nothing.
        `user_names`: `hashed` (default) or `plain`. `key_file`: file with the key of hashes, at least 32 random bytes;
        by default a random key in the database.
        """
    ).tag(config=True)

    budgets = Dict(
        help="""
        Budgets of device-hours, as the page *Use* judges the last 30 days by them (docs/how-to/budgets.md)::

            c.DRASpawnerService.budgets = {
                "policy": [{"resource": "devices", "limit": {"value": 40, "unit": "device-hours"}, "window": 7}],
            }
        """
    ).tag(config=True)

    enforce_budgets = Bool(
        False,
        help="""
        Whether users over one of the `budgets` come after others while devices are scarce: they get no warm placeholder
        then. They borrow devices as long as any is free, and no running server is ever stopped.
        """,
    ).tag(config=True)

    @validate("budgets")
    def _validate_budgets(self, proposal: Any) -> Any:
        return checked(proposal, read_budgets)

    @validate("history")
    def _validate_history(self, proposal: Any) -> Any:
        return checked(proposal, read_history)

    def history_settings(self) -> HistorySettings:
        """These settings, for the recorder."""
        return read_history(self.history)
