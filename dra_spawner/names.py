"""The labels by which the cluster remembers what was decided, and by which people see it."""

from __future__ import annotations

from typing import Final

#: On placeholders and their claims, and on users' pods: what the pod needs of a node (`shapes`).
SHAPE: Final = "hub.jupyter.org/shape"
#: Of zero-to-jupyterhub, on its pods; existing dashboards tell placeholders from users by it.
COMPONENT: Final = "component"
PLACEHOLDER: Final = "user-placeholder"
USER_SERVER: Final = "singleuser-server"
#: Components of zero-to-jupyterhub's DaemonSets that pull images.
IMAGE_PULLERS: Final = frozenset({"continuous-image-puller", "hook-image-puller"})
#: Who made an object.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "dra-spawner"

#: On a node, whatever its value: users' servers may go there, for images and every driver's devices are there.
IMAGES_READY: Final = "hub.jupyter.org/images-ready"
#: On a node: placeholders prefer it.
ATTRACT: Final = "hub.jupyter.org/attract-placeholders"
#: On a node: it is to become empty; no new server and no placeholder goes there.
DRAINING: Final = "hub.jupyter.org/draining"
TRUE: Final = "true"
#: Value of `IMAGES_READY` where something is missing, but servers are there that require the label, or it was waited
#: for until the deadline: better slow than never.
LATE: Final = "late"

#: On a warm claim: name of the user's pod that it is kept for, since when and until when (seconds since 1970).
RESERVED_FOR: Final = "hub.jupyter.org/reserved-for"
RESERVED_SINCE: Final = "hub.jupyter.org/reserved-since"
RESERVED_UNTIL: Final = "hub.jupyter.org/reserved-until"
#: On a waiting user's pod: when placeholders last made way for it (seconds since 1970), and after a hyphen how often
#: (left out: once).
PREEMPTED_AT: Final = "hub.jupyter.org/preempted-at"

#: Annotation of a placeholder: why it was made.
REASON: Final = "hub.jupyter.org/reason"
#: Annotation of a user's pod whose shape no choice has by itself: what the shape is, for who is to make a placeholder.
DEFINITION: Final = "hub.jupyter.org/shape-definition"
