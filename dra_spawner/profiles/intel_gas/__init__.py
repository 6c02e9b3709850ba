"""Intel GPUs of the device-plugin age: cards, tiles, millicores and memory by extended resources and ``gas-*``
annotations, for the GPU plugin up to 0.33 (pure).

`language` parses a profile, `labels` reads nodes, `pods` reads pods, `ledger` adds up the use of cards, `choosing`
chooses cards, `pod_changes` changes the pod, and `masks` computes ``ZE_AFFINITY_MASK``.
"""

from dra_spawner.profiles.intel_gas.choosing import ChosenCards, choose
from dra_spawner.profiles.intel_gas.gas_language import GpuRequest, intel_gas_schema, parse_intel_gas
from dra_spawner.profiles.intel_gas.pod_changes import (
    PodChanges,
    changes_for_gas,
    changes_with_cards,
    plain_changes,
)

__all__ = [
    "ChosenCards",
    "GpuRequest",
    "PodChanges",
    "changes_for_gas",
    "changes_with_cards",
    "choose",
    "intel_gas_schema",
    "parse_intel_gas",
    "plain_changes",
]
