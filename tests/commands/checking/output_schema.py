"""JSON Schema of the output of `dra-spawner check --format json`."""

from __future__ import annotations

OUTPUT_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["errors", "warnings", "infos", "source", "cluster", "notChecked", "general", "choices"],
    "properties": {
        **{name: {"type": "integer"} for name in ("errors", "warnings", "infos")},
        "source": {"type": "string"},
        "notChecked": {"type": "array", "items": {"type": "string"}},
        "cluster": {
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {
                "kubernetesVersion": {"type": ["string", "null"], "pattern": r"^\d+\.\d+$"},
                "nodes": {"type": ["integer", "null"]},
                "devices": {"type": ["integer", "null"]},
                "drivers": {"type": ["array", "null"], "items": {"type": "string"}},
                "droppedFields": {"type": ["array", "null"], "items": {"type": "string"}},
            },
        },
        "general": {"type": "array", "items": {"$ref": "#/$defs/finding"}},
        "choices": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["path", "profile", "picks", "findings"],
                "properties": {
                    "path": {"type": "string"},
                    "profile": {"type": "string"},
                    "picks": {"type": "object", "additionalProperties": {"type": "string"}},
                    "findings": {"type": "array", "items": {"$ref": "#/$defs/finding"}},
                },
            },
        },
    },
    "$defs": {
        "finding": {
            "type": "object",
            "additionalProperties": False,
            "required": ["level", "rule", "path", "message"],
            "properties": {
                "level": {"enum": ["error", "warning", "info"]},
                "rule": {"type": "string", "pattern": "^[a-z0-9-]+$"},
                "path": {"type": "string"},
                "message": {"type": "string", "minLength": 1},
            },
        }
    },
}
