"""Objects reduced to what uninstalling needs, as a cluster may have 10,000 pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_spawner import names
from dra_spawner.commands.removing import marks
from dra_spawner.common.json_types import JsonObject


@dataclass(frozen=True, slots=True, order=True)
class ApiKind:
    """A resource of the API.

    Attributes
    ----------
    name
        As in ``kind``.
    """

    api_version: str
    plural: str
    name: str
    namespaced: bool = True


@dataclass(frozen=True, slots=True)
class ClaimConsumer:
    """An entry of a claim's ``status.reservedFor``."""

    group: str
    resource: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object that may belong to this project.

    Attributes
    ----------
    owners
        Uids of its owners.
    is_terminating
        Whether it is terminating: deleted, and still held by a finalizer or its node.
    """

    kind: ApiKind
    namespace: str
    name: str
    uid: str
    version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: frozenset[str] = frozenset()
    finalizers: tuple[str, ...] = ()
    consumers: tuple[ClaimConsumer, ...] = ()
    is_terminating: bool = False

    @classmethod
    def of(cls, kind: ApiKind, obj: JsonObject) -> FoundObject:
        metadata = obj["metadata"]
        reserved = (obj.get("status") or {}).get("reservedFor") or () if kind.plural == "resourceclaims" else ()
        return cls(
            kind=kind,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata["uid"],
            version=metadata["resourceVersion"],
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            owners=frozenset(each["uid"] for each in metadata.get("ownerReferences") or ()),
            finalizers=tuple(metadata.get("finalizers") or ()),
            consumers=tuple(
                ClaimConsumer(each.get("apiGroup", ""), each["resource"], each["name"], each["uid"])
                for each in reserved
            ),
            is_terminating="deletionTimestamp" in metadata,
        )

    @property
    def title(self) -> str:
        """Kind, namespace and name, for people: ``Pod ns/name``."""
        return f"{self.kind.name} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.name} {self.name}"

    @property
    def is_managed(self) -> bool:
        """Whether hub or service created it, by its label."""
        return self.labels.get(names.MANAGED_BY) == names.MANAGER

    @property
    def is_placeholder(self) -> bool:
        """Whether it is a placeholder, or a warm claim that no server uses, by its labels."""
        return self.labels.get(names.COMPONENT) == names.PLACEHOLDER and self.is_managed

    @property
    def is_chart_test(self) -> bool:
        """Whether it is the pod of `helm test`, which stays until the next test: Helm does not own it."""
        is_ours = self.labels.get(names.APPLICATION) == names.SERVICE
        return is_ours and self.labels.get(names.CHART_COMPONENT) == names.CHART_TEST


@dataclass(frozen=True, slots=True)
class FoundPod:
    """A pod and the claims that it references.

    Attributes
    ----------
    claims, templates
        Names of its claims, including claims created from templates, and of its templates.
    """

    found: FoundObject
    claims: frozenset[str] = frozenset()
    templates: frozenset[str] = frozenset()
    node: str = ""
    phase: str = ""

    @classmethod
    def of(cls, kind: ApiKind, obj: JsonObject) -> FoundPod:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        entries = spec.get("resourceClaims") or ()
        generated = status.get("resourceClaimStatuses") or ()
        claims = {each.get("resourceClaimName") for each in (*entries, *generated)}
        return cls(
            found=FoundObject.of(kind, obj),
            claims=frozenset(name for name in claims if name),
            templates=frozenset(name for each in entries if (name := each.get("resourceClaimTemplateName"))),
            node=spec.get("nodeName", ""),
            phase=status.get("phase", ""),
        )

    @property
    def is_over(self) -> bool:
        """Whether its containers have ended for good, so that it uses no object any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_starting(self) -> bool:
        """Whether the kubelet of its node may be preparing its devices."""
        return bool(self.node) and self.phase in ("", "Pending")

    @property
    def is_marked(self) -> bool:
        """Whether it has a label or an annotation of this project."""
        return bool(self.found.labels.keys() & {*marks.POD_LABELS}) or bool(
            self.found.annotations.keys() & {*marks.POD_ANNOTATIONS}
        )


@dataclass(frozen=True, slots=True)
class FoundLease:
    """A Lease of the service, for leader election.

    Attributes
    ----------
    holder
        Empty after the leader has released it.
    renewed, seconds
        Time of the last renewal by the holder's clock, and the number of seconds that it is valid.
    """

    found: FoundObject
    holder: str = ""
    renewed: str = ""
    seconds: int = 0

    @classmethod
    def of(cls, kind: ApiKind, obj: JsonObject) -> FoundLease:
        spec = obj.get("spec") or {}
        return cls(
            FoundObject.of(kind, obj),
            spec.get("holderIdentity") or "",
            spec.get("renewTime") or "",
            spec.get("leaseDurationSeconds") or 0,
        )


@dataclass(frozen=True, slots=True)
class SurveyedObjects:
    """Objects that a survey found in a cluster.

    Attributes
    ----------
    pods
        Servers, placeholders and other users of claims, in the namespaces of the survey.
    nodes
        Nodes with a label of this project.
    objects
        Objects of all namespaced kinds with this project's label ``app.kubernetes.io/managed-by``.
    leases
        Leases of the service, for leader election.
    administrators
        Objects that an administrator applied: from the chart by `helm template`, or helm-values/.
    """

    pods: tuple[FoundPod, ...] = ()
    nodes: tuple[FoundObject, ...] = ()
    objects: tuple[FoundObject, ...] = ()
    leases: tuple[FoundLease, ...] = ()
    administrators: tuple[FoundObject, ...] = ()
