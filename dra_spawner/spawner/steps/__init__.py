"""The steps of a start: one module a step, and their order (`STEPS`)."""

from dra_spawner.spawner.steps.attempt import Attempt, CreationOutcome, Retry, Step
from dra_spawner.spawner.steps.cluster_check import ClusterCheck
from dra_spawner.spawner.steps.device_claims import DeviceClaims
from dra_spawner.spawner.steps.drained_nodes import DrainedNodes
from dra_spawner.spawner.steps.on_demand import IntelGasOnDemand, VlanOnDemand
from dra_spawner.spawner.steps.placement import ServicePlacement
from dra_spawner.spawner.steps.pod_watch import PodWatch
from dra_spawner.spawner.steps.profile import Profile
from dra_spawner.spawner.steps.second_pod import SecondPod

__all__ = ["STEPS", "Attempt", "CreationOutcome", "Retry", "Step"]

#: In each phase the steps run in this order; a failed attempt is undone in the reverse order. Steps that may refuse a
#: choice come before the VLAN, and the placement before the claims, as it decides which claims are created.
STEPS: tuple[type[Step], ...] = (
    IntelGasOnDemand,
    Profile,
    ClusterCheck,
    VlanOnDemand,
    SecondPod,
    ServicePlacement,
    DrainedNodes,
    DeviceClaims,
    PodWatch,
)
