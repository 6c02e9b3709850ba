"""Claims as the profile language says them, parsed and validated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.syntax.properties import PROPERTIES

#: Container name and the requests it gets; ``None`` instead of requests is the claim as a whole.
ContainerRequests = tuple[str, tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class VlanAttachment:
    """A network interface in a VLAN, for the driver of a request's device.

    Attributes
    ----------
    vlan
        Its number; ``None`` stands for that of the user or the group, until the start knows it.
    driver
        Driver that creates the interface.
    kind
        ``vlan`` (an interface of its own on the master), ``macvlan`` or ``ipvlan`` (on the master's sub-interface).
    master, mode, mtu
        As the CNI plugin of that name has them; empty or 0 where nothing is said.
    interface
        Its name in the pod; empty until it is chosen.
    ipam
        Where its addresses come from, as CNI writes it; may have variables.
    parameters
        Configuration of an unknown driver; may have variables.
    """

    vlan: int | None
    driver: str
    kind: str = "vlan"
    master: str = ""
    mode: str = ""
    mtu: int = 0
    interface: str = ""
    ipam: JsonObject | None = None
    parameters: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One named request, or one alternative of it: devices of one class, and what each of them must be.

    Attributes
    ----------
    name
        A DNS label.
    device_class
        ``deviceClassName``; empty where there are alternatives.
    count
        How many devices, from 1 to 32; ``None`` is every device there is (``allocationMode: All``).
    properties
        Words for what each device must be, such as ``("product", "A100*")``, in the order of `PROPERTIES`.
    capacity
        Capacity name, exactly as the driver publishes it, and how much of it is asked for, canonically written.
    where
        Further selectors in CEL, all of which must hold.
    tolerations
        ``tolerations`` as the API has them.
    admin_access
        Access for administration, beside other users of the devices (``adminAccess``).
    optional
        Whether the server starts without it if it is not available.
    vlan
        The network interface in a VLAN that its device is for.
    first_available
        Alternatives in order of preference; if there are any, they are all that counts.
    list_attributes
        Whether attributes of devices may be lists on the cluster.
    """

    name: str
    device_class: str = ""
    count: int | None = 1
    properties: tuple[tuple[str, str | int | bool], ...] = ()
    capacity: tuple[tuple[str, str], ...] = ()
    where: tuple[str, ...] = ()
    tolerations: tuple[JsonObject, ...] = ()
    admin_access: bool = False
    optional: bool = False
    vlan: VlanAttachment | None = None
    first_available: tuple[DeviceRequest, ...] = ()
    list_attributes: bool = False

    @property
    def expressions(self) -> tuple[str, ...]:
        """CEL that each device must fulfil: of `properties`, then `where`."""
        words = (
            PROPERTIES[word].expression(value, list_attributes=self.list_attributes) for word, value in self.properties
        )
        return (*words, *self.where)

    @property
    def least_devices(self) -> int:
        """How many devices it takes at the least."""
        if self.first_available:
            return min(alternative.least_devices for alternative in self.first_available)
        return 1 if self.count is None else self.count


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """What the devices of several requests must have in common, or in which they must differ.

    Attributes
    ----------
    attribute
        With its domain.
    distinct
        Whether all values must differ (``distinctAttribute``) instead of being the same (``matchAttribute``).
    requests
        ``request`` or ``request/alternative``; none means all of the claim.
    """

    attribute: str
    distinct: bool = False
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """Parameters that only the driver understands (``opaque``).

    Attributes
    ----------
    requests
        ``request`` or ``request/alternative``; none means all of the claim.
    """

    driver: str
    parameters: JsonObject
    requests: tuple[str, ...] = ()


class SharedBy(StrEnum):
    """Whose servers use one claim together."""

    USER = "user"
    GROUP = "group"
    EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True)
class Sharing:
    """That one claim serves several servers, instead of each having its own.

    Attributes
    ----------
    by
        Whose servers.
    groups
        Groups of the hub, in order; the user's first one counts. Only with ``SharedBy.GROUP``.
    keep_seconds
        How long the claim stays after its last server has gone; ``None`` is for ever. It holds no device then.
    """

    by: SharedBy
    groups: tuple[str, ...] = ()
    keep_seconds: int | None = 0


@dataclass(frozen=True, slots=True)
class Companion:
    """Another object that a start needs, such as a NetworkAttachmentDefinition.

    Attributes
    ----------
    name
        Of the entry; a DNS label.
    plural
        The resource's name in the API's paths, such as ``network-attachment-definitions``.
    manifest
        The object. With a name in its ``metadata`` it is one for all servers that name it; without, each start has one
        of its own. Its variables, if any, are expanded (`expand_claims`) before a start's plan is compiled.
    """

    name: str
    plural: str
    manifest: JsonObject

    @property
    def shared(self) -> bool:
        """Whether several servers use it together."""
        return "name" in self.manifest.get("metadata", {})


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """One claim of a server: from requests, or one of ``template``, ``claim`` and ``spec``.

    Attributes
    ----------
    name
        The name of the pod's ``resourceClaims`` entry, a DNS label.
    containers
        Which container gets which requests; a container that is not named gets none.
    template
        An existing ResourceClaimTemplate from which Kubernetes makes the claim.
    claim
        An existing ResourceClaim.
    spec
        A ResourceClaimSpec as it stands.
    sharing
        Whether it is one claim for several servers.
    companions
        Objects that are there before the pod.
    """

    name: str
    containers: tuple[ContainerRequests, ...]
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()
    template: str = ""
    claim: str = ""
    spec: JsonObject | None = None
    sharing: Sharing | None = None
    companions: tuple[Companion, ...] = ()
