"""The definition of CapacityBuffers, which cluster-autoscaler brings."""

from __future__ import annotations

from typing import Any

from dra_spawner import names

Json = dict[str, Any]

_REFERENCE = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}}
_SPEC: Json = {
    "type": "object",
    "properties": {
        "provisioningStrategy": {"type": "string", "default": "buffer.x-k8s.io/active-capacity"},
        "podTemplateRef": _REFERENCE,
        "replicas": {"type": "integer", "format": "int32", "minimum": 0},
        "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
    },
}
#: The fields that are used, with the types of cluster-autoscaler's own definition; others are refused.
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"capacitybuffers.{names.AUTOSCALING_GROUP}",
        # Domains of Kubernetes need it.
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": names.AUTOSCALING_GROUP,
        "scope": "Namespaced",
        "names": {"plural": "capacitybuffers", "singular": "capacitybuffer", "kind": "CapacityBuffer"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": _SPEC}}},
            }
        ],
    },
}
