"""The types of a driver's description."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dra_spawner.profiles.drivers.parameters import Fields


class Enforcement(StrEnum):
    """The part that enforces shares of a device."""

    #: The device itself: its parts are as separate as devices.
    HARDWARE = "hardware"
    #: A library in each user's programs; a user can avoid it on purpose.
    LIBRARY = "library"
    #: A process of the driver that the programs work through.
    DAEMON = "daemon"
    #: Nothing: only the scheduler knows the share.
    NONE = "none"


#: The weakest first.
WEAKEST_FIRST = (Enforcement.NONE, Enforcement.LIBRARY, Enforcement.DAEMON, Enforcement.HARDWARE)


@dataclass(frozen=True, slots=True)
class ShareEnforcement:
    """Enforcement of a share.

    Attributes
    ----------
    enforcement
        The part that enforces the share.
    sentence
        One plain sentence for the user.
    """

    enforcement: Enforcement
    sentence: str


class ValueKind(StrEnum):
    """Type of an attribute as the API writes it."""

    STRING = "string"
    INT = "int"
    BOOL = "bool"
    VERSION = "version"


class Presence(StrEnum):
    """Which devices have an attribute or a capacity."""

    ALWAYS = "always"
    #: Only some devices or configurations have it.
    OPTIONAL = "optional"
    #: Only newer releases of the driver.
    NEWER = "newer"
    #: Only older releases: it was removed.
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class PublishedAttribute:
    """An attribute that a driver publishes; its name has a domain only if that is not the driver's."""

    name: str
    kind: ValueKind = ValueKind.STRING
    presence: Presence = Presence.ALWAYS
    types: frozenset[str] = frozenset()
    """Types of devices that have it; empty: all."""
    values: tuple[str, ...] = ()
    """All possible values, if they are few."""


@dataclass(frozen=True, slots=True)
class PublishedCapacity:
    """A capacity that a driver publishes; its name exactly as it stands in ResourceSlices."""

    name: str
    presence: Presence = Presence.ALWAYS
    types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownClass:
    """A DeviceClass of a driver's installation.

    Attributes
    ----------
    device_type
        The type of its devices, for rules that tell them apart.
    """

    name: str
    device_type: str = ""


@dataclass(frozen=True, slots=True)
class ParameterKind:
    """One kind of opaque parameters.

    Attributes
    ----------
    kind
        Empty for parameters that have neither ``apiVersion`` nor ``kind``.
    api_version
        Such as ``resource.nvidia.com/v1beta1``.
    shape
        What may stand there besides the two.
    device_types
        Types of devices it is for; empty: all.
    """

    kind: str
    api_version: str
    shape: Fields
    device_types: frozenset[str] = frozenset()
