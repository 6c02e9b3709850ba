"""Checks of ``metadata``."""

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import FieldError, invalid_value, required, too_long
from dra_spawner.devcluster.api.resource_types import NAMESPACES, ResourceType
from dra_spawner.devcluster.api.validation.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
    qualified_name_problems,
)

MAX_ANNOTATION_BYTES = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def check_metadata(resource_type: ResourceType, metadata: JsonObject) -> list[FieldError]:
    """Errors of the metadata of a new object."""
    errors: list[FieldError] = []
    name = metadata.get("name", "")
    check_name = check_dns_label if resource_type is NAMESPACES else check_dns_subdomain
    if prefix := metadata.get("generateName"):
        # A generated part follows, so the prefix may end with a hyphen.
        masked = f"{prefix[:-1]}a" if prefix.endswith("-") else prefix
        errors += check_name(masked, "metadata.generateName")
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += check_name(name, "metadata.name")
    return errors + check_common_metadata(metadata, "metadata")


def check_common_metadata(metadata: JsonObject, field: str) -> list[FieldError]:
    """Errors of labels, annotations, finalizers and owners."""
    errors = check_labels(metadata.get("labels") or {}, f"{field}.labels")
    errors += check_annotations(metadata.get("annotations") or {}, f"{field}.annotations")
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        errors += _check_finalizer(finalizer, f"{field}.finalizers[{index}]")
    return errors + _check_owners(metadata.get("ownerReferences") or [], f"{field}.ownerReferences")


def check_labels(labels: dict[str, str], field: str) -> list[FieldError]:
    """Errors of keys and values of labels."""
    errors = []
    for key, value in labels.items():
        errors += check_qualified_name(key, field)
        errors += check_label_value(value, field)
    return errors


def check_annotations(annotations: dict[str, str], field: str) -> list[FieldError]:
    """Errors of the keys of annotations, and of their total size."""
    errors = []
    size = 0
    for key, value in annotations.items():
        errors += [invalid_value(field, key, problem) for problem in qualified_name_problems(key.lower())]
        size += len(key.encode()) + len(value.encode("utf-8", "replace"))
    if size > MAX_ANNOTATION_BYTES:
        errors.append(too_long(field, MAX_ANNOTATION_BYTES))
    return errors


def _check_finalizer(name: str, field: str) -> list[FieldError]:
    errors = check_qualified_name(name, field)
    if not errors and "/" not in name and name not in _STANDARD_FINALIZERS:
        errors.append(invalid_value(field, name, "name is neither a standard finalizer name nor is it fully qualified"))
    return errors


def _check_owners(owners: list[JsonObject], field: str) -> list[FieldError]:
    errors = []
    for index, owner in enumerate(owners):
        errors += [
            required(f"{field}[{index}].{member}", "must not be empty")
            for member in ("apiVersion", "kind", "name", "uid")
            if not owner.get(member)
        ]
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}"
        )
        errors.append(invalid_value(field, owners, detail))
    return errors
