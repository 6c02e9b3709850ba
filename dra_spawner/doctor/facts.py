"""What an examination has seen of cluster, hub and service. ``None`` marks what could not be seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.objects import DeviceClass, DeviceTaintRule, ResourceSlice
from dra_spawner.placeholders.planner.targets.published_shapes import RefusedChoice
from dra_spawner.simulator.model.claims import TrackedClaim


class Account(StrEnum):
    """Accounts that need rights."""

    HUB = "hub"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, order=True)
class NeededRight:
    """A right that an account needs.

    Attributes
    ----------
    namespace
        Empty for all namespaces.
    name
        The only object of the right; empty for all.
    """

    account: Account
    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class RightAnswer:
    """The API server's answer about a right."""

    right: NeededRight
    user: str
    is_allowed: bool


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that could not be read.

    Attributes
    ----------
    what
        For example ``the network policies of namespace hub``.
    because
        Why, with the right that is missing, as the end of a sentence.
    """

    what: str
    because: str


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of hub or service to a request, or why there is none.

    Attributes
    ----------
    status
        0 without an answer.
    body
        The JSON object of the answer; empty if it has none.
    problem
        Why no answer came.
    """

    url: str
    status: int = 0
    body: JsonObject = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Settings of the service that the hub, or the cluster, must match.

    Attributes
    ----------
    has_placeholders
        Whether the service keeps placeholders.
    feature_gates
        Gates of kube-scheduler with which the service computes, other than the release's defaults.
    packs_devices
        Whether the service packs devices.
    has_tickets, tickets_namespace
        Whether there is a queue for devices, and the namespace of its ConfigMap; empty for the hub's.
    stops_idle_servers
        Whether idle servers are warned and stopped.
    """

    has_placeholders: bool = True
    user_namespaces: bool = False
    lease_name: str = names.LEASE
    shapes_config_map: str = names.SHAPES_CONFIG_MAP
    settings_config_map: str = names.SETTINGS_CONFIG_MAP
    priority_class: str = ""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    packs_devices: bool = False
    has_tickets: bool = False
    tickets_namespace: str = ""
    stops_idle_servers: bool = False


@dataclass(frozen=True, slots=True)
class DoctorFacts:
    """All facts of one examination.

    Attributes
    ----------
    namespace
        Namespace of hub and service.
    kubernetes, kubernetes_patch
        Version of the API server: major and minor, and the patch number.
    versions
        Versions of ``resource.k8s.io`` that the API server has.
    gates
        Feature gates of the API server.
    packages
        Versions of Python packages, where the hub or the service runs in this process' environment.
    hub_namespace_pods
        Pods in `namespace`.
    server_namespaces
        Namespaces with users' servers.
    labels_of_namespaces
        Labels of each namespace; None if they were not read, as where no user has a namespace.
    control_plane
        Pods of the control plane; empty where the provider hides them.
    lease
        The service's Lease; an empty object if it does not exist.
    priority_classes
        Names of all PriorityClasses.
    published_shapes
        Name of the ConfigMap with shapes that was found, by the name that was asked for; None where it does not exist.
    refused_choices
        Choices that cannot work on this cluster, by the hub's own check.
    settings
        None if the service's settings could not be seen.
    service_problems
        What its settings lack, as sentences; only the running service knows it.
    other_policies
        Network policies that are not Kubernetes' own, of `namespace` and of the cluster, by kind.
    has_cilium
        Whether the API server has Cilium's API.
    neighbours
        What the API server has of `rules.neighbours.NEIGHBOURS`.
    is_in_cluster
        Whether this process runs in the cluster, as the hub and the service do.
    own_account
        The account of this process, if it is the hub or the service itself.
    clocks
        Difference of another clock to this one in seconds; positive where the other clock is ahead.
    """

    namespace: str
    kubernetes: tuple[int, int] | None = None
    kubernetes_patch: int | None = None
    versions: frozenset[str] | None = None
    gates: Mapping[str, bool] | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[DeviceClass, ...] | None = None
    slices: tuple[ResourceSlice, ...] | None = None
    rules: tuple[DeviceTaintRule, ...] | None = None
    claims: tuple[TrackedClaim, ...] | None = None
    nodes: tuple[JsonObject, ...] | None = None
    hub_namespace_pods: tuple[JsonObject, ...] | None = None
    server_namespaces: frozenset[str] | None = None
    labels_of_namespaces: Mapping[str, Mapping[str, str]] | None = None
    control_plane: tuple[JsonObject, ...] | None = None
    deployments: tuple[JsonObject, ...] | None = None
    daemon_sets: tuple[JsonObject, ...] | None = None
    services: tuple[JsonObject, ...] | None = None
    network_policies: tuple[JsonObject, ...] | None = None
    other_policies: Mapping[str, tuple[JsonObject, ...] | None] = field(default_factory=dict)
    has_cilium: bool = False
    neighbours: frozenset[tuple[str, str]] = frozenset()
    priority_classes: frozenset[str] | None = None
    shapes_config_maps: frozenset[str] | None = None
    refused_choices: Mapping[str, RefusedChoice] = field(default_factory=dict)
    lease: JsonObject | None = None
    settings: ServiceSettings | None = None
    service_problems: tuple[str, ...] = ()
    rights: tuple[RightAnswer, ...] = ()
    hub: HttpAnswer | None = None
    service: HttpAnswer | None = None
    is_in_cluster: bool = False
    own_account: Account | None = None
    clocks: Mapping[str, float] = field(default_factory=dict)
    now: float = 0.0
    unseen: tuple[Unseen, ...] = ()


def of_users(namespace: str, names_of_all: Iterable[str]) -> tuple[str, ...]:
    """Namespaces with names like those of this hub's users. Another hub with a similar name may own them."""
    return tuple(sorted(each for each in names_of_all if each.startswith(f"{namespace}-")))


def has_strange_servers(namespace: str, server_namespaces: Iterable[str] | None) -> bool:
    """Whether servers run in namespaces with names like those of this hub's users."""
    return bool(of_users(namespace, server_namespaces or ()))
