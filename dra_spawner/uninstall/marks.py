"""What uninstalling does about each name that this project writes to a cluster.

A test fails for a name of ``dra_spawner.names`` that is in none of these lists.
"""

from __future__ import annotations

from typing import Final

from dra_spawner import names

__all__ = [
    "ADMINISTRATORS_KINDS",
    "HUBS_NAMES",
    "NODE_LABELS",
    "OBJECT_MARKS",
    "POD_ANNOTATIONS",
    "POD_LABELS",
    "is_administrators_name",
]

#: Taken off nodes. Servers require `names.IMAGES_READY`, and a kubelet that restarts ends pods whose required label the
#: node lacks: it is taken off only where no server is.
NODE_LABELS: Final = (names.IMAGES_READY, names.ATTRACT, names.DRAINING)
#: Of servers' pods: left with the pod while it runs, taken off one that has ended.
POD_LABELS: Final = (names.SHAPE, names.VLAN, names.PREEMPTED_AT)
POD_ANNOTATIONS: Final = (names.START, names.DEFINITION, names.VLAN_OWNER, names.VLAN_LEASE, names.INTEL_GAS)
#: Of objects that belong to this project as a whole; they are deleted with these.
OBJECT_MARKS: Final = (
    names.START_ENDS,
    names.RESERVED_FOR,
    names.RESERVED_UNTIL,
    names.PUBLISHER,
    names.START_PREFIX,
    names.RESERVED_SINCE,
    names.REASON,
    names.DIGEST,
    names.KEEP_SECONDS,
    names.UNUSED_SINCE,
    names.SHARED_BY,
    names.SHARED_BY_PREFIX,
    names.PROFILE,
)
#: Of KubeSpawner, zero-to-jupyterhub and administrators; left alone on every object.
HUBS_NAMES: Final = (
    names.USERNAME,
    names.SERVERNAME,
    names.DEDICATED,
    names.DEDICATED_UNDERSCORE,
    names.NODE_POOL,
    names.NODE_PURPOSE,
)

#: Kinds that administrators apply from helm-values/, by apiVersion and plural; object names begin with `names.MANAGER`.
ADMINISTRATORS_KINDS: Final = (
    (names.ADMISSION_API, "validatingadmissionpolicybindings"),
    (names.ADMISSION_API, "validatingadmissionpolicies"),
    ("apps/v1", "deployments"),
    ("v1", "services"),
    ("v1", "configmaps"),
    ("v1", "serviceaccounts"),
    (names.RBAC_API, "rolebindings"),
    (names.RBAC_API, "roles"),
    (names.RBAC_API, "clusterrolebindings"),
    (names.RBAC_API, "clusterroles"),
    (names.SCHEDULING_API, "priorityclasses"),
)


def is_administrators_name(name: str) -> bool:
    """Whether an object of `ADMINISTRATORS_KINDS` has a name as in the shipped files."""
    return name == names.MANAGER or name.startswith(f"{names.MANAGER}-")
