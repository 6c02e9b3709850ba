"""Steps that few hubs need: the first start that needs one imports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dra_spawner import names
from dra_spawner.profiles.compiler.claim_templates import FROM_VLANS
from dra_spawner.spawner.steps.attempt import Attempt, Step


class IntelGasOnDemand(Step):
    """Stands for the step of legacy Intel GPUs."""

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if the profile sets ``intel_gas``."""
        if not attempt.spawner.intel_gas:
            return None
        from dra_spawner.spawner.steps.intel_gas import IntelGas

        return IntelGas.configured(attempt)


class VlanOnDemand(Step):
    """Stands for the step of VLANs."""

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if the claims have template variables for a VLAN."""
        if not _needs_vlan(attempt):
            return None
        from dra_spawner.spawner.steps.vlan import Vlan

        return Vlan.configured(attempt)

    @classmethod
    def before_stop(cls, attempt: Attempt) -> Callable[[], Awaitable[object]] | None:
        """Return the release of the VLAN of the pod and of the running attempt; None if they have none."""
        pod = attempt.server.pod()
        # An earlier process of the hub may have started the pod.
        leased = pod is not None and names.VLAN_LEASE in (pod["metadata"].get("annotations") or {})
        if not (leased or _needs_vlan(attempt)):
            return None
        from dra_spawner.spawner.steps.vlan import Vlan

        return Vlan.before_stop(attempt)


def _needs_vlan(attempt: Attempt) -> bool:
    return not FROM_VLANS.isdisjoint(attempt.variables)
