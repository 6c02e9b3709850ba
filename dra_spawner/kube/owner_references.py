"""References that let an object go with a pod."""

from __future__ import annotations

from dra_spawner.common.json_types import JsonObject


def owner_reference(pod_name: str, pod_uid: str) -> JsonObject:
    """Reference that lets an object go with its pod.

    ``blockOwnerDeletion`` is false: true would need the right to update ``pods/finalizers`` where the admission plugin
    OwnerReferencesPermissionEnforcement is on.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod_name,
        "uid": pod_uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }
