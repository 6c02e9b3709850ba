"""Settings of the service about idle servers."""

from __future__ import annotations

from typing import Any

from traitlets import HasTraits, validate

from dra_spawner.fairness.idle.policy import IdleSettings
from dra_spawner.fairness.idle.settings import read_idle_settings
from dra_spawner.service.traits.checked_traits import SecretDict, checked


class IdleTraits(HasTraits):
    """Mixed into the application."""

    idle_servers = SecretDict(
        help="""
        Servers with devices that nobody uses: what tells it, and what is done (docs/how-to/idle-devices.md). Off by
        default; without `policies` they are only listed::

            c.DRASpawnerService.idle_servers = {
                "prometheus": {"url": "http://prometheus:9090", "queries": ["dcgm"]},
                "policies": {"gpu-slice": {"after_minutes": 60, "notice_minutes": 15}},
            }

        `prometheus`: `url`, `token_file`, and `queries`: presets (`dcgm`, `example`), or mappings with `query`,
        `drivers`, `used_above` and `apart`. `policies`: for each profile, or `*` for all others: `after_minutes`
        without use a warning, `notice_minutes` (15) later a stop; "I still need it" keeps the server for
        `keep_minutes` (120), `keeps` times (3). `look_seconds`: time between two looks (60).
        """
    ).tag(config=True)

    @validate("idle_servers")
    def _validate_idle(self, proposal: Any) -> Any:
        return checked(proposal, read_idle_settings)

    def idle_settings(self) -> IdleSettings:
        """These settings, for the leader."""
        return read_idle_settings(self.idle_servers)
