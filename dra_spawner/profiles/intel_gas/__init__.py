"""Intel GPUs of the device-plugin age: cards, tiles, millicores and memory by extended resources and ``gas-*``
annotations, for the GPU plugin up to 0.33 (pure).

`language` says what a profile may ask for, `labels` what a node has, `pods` what a pod says, `ledger` who has what,
`choosing` which cards are taken, `pod_changes` what the pod becomes, and `masks` what ``ZE_AFFINITY_MASK`` is.
"""

from dra_spawner.profiles.intel_gas.choosing import ChosenCards, choose
from dra_spawner.profiles.intel_gas.language import GpuWish, intel_gas_schema, parse_intel_gas
from dra_spawner.profiles.intel_gas.pod_changes import (
    PodChanges,
    changes_for_gas,
    changes_with_cards,
    plain_changes,
)

__all__ = [
    "ChosenCards",
    "GpuWish",
    "PodChanges",
    "changes_for_gas",
    "changes_with_cards",
    "choose",
    "intel_gas_schema",
    "parse_intel_gas",
    "plain_changes",
]
