"""The chart's schema of the service's settings, from the settings themselves."""

from __future__ import annotations

from typing import Final

from traitlets import Bool, Dict, Enum, Float, Integer, List, Set, TraitType, Unicode

from dra_spawner.common.json_types import JsonObject
from dra_spawner.service.application import DRASpawnerService

#: Values of the chart of their own, the pod's environment, and settings that no chart needs.
SET_OTHERWISE: Final = frozenset(
    [
        "config_file",
        "generate_config",
        "history",
        "kube_certificate_authority",
        "kube_server",
        "kube_token_file",
        "kubeconfig",
        "lease_name",
        "namespace",
        "placeholder_priority_class",
        "placeholders",
        "pod_name",
        "prefix",
        "servers_namespace",
        "url",
        "user_namespaces",
    ]
)


def settings_schema() -> JsonObject:
    """The schema of the value ``service.config``."""
    traits = DRASpawnerService.class_traits(config=True)
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: _schema_of(trait)
            for name, trait in sorted(traits.items())
            if trait.this_class.__module__.startswith("dra_spawner.") and name not in SET_OTHERWISE
        },
    }


def _schema_of(trait: TraitType) -> JsonObject:
    match trait:
        case Bool():
            return {"type": "boolean"}
        case Integer():
            return {"type": "integer"}
        case Float():
            return {"type": "number"}
        case Enum():
            return {"enum": list(trait.values)}
        case Unicode():
            return {"type": "string"}
        case List() | Set():
            return {"type": "array"}
        case Dict():
            return {"type": "object"}
    raise TypeError(f"a setting of an unknown type: {trait}")
