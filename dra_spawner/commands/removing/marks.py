"""Lists of the names that this project writes to a cluster, by what uninstalling does about them.

A test fails for a name of ``dra_spawner.names`` that is in none of these lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dra_spawner import names

#: Removed from nodes. Servers require `names.IMAGES_READY`, and a kubelet that restarts ends pods whose required label
#: the node lacks, so this label is removed only from nodes without servers.
NODE_LABELS: Final = (names.IMAGES_READY, names.ATTRACT, names.DRAINING, names.DRAIN_SPARES_PREFIX)
#: On servers' pods: they stay while the pod runs, and are removed when it has ended.
POD_LABELS: Final = (names.SHAPE, names.VLAN, names.PREEMPTED_AT, names.BEHIND, names.TRIAL)
POD_ANNOTATIONS: Final = (
    names.START,
    names.DEFINITION,
    names.VLAN_OWNER,
    names.VLAN_LEASE,
    names.INTEL_GAS,
    names.IDLE_NOTICE,
)
#: On objects that belong to this project as a whole; these are deleted.
OBJECT_MARKS: Final = (
    names.START_ENDS,
    names.RESERVED_FOR,
    names.RESERVED_UNTIL,
    names.INSTALLATION,
    names.PUBLISHER,
    names.PLACEHOLDER_NAME,
    names.START_PREFIX,
    names.RESERVED_SINCE,
    names.TICKET,
    names.REASON,
    names.DRAINED_DEVICE,
    names.DRAINED_UNTIL,
    names.EVICTS_AT,
    names.DIGEST,
    names.KEEP_SECONDS,
    names.UNUSED_SINCE,
    names.SHARED_BY,
    names.SHARED_BY_PREFIX,
    names.PROFILE,
)
#: Names of KubeSpawner, zero-to-jupyterhub and administrators; never removed.
HUBS_NAMES: Final = (
    names.USERNAME,
    names.SERVERNAME,
    names.DEDICATED,
    names.DEDICATED_UNDERSCORE,
    names.NODE_POOL,
    names.NODE_PURPOSE,
    # Of namespaces, which the hub makes and nobody deletes.
    names.HUB_NAMESPACE,
)

#: Kinds of the chart and of helm-values/, by apiVersion and plural; object names begin with `names.MANAGER`.
ADMINISTRATORS_KINDS: Final = (
    (names.ADMISSION_API, "validatingadmissionpolicybindings"),
    (names.ADMISSION_API, "validatingadmissionpolicies"),
    ("apps/v1", "deployments"),
    ("policy/v1", "poddisruptionbudgets"),
    (names.NETWORKING_API, "networkpolicies"),
    ("v1", "services"),
    ("v1", "configmaps"),
    ("v1", "serviceaccounts"),
    (names.RBAC_API, "rolebindings"),
    (names.RBAC_API, "roles"),
    (names.RBAC_API, "clusterrolebindings"),
    (names.RBAC_API, "clusterroles"),
    (names.SCHEDULING_API, "priorityclasses"),
    # Rules of the service for drained devices, which stay closed until a person has seen to them.
    (names.RESOURCE_API, "devicetaintrules"),
)


def node_labels(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Those of a node's labels that this project writes; a mark that ends with a dot is the beginning of many."""
    return tuple(
        key
        for mark in NODE_LABELS
        for key in sorted(labels)
        if key == mark or (mark.endswith(".") and key.startswith(mark))
    )


def is_administrators_name(name: str) -> bool:
    """Whether an object of `ADMINISTRATORS_KINDS` has a name as in the shipped files."""
    return name == names.MANAGER or name.startswith(f"{names.MANAGER}-")
