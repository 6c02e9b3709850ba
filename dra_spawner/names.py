"""Every label, annotation, API group and name of an object that this project reads or writes in a cluster, once."""

from __future__ import annotations

from typing import Final

#: The distribution, its command, and the value of `MANAGED_BY`.
PROJECT: Final = "dra-spawner"

# API groups and their versions.

RESOURCE_GROUP: Final = "resource.k8s.io"
RESOURCE_API: Final = f"{RESOURCE_GROUP}/v1"
RESOURCE_API_BETA: Final = f"{RESOURCE_GROUP}/v1beta2"
TAINT_RULE_APIS: Final = (RESOURCE_API, RESOURCE_API_BETA, f"{RESOURCE_GROUP}/v1alpha3")
"""API versions that have DeviceTaintRules, the newest first. Kubernetes 1.37 serves the first by itself."""
#: Of the files that drivers write into containers.
METADATA_GROUP: Final = "metadata.resource.k8s.io"
EVENTS_GROUP: Final = "events.k8s.io"
EVENTS_API: Final = f"{EVENTS_GROUP}/v1"
COORDINATION_GROUP: Final = "coordination.k8s.io"
COORDINATION_API: Final = f"{COORDINATION_GROUP}/v1"
SCHEDULING_GROUP: Final = "scheduling.k8s.io"
SCHEDULING_API: Final = f"{SCHEDULING_GROUP}/v1"
AUTHORIZATION_GROUP: Final = "authorization.k8s.io"
AUTHORIZATION_API: Final = f"{AUTHORIZATION_GROUP}/v1"
AUTHENTICATION_API: Final = "authentication.k8s.io/v1"
ADMISSION_API: Final = "admissionregistration.k8s.io/v1"
NETWORKING_API: Final = "networking.k8s.io/v1"
ADMIN_POLICY_GROUP: Final = "policy.networking.k8s.io"
CILIUM_GROUP: Final = "cilium.io"
KUEUE_GROUP: Final = "kueue.x-k8s.io"
RBAC_API: Final = "rbac.authorization.k8s.io/v1"
#: Of Tables, ListOptions and continue tokens.
META_GROUP: Final = "meta.k8s.io"
META_API: Final = f"{META_GROUP}/v1"
#: API group and DeviceClass of the CNI driver, its name in ResourceSlices, and the DeviceClass of its VLANs.
CNI_GROUP: Final = "cni.networking.x-k8s.io"
CNI_API: Final = f"{CNI_GROUP}/v1alpha1"
CNI_DRIVER: Final = "cni.dra.networking.x-k8s.io"
CNI_VLAN_CLASS: Final = "vlan-cni.networking.x-k8s.io"

# Kubernetes' own labels, annotations, taints, finalizers and device attributes.

#: Domain of Kubernetes' own names; a resource of another domain is an extended one.
KUBERNETES_PREFIX: Final = "kubernetes.io/"
HOSTNAME: Final = "kubernetes.io/hostname"
OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"
#: On a namespace: its name.
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
#: Keys of taints, and the beginning of the keys of all taints that Kubernetes sets by itself.
NODE_PREFIX: Final = "node.kubernetes.io/"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
CLOUD_PROVIDER_PREFIX: Final = "node.cloudprovider.kubernetes.io/"
STARTUP_TAINT_PREFIX: Final = "startup-taint.cluster-autoscaler.kubernetes.io/"
#: Beginning of a label of nodes: the role follows.
NODE_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
#: Annotations of cluster-autoscaler.
AUTOSCALER_PREFIX: Final = "cluster-autoscaler.kubernetes.io/"
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
#: On the bookmark that ends the initial events of a watch.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
#: On a namespace: its claims may ask for administrative access.
ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"
#: On a namespace: the Pod Security Standard that its pods must meet.
POD_SECURITY: Final = "pod-security.kubernetes.io/enforce"
#: Finalizer of an allocated claim.
DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
#: On a claim that was made from a template: the pod's name for it.
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
#: Device attributes.
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
#: Annotations of objects that Helm installed.
HELM_RELEASE: Final = "meta.helm.sh/release-name"
HELM_NAMESPACE: Final = "meta.helm.sh/release-namespace"
#: Image of a container that does nothing.
PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10"

#: Resources of a ResourceQuota: the number of claims, and after the name of a device class the number of its devices.

# Labels of every object of this project.

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = PROJECT
#: What the object is for: `spawner.objects.api_objects` has the values.
PART: Final = "app.kubernetes.io/component"

# Names of zero-to-jupyterhub and KubeSpawner.

#: Label of zero-to-jupyterhub, on its pods; existing dashboards tell placeholders from users by it.
COMPONENT: Final = "component"
PLACEHOLDER: Final = "user-placeholder"
USER_SERVER: Final = "singleuser-server"
#: Components of zero-to-jupyterhub's DaemonSets that pull images.
IMAGE_PULLERS: Final = frozenset({"continuous-image-puller", "hook-image-puller"})
USERNAME: Final = "hub.jupyter.org/username"
SERVERNAME: Final = "hub.jupyter.org/servername"
#: On a user's pod: the profile that was chosen.
PROFILE: Final = "hub.jupyter.org/profile"
#: Taint of nodes for users, in both spellings.
DEDICATED: Final = "hub.jupyter.org/dedicated"
DEDICATED_UNDERSCORE: Final = "hub.jupyter.org_dedicated"
NODE_POOL: Final = "hub.jupyter.org/node-pool"
NODE_PURPOSE: Final = "hub.jupyter.org/node-purpose"

# Names of this project.

#: On the namespace of a user's servers: namespace of the hub that made it. The chart's policies go by this label.
HUB_NAMESPACE: Final = "hub.jupyter.org/hub-namespace"

#: Option of a server that ``dra-spawner try`` sets, and label of the server's pod. No user came for it, so forecasts do
#: not count it.
TRIAL_OPTION: Final = "dra_spawner_trial"
TRIAL: Final = "hub.jupyter.org/dra-trial"

#: Annotation of a user's pod: the warning that its server is stopped for being idle, and what its user has answered.
IDLE_NOTICE: Final = "hub.jupyter.org/dra-idle-notice"

#: API group of consumers of a claim that are not pods.
CONSUMER_GROUP: Final = "hub.jupyter.org"
#: Beginning of this project's annotations and labels.
HUB_PREFIX: Final = "hub.jupyter.org/"

#: On placeholders and their claims, and on users' pods: what the pod needs of a node (`shapes`).
SHAPE: Final = "hub.jupyter.org/shape"
#: On a user's pod: its user is over a budget, and others come first while devices are scarce.
BEHIND: Final = "hub.jupyter.org/over-budget"
#: On a node, whatever its value: users' servers may go there, for images and every driver's devices are there.
IMAGES_READY: Final = "hub.jupyter.org/images-ready"
#: On a node: placeholders prefer it.
ATTRACT: Final = "hub.jupyter.org/attract-placeholders"
#: On a node: it is to become empty, and no placeholder goes there.
DRAINING: Final = "hub.jupyter.org/draining"
TRUE: Final = "true"
#: Value of `DRAINING` where a person ordered it: the node is *drained*, and no new server goes there.
ORDERED: Final = "ordered"
#: Value of `DRAINING` where the service *empties* a node without servers: new servers prefer other nodes. Services
#: before this version wrote `TRUE`.
EMPTYING: Final = "emptying"
#: On a drained node, one for each server there, and the mark of its pod (`planner.node_conditions`) after it: these
#: servers stay there when a kubelet restarts.
DRAIN_SPARES_PREFIX: Final = "hub.jupyter.org/drain-spares."
#: Value of `IMAGES_READY` where an image or a driver is missing, but servers there require the label, or the deadline
#: has passed.
LATE: Final = "late"

#: Kueue: beginning of its scheduling gates, the label with a pod's queue, and the API that tells a place in it.
KUEUE_PREFIX: Final = "kueue.x-k8s.io/"
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
KUEUE_VISIBILITY_APIS: Final = ("visibility.kueue.x-k8s.io/v1beta2", "visibility.kueue.x-k8s.io/v1beta1")

#: On a placeholder with claims: its name, by which a server that gets its claims waits until it is gone.
PLACEHOLDER_NAME: Final = "hub.jupyter.org/placeholder"
#: On placeholders and their claims: Lease of the service that has them.
INSTALLATION: Final = "hub.jupyter.org/installation"
#: On a warm claim: name of the user's pod that it is reserved for, since when and until when (seconds since 1970).
RESERVED_FOR: Final = "hub.jupyter.org/reserved-for"
RESERVED_SINCE: Final = "hub.jupyter.org/reserved-since"
RESERVED_UNTIL: Final = "hub.jupyter.org/reserved-until"
#: Label of a warm claim: the ticket for which its placeholder was held when a server reserved it.
TICKET: Final = "hub.jupyter.org/ticket"
#: On a pending user's pod: when placeholders were last preempted for it (seconds since 1970), and after a hyphen how
#: often (left out: once).
PREEMPTED_AT: Final = "hub.jupyter.org/preempted-at"

#: On pods of the service: those of one installation have the same.
APPLICATION: Final = "app.kubernetes.io/name"
INSTANCE: Final = "app.kubernetes.io/instance"
#: On objects of the chart; the pod of `helm test` has this value.
CHART_COMPONENT: Final = "app.kubernetes.io/component"
CHART_TEST: Final = "test"
#: On the pod of the service's replica that leads, with the value `TRUE`: a Service selects it.
LEADER: Final = "hub.jupyter.org/dra-spawner-leader"

#: Annotation of a placeholder: why it was made.
REASON: Final = "hub.jupyter.org/reason"
#: Key of the taint of a device that a person drains, and of annotations of its DeviceTaintRule.
DRAINED_DEVICE: Final = "hub.jupyter.org/drained-device"
DRAINED_UNTIL: Final = "hub.jupyter.org/drained-until"
EVICTS_AT: Final = "hub.jupyter.org/evicts-at"
#: Of the names of such rules.
TAINT_RULE_PREFIX: Final = "dra-spawner-"
#: Annotation of a user's pod whose shape belongs to no single choice: the shape, from which a placeholder is made.
DEFINITION: Final = "hub.jupyter.org/shape-definition"

#: Annotation of a pod, its templates and its claims: the start that they belong to.
START: Final = "hub.jupyter.org/dra-start"
#: Annotation of what a start makes: when that start is over, so that any hub may judge what another one left.
START_ENDS: Final = "hub.jupyter.org/dra-start-ends"
#: Beginning of annotations of a shared object. The start's nonce follows; the value is when that start is over.
START_PREFIX: Final = "start.hub.jupyter.org/"
#: Annotations of a shared object: its content, for how many seconds it stays without users (empty: for ever), since
#: when it has none, and by whom it is shared.
DIGEST: Final = "hub.jupyter.org/dra-digest"
KEEP_SECONDS: Final = "hub.jupyter.org/dra-keep-seconds"
UNUSED_SINCE: Final = "hub.jupyter.org/dra-unused-since"
SHARED_BY: Final = "hub.jupyter.org/dra-shared-by"
#: Beginning of a label of a shared object; what it is shared by follows, as in ``shared-by-group``.
SHARED_BY_PREFIX: Final = "hub.jupyter.org/shared-by-"

#: Label of a pod: its VLAN. Annotations: to whom the VLAN was given, and at which start.
VLAN: Final = "hub.jupyter.org/vlan"
VLAN_OWNER: Final = "hub.jupyter.org/vlan-owner"
VLAN_LEASE: Final = "hub.jupyter.org/vlan-lease"
#: Annotation of a pod whose cards the hub chose: the ``gas-ts`` that it wrote. Another ``gas-ts`` there means that GAS
#: chose again.
INTEL_GAS: Final = "hub.jupyter.org/intel-gas"

#: Annotation of `SHAPES_CONFIG_MAP`: the hub that published it.
PUBLISHER: Final = "hub.jupyter.org/publisher"

# Names of objects, unless the administrator chose others.

SHAPES_CONFIG_MAP: Final = "dra-spawner-shapes"
#: In the namespace of the service: what people set by its API.
SETTINGS_CONFIG_MAP: Final = "dra-spawner-settings"
#: In the namespace of the hub's servers; helm-values/rbac.yaml and the chart name it, too.
VLANS_CONFIG_MAP: Final = "dra-spawner-vlans"
#: The queue for devices (`tickets`), of one hub or of several: in the namespace that both settings name.
TICKETS_CONFIG_MAP: Final = "dra-spawner-tickets"
#: Of a service without the chart, which names the class itself.
PRIORITY_CLASS: Final = "dra-spawner-placeholder"
#: Of the objects of the chart, and of the service's application.
SERVICE: Final = "dra-spawner-service"
LEASE: Final = PROJECT
#: Beginning of the name of a claim that is created by dry run only.
PROBE_PREFIX: Final = "dra-spawner-probe-"
#: Name of the JupyterHub service, and scopes of its users: operators may read, administrators may operate.
HUB_SERVICE: Final = PROJECT
READ_SCOPE: Final = "custom:dra-spawner:read"
#: Scope of people who announce classes; operators may do it, too.
ANNOUNCE_SCOPE: Final = "custom:dra-spawner:announce"
OPERATE_SCOPE: Final = "custom:dra-spawner:operate"
ADMIN_SCOPE: Final = "custom:dra-spawner:admin"
