"""Every name that this project writes to a cluster, and what uninstalling does about it.

They are spelled out here and not imported: what an older release wrote must be found, too. A test looks for the names
in the other packages and fails for one that is missing here.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ADMINISTRATORS_KINDS",
    "COMPONENT",
    "CONSUMER_GROUP",
    "HUBS_NAMES",
    "LEADER_URL",
    "LEASE",
    "MANAGED_BY",
    "MANAGER",
    "NODE_LABELS",
    "OBJECT_MARKS",
    "PART",
    "PLACEHOLDER",
    "POD_ANNOTATIONS",
    "POD_LABELS",
    "PUBLISHER",
    "REQUIRED",
    "RESERVED_FOR",
    "RESERVED_UNTIL",
    "SHAPE",
    "SHAPES",
    "START",
    "START_ENDS",
    "START_OF_SEVERAL",
    "VLAN",
    "VLANS",
    "is_administrators_name",
    "known_names",
]

#: Label of every object of ours except nodes, servers' pods and Leases.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "dra-spawner"
#: Label, ours if the object is: for what a start makes.
PART: Final = "app.kubernetes.io/component"
#: Label of zero-to-jupyterhub; of placeholders and of their claims, until a server takes these.
COMPONENT: Final = "component"
PLACEHOLDER: Final = "user-placeholder"

SHAPE: Final = "hub.jupyter.org/shape"
VLAN: Final = "hub.jupyter.org/vlan"
START: Final = "hub.jupyter.org/dra-start"
START_ENDS: Final = "hub.jupyter.org/dra-start-ends"
#: Begin of annotations: each names a start that uses the object.
START_OF_SEVERAL: Final = "start.hub.jupyter.org/"
RESERVED_FOR: Final = "hub.jupyter.org/reserved-for"
RESERVED_UNTIL: Final = "hub.jupyter.org/reserved-until"
PUBLISHER: Final = "hub.jupyter.org/publisher"
LEADER_URL: Final = "hub.jupyter.org/leader-url"
#: API group of consumers of a claim that are no pods. Controllers leave them alone, so the claim would stay for ever.
CONSUMER_GROUP: Final = "hub.jupyter.org"

#: Names of ConfigMaps and of the Lease, unless the administrator gave others.
SHAPES: Final = "dra-spawner-shapes"
VLANS: Final = "dra-spawner-vlans"
LEASE: Final = "dra-spawner"

#: Servers require it of their node. A kubelet that restarts ends pods that require a label which their node has not.
REQUIRED: Final = "hub.jupyter.org/images-ready"
#: Taken off nodes, the one that servers require only where no server is.
NODE_LABELS: Final = (
    REQUIRED,
    "hub.jupyter.org/attract-placeholders",
    "hub.jupyter.org/draining",
)
#: Of servers' pods: left with the pod while it runs, taken off one that has ended.
POD_LABELS: Final = (SHAPE, VLAN, "hub.jupyter.org/preempted-at")
POD_ANNOTATIONS: Final = (
    START,
    "hub.jupyter.org/shape-definition",
    "hub.jupyter.org/vlan-owner",
    "hub.jupyter.org/vlan-lease",
    "hub.jupyter.org/intel-gas",
)
#: Of objects that are ours as a whole: they go with these.
OBJECT_MARKS: Final = (
    START_ENDS,
    RESERVED_FOR,
    RESERVED_UNTIL,
    PUBLISHER,
    LEADER_URL,
    START_OF_SEVERAL,
    "hub.jupyter.org/reserved-since",
    "hub.jupyter.org/reason",
    "hub.jupyter.org/dra-digest",
    "hub.jupyter.org/dra-keep-seconds",
    "hub.jupyter.org/dra-unused-since",
    "hub.jupyter.org/dra-shared-by",
    "hub.jupyter.org/shared-by-",
    "hub.jupyter.org/profile",
)
#: KubeSpawner's, zero-to-jupyterhub's and administrators': left alone wherever they are.
HUBS_NAMES: Final = (
    "hub.jupyter.org/username",
    "hub.jupyter.org/servername",
    "hub.jupyter.org/dedicated",
    "hub.jupyter.org_dedicated",
    "hub.jupyter.org/node-pool",
    "hub.jupyter.org/node-purpose",
)

_RBAC: Final = "rbac.authorization.k8s.io/v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"

#: Kinds of what administrators apply from helm-values/, by apiVersion and plural; their names begin with `MANAGER`.
ADMINISTRATORS_KINDS: Final = (
    (_ADMISSION, "validatingadmissionpolicybindings"),
    (_ADMISSION, "validatingadmissionpolicies"),
    ("apps/v1", "deployments"),
    ("v1", "services"),
    ("v1", "configmaps"),
    ("v1", "serviceaccounts"),
    (_RBAC, "rolebindings"),
    (_RBAC, "roles"),
    (_RBAC, "clusterrolebindings"),
    (_RBAC, "clusterroles"),
    ("scheduling.k8s.io/v1", "priorityclasses"),
)


def is_administrators_name(name: str) -> bool:
    """Whether an object of `ADMINISTRATORS_KINDS` is called as the shipped files call theirs."""
    return name == MANAGER or name.startswith(f"{MANAGER}-")


def known_names() -> frozenset[str]:
    """All names, for the test that looks for others."""
    own = (MANAGED_BY, MANAGER, PART, COMPONENT, PLACEHOLDER, CONSUMER_GROUP, SHAPES, VLANS, LEASE)
    return frozenset((*own, *NODE_LABELS, *POD_LABELS, *POD_ANNOTATIONS, *OBJECT_MARKS, *HUBS_NAMES))
