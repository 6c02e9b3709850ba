"""Preconditions of writes."""

from http import HTTPStatus

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError, FieldError, forbidden_value
from dra_spawner.devcluster.api.resource_types import ResourceType


def check_preconditions(
    resource_type: ResourceType, obj: JsonObject, uid: str | None, resource_version: str | None
) -> None:
    """Check the preconditions of a deletion.

    Raises
    ------
    ApiError
        ``Conflict`` if a precondition does not hold.
    """
    metadata = obj["metadata"]
    if uid and uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
    elif resource_version and resource_version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({resource_version}) does not match the ResourceVersion in "
            f"record ({metadata['resourceVersion']}). The object might have been modified"
        )
    else:
        return
    name, kind = metadata["name"], resource_type.kind
    # Unlike messages of other conflicts, this names the kind.
    raise ApiError(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {kind} "{name}": {why}',
        {"name": name, "kind": kind},
    )


def finalizer_errors(current: JsonObject, new: JsonObject) -> list[FieldError]:
    """Errors of finalizers: a terminating object must not get new ones."""
    if not current["metadata"].get("deletionTimestamp"):
        return []
    known = current["metadata"].get("finalizers") or ()
    added = [name for name in new["metadata"].get("finalizers") or () if name not in known]
    if not added:
        return []
    shown = "[]string{" + ", ".join(f'"{name}"' for name in added) + "}"
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
    return [forbidden_value("metadata.finalizers", detail)]
