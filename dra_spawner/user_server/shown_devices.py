"""Devices as a server's user sees them, read from what others write: each text is printable, and of one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

#: The only version of the hub's answer that is understood.
_VERSION: Final = 1
_LONGEST_TEXT: Final = 300
_MAX_ITEMS: Final = 256
#: A year and a day: longer times make no sense.
_LONGEST_SECONDS: Final = 366 * 86_400

_UNKNOWN: Final = "unknown"
#: States of a device's health that are no news.
_NO_NEWS: Final = ("healthy", _UNKNOWN)


class InvalidAnswer(ValueError):
    """Raised for an answer that is not understood; the message ends a sentence."""


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """A network interface of this server.

    Attributes
    ----------
    present
        Whether the server has it; None if that was not looked at, or cannot be seen.
    """

    interface: str = ""
    hardware_address: str = ""
    addresses: tuple[str, ...] = ()
    present: bool | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Amount of one capacity of a device.

    Attributes
    ----------
    amount, total
        Amounts of the server and of the device, as Kubernetes writes them.
    text
        Both in words, such as ``10 GiB of 40 GiB``.
    """

    capacity: str
    amount: str
    total: str
    text: str

    @property
    def words(self) -> str:
        """The share with the name of its capacity, such as ``10 GiB of 40 GiB memory``."""
        name = self.capacity.rpartition("/")[2]
        return f"{self.text} {'VLANs' if name == 'vlans' else name}"


@dataclass(frozen=True, slots=True)
class ShownDevice:
    """A device, or a share of one.

    Attributes
    ----------
    claim, request
        Names in the profile; empty if they are not known.
    share
        Amounts; empty if none is known.
    enforced_by, enforcement
        What enforces the share, as a word and as a sentence.
    health, health_sentence
        State of the device, as a word and as a sentence.
    attributes
        Facts that the driver wrote into the server.
    """

    driver: str
    pool: str
    name: str
    claim: str = ""
    request: str = ""
    device_class: str = ""
    product: str = ""
    share: tuple[Share, ...] = ()
    enforced_by: str = _UNKNOWN
    enforcement: str = ""
    network: NetworkInterface | None = None
    health: str = _UNKNOWN
    health_sentence: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        """The device's identity in the cluster."""
        return self.driver, self.pool, self.name

    @property
    def is_faulty(self) -> bool:
        """Whether the user must be warned."""
        return self.health not in _NO_NEWS


@dataclass(frozen=True, slots=True)
class ShownDevices:
    """The devices of this server.

    Attributes
    ----------
    known
        Whether the devices are known; if not, `sentence` says why.
    sentence
        What is not known, and why; empty if nothing is missing.
    warm
        Whether the devices were ready before the server started; None if that is not known.
    place
        Devices and node in a few words.
    ends_in_seconds
        Seconds after which the hub stops this server, used or not; None without such a limit.
    ends_soon
        Whether the user must be warned of it.
    use
        Sentences about the user's own device-hours, and until when the server is kept.
    """

    devices: tuple[ShownDevice, ...] = ()
    known: bool = True
    sentence: str = ""
    node: str = ""
    warm: bool | None = None
    place: str = ""
    ends_in_seconds: int | None = None
    ends_soon: bool = False
    use: tuple[str, ...] = ()

    @property
    def end_text(self) -> str:
        """When the server ends, in words; empty without a limit."""
        if self.ends_in_seconds is None:
            return ""
        minutes = self.ends_in_seconds // 60
        left = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
        return f"This server ends in {left}.{' Save your work.' if self.ends_soon else ''}"

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        devices = [
            {
                **asdict(device),
                "share": [{**asdict(share), "words": share.words} for share in device.share],
                "faulty": device.is_faulty,
            }
            for device in self.devices
        ]
        return {**asdict(self), "devices": devices}


def read_answer(answer: object) -> ShownDevices:
    """Read the hub's answer.

    Raises
    ------
    InvalidAnswer
        If it is of another version, or no answer.
    """
    if not isinstance(answer, Mapping):
        raise InvalidAnswer("it is no object")
    if answer.get("version") != _VERSION:
        raise InvalidAnswer("it is of another version of dra-spawner")
    devices = answer.get("devices")
    if not isinstance(devices, list):
        raise InvalidAnswer("it has no list of devices")
    warm = answer.get("warm")
    return ShownDevices(
        devices=tuple(_device(each) for each in devices[:_MAX_ITEMS] if isinstance(each, Mapping)),
        node=text(answer.get("node")),
        warm=warm if isinstance(warm, bool) else None,
        place=text(answer.get("place")),
        ends_in_seconds=_seconds(answer.get("ends_in_seconds")),
        ends_soon=answer.get("ends_soon") is True,
        use=tuple(filter(None, map(text, _list(answer.get("use"))))),
    )


def _seconds(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _LONGEST_SECONDS else None


def _device(found: Mapping[str, Any]) -> ShownDevice:
    enforcement, health, network = (_object(found.get(key)) for key in ("enforcement", "health", "network"))
    return ShownDevice(
        driver=text(found.get("driver")),
        pool=text(found.get("pool")),
        name=text(found.get("name")),
        claim=text(found.get("claim")),
        request=text(found.get("request")),
        device_class=text(found.get("device_class")),
        product=text(found.get("product")),
        share=tuple(_share(each) for each in _list(found.get("share")) if isinstance(each, Mapping)),
        enforced_by=text(enforcement.get("by")) or _UNKNOWN,
        enforcement=text(enforcement.get("sentence")),
        network=_network(network) if network else None,
        health=text(health.get("state")) or _UNKNOWN,
        health_sentence=text(health.get("sentence")),
    )


def _share(found: Mapping[str, Any]) -> Share:
    return Share(*(text(found.get(key)) for key in ("capacity", "amount", "total", "text")))


def _network(found: Mapping[str, Any]) -> NetworkInterface:
    addresses = (text(each) for each in _list(found.get("addresses")))
    return NetworkInterface(
        text(found.get("interface")), text(found.get("hardware_address")), tuple(each for each in addresses if each)
    )


def text(value: object) -> str:
    """Printable text of one line; empty if the value is no text."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in value[:_LONGEST_TEXT]).split())


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value[:_MAX_ITEMS] if isinstance(value, list) else []
