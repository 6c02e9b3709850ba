"""Makes `dra_spawner/devcluster/api/schema.json` from the OpenAPI document of a kube-apiserver.

``python -m tests.devcluster.api.make_schema OPENAPI_V2.json`` writes the file anew; `test_fidelity` compares it with
the control plane that the tests run.
"""

import json
import sys
from pathlib import Path
from typing import Any

from dra_spawner.devcluster.api.resource_types import RESOURCE_TYPES

SCHEMA_FILE = Path(__file__).parents[3] / "dra_spawner" / "devcluster" / "api" / "schema.json"
_SCALARS: dict[tuple[str | None, str | None], str] = {
    ("boolean", None): "bool",
    ("string", "byte"): "[]uint8",
    ("string", "date-time"): "Time",
    ("string", "int-or-string"): "IntOrString",
}
_PREFIXES = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apimachinery.pkg.api.", "io.k8s.apimachinery.pkg.")


def _short(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def make_schema(openapi: dict[str, Any]) -> dict[str, Any]:
    """Kinds and structures: for each field its type and, where it has them, its marks for patches.

    A field is ``<type>``; ``[]`` and ``map[string]`` prefixes mean what they mean in Go, a trailing ``!`` that the
    field is required.  Names with a dot are structures.
    """
    definitions = openapi["definitions"]
    structures: dict[str, dict[str, str]] = {}
    kinds: dict[str, str] = {}

    def type_of(schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            return structure(schema["$ref"].rpartition("/")[2])
        kind, form = schema.get("type"), schema.get("format")
        if kind == "array":
            return "[]" + type_of(schema["items"])
        if kind == "object":
            inner = schema.get("additionalProperties")
            return "map[string]" + type_of(inner) if inner else "any"
        return _SCALARS.get((kind, form)) or form or kind or "any"

    def structure(name: str) -> str:
        definition = definitions[name]
        last = name.rpartition(".")[2]
        if last in ("Quantity", "MicroTime"):
            return last
        if "properties" not in definition:
            return type_of(definition)
        short = _short(name)
        if short not in structures:
            structures[short] = {}
            needed = definition.get("required", ())
            for field, schema in sorted(definition["properties"].items()):
                structures[short][field] = type_of(schema) + ("!" if field in needed else "")
        return short

    wanted = {(t.group, t.version, t.kind): f"{t.api_version}/{t.kind}" for t in RESOURCE_TYPES}
    for name, definition in definitions.items():
        for gvk in definition.get("x-kubernetes-group-version-kind", ()):
            key = wanted.get((gvk["group"], gvk["version"], gvk["kind"]))
            if key:
                kinds[key] = structure(name)
    return {"kinds": dict(sorted(kinds.items())), "structures": dict(sorted(structures.items()))}


def write(schema: dict[str, Any]) -> str:
    """The schema as the file's text: one structure a line."""
    lines = [json.dumps(name) + ": " + json.dumps(fields) for name, fields in schema["structures"].items()]
    kinds = json.dumps(schema["kinds"], indent=1)
    return '{"kinds": ' + kinds + ',\n"structures": {\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(write(make_schema(json.loads(Path(sys.argv[1]).read_text()))))
