"""The kinds of objects in the embedded cluster."""

from dataclasses import dataclass

from dra_spawner import names


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One kind of API object: its path in the API, and the parts that the server treats specially."""

    group: str
    """API group; empty for the core group."""
    version: str
    plural: str
    """Plural name in paths, e.g. ``resourceclaims``."""
    kind: str
    namespaced: bool
    status: bool = False
    """Whether ``status`` is a subresource, which only ``…/status`` writes."""
    generation: bool = False
    """Whether ``metadata.generation`` counts the changes of ``spec``, from 1."""
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    """Subresources other than ``status``."""
    returns_deleted: bool = False
    """Whether DELETE returns the object's last state instead of a Status."""
    unconditional_update: bool = True
    """Whether PUT without ``metadata.resourceVersion`` is accepted."""
    stored_as: "ResourceType | None" = None
    """The kind that its objects are stored as; None for a kind that is stored as it is."""

    @property
    def storage(self) -> "ResourceType":
        """The kind of the stored objects."""
        return self.stored_as or self

    @property
    def api_version(self) -> str:
        """The object's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_plural(self) -> str:
        """The plural with its group, as in error messages: ``resourceclaims.resource.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """The kind in lower case, for ``kubectl``."""
        return self.kind.lower()

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The path of an object or, without a name, of a collection."""
        parts = [self.root]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return self.qualified_plural


_CORE = ("", "v1")
_RESOURCE = (names.RESOURCE_GROUP, "v1")
_APPS = ("apps", "v1")

NAMESPACES = ResourceType(*_CORE, "namespaces", "Namespace", False, status=True, short_names=("ns",))
NODES = ResourceType(*_CORE, "nodes", "Node", False, status=True, short_names=("no",))
PODS = ResourceType(
    *_CORE,
    "pods",
    "Pod",
    True,
    status=True,
    generation=True,
    short_names=("po",),
    subresources=("binding", "eviction", "log"),
    returns_deleted=True,
)
EVENTS = ResourceType(*_CORE, "events", "Event", True, short_names=("ev",))
GROUP_EVENTS = ResourceType(names.EVENTS_GROUP, "v1", "events", "Event", True, short_names=("ev",), stored_as=EVENTS)
CONFIGMAPS = ResourceType(*_CORE, "configmaps", "ConfigMap", True, short_names=("cm",))
SECRETS = ResourceType(*_CORE, "secrets", "Secret", True)
SERVICES = ResourceType(*_CORE, "services", "Service", True, status=True, short_names=("svc",), returns_deleted=True)
PERSISTENTVOLUMECLAIMS = ResourceType(
    *_CORE,
    "persistentvolumeclaims",
    "PersistentVolumeClaim",
    True,
    status=True,
    short_names=("pvc",),
    returns_deleted=True,
)
SERVICEACCOUNTS = ResourceType(
    *_CORE, "serviceaccounts", "ServiceAccount", True, short_names=("sa",), returns_deleted=True
)
RESOURCECLAIMS = ResourceType(*_RESOURCE, "resourceclaims", "ResourceClaim", True, status=True, returns_deleted=True)
RESOURCECLAIMTEMPLATES = ResourceType(
    *_RESOURCE, "resourceclaimtemplates", "ResourceClaimTemplate", True, returns_deleted=True
)
RESOURCESLICES = ResourceType(
    *_RESOURCE, "resourceslices", "ResourceSlice", False, generation=True, returns_deleted=True
)
DEVICECLASSES = ResourceType(*_RESOURCE, "deviceclasses", "DeviceClass", False, generation=True, returns_deleted=True)
DEVICETAINTRULES = ResourceType(*_RESOURCE, "devicetaintrules", "DeviceTaintRule", False, status=True, generation=True)
"""Served as from Kubernetes 1.37 on."""
DAEMONSETS = ResourceType(*_APPS, "daemonsets", "DaemonSet", True, status=True, generation=True, short_names=("ds",))
STATEFULSETS = ResourceType(
    *_APPS, "statefulsets", "StatefulSet", True, status=True, generation=True, short_names=("sts",)
)
DEPLOYMENTS = ResourceType(
    *_APPS, "deployments", "Deployment", True, status=True, generation=True, short_names=("deploy",)
)
LEASES = ResourceType(names.COORDINATION_GROUP, "v1", "leases", "Lease", True, unconditional_update=False)
PODDISRUPTIONBUDGETS = ResourceType(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    True,
    status=True,
    generation=True,
    short_names=("pdb",),
)
PRIORITYCLASSES = ResourceType(
    names.SCHEDULING_GROUP, "v1", "priorityclasses", "PriorityClass", False, generation=True, short_names=("pc",)
)

RESOURCE_TYPES: tuple[ResourceType, ...] = (
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    GROUP_EVENTS,
    CONFIGMAPS,
    SECRETS,
    SERVICES,
    PERSISTENTVOLUMECLAIMS,
    SERVICEACCOUNTS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
    DEVICECLASSES,
    DEVICETAINTRULES,
    DAEMONSETS,
    STATEFULSETS,
    DEPLOYMENTS,
    LEASES,
    PODDISRUPTIONBUDGETS,
    PRIORITYCLASSES,
)
"""All served kinds."""
STORED_TYPES = tuple(each for each in RESOURCE_TYPES if each.stored_as is None)

_BY_PLURAL = {(t.group, t.version, t.plural): t for t in RESOURCE_TYPES}
_BY_KIND = {(t.api_version, t.kind): t for t in RESOURCE_TYPES}


def by_plural(group: str, version: str, plural: str) -> ResourceType | None:
    """The kind with this group, version and plural; None if there is none."""
    return _BY_PLURAL.get((group, version, plural))


def by_kind(api_version: str, kind: str) -> ResourceType | None:
    """The kind of an object's ``apiVersion`` and ``kind``; None if there is none."""
    return _BY_KIND.get((api_version, kind))
