"""What a tried server shows, and whether its choice works; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from dra_spawner.user_server.shown_devices import (
    InvalidAnswer,
    NetworkInterface,
    Share,
    ShownDevice,
    ShownDevices,
    read_answer,
    text,
)

_NVIDIA: Final = "gpu.nvidia.com"
_MAX_LINES: Final = 64
_TEXTS: Final = ("driver", "pool", "name", "claim", "request", "device_class", "product")

PHASES: Final[Mapping[str, str]] = {
    "hub": "until the hub has taken the order",
    "scheduling": "until a node is found",
    "container": "until the container runs",
    "server": "until the hub reaches the server",
    "kernel": "until a kernel runs in it",
    "cell": "until the cell has looked",
    "removal": "until the server is gone",
}
"""Phases of a try in their order, and what ends each. Without the cluster's events, two are in the third."""


class ChoiceState(StrEnum):
    """How a try has ended."""

    WORKS = "works"
    FAILS = "fails"
    #: The server has started, and it is not known what is inside.
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Tried:
    """One choice that was tried.

    Attributes
    ----------
    sentence
        What was found, or what is wrong.
    phases
        Seconds by name, of the phases that were reached.
    said
        The last line of the start's progress.
    """

    choice: str
    state: ChoiceState
    sentence: str
    phases: Mapping[str, float] = field(default_factory=dict)
    devices: tuple[ShownDevice, ...] = ()
    place: str = ""
    warm: bool | None = None
    gpus: tuple[str, ...] = ()
    said: str = ""

    @property
    def works(self) -> bool:
        """Whether the choice works."""
        return self.state is ChoiceState.WORKS


def shown_devices(found: Mapping[str, Any]) -> ShownDevices:
    """The devices in the cell's answer; not known, with a sentence, where it has none."""
    whoami = found.get("whoami")
    whoami = whoami if isinstance(whoami, Mapping) else {}
    answer = whoami.get("answer")
    if isinstance(answer, Mapping) and whoami.get("by") == "whoami":
        return _printed_by_whoami(answer)
    if answer is None:
        return ShownDevices(known=False, sentence=text(whoami.get("problem")) or "the server does not say it")
    try:
        return read_answer(answer)
    except InvalidAnswer as error:
        return ShownDevices(known=False, sentence=f"the answer is not understood: {error}")


def judged(choice: str, found: Mapping[str, Any], wants_devices: bool | None) -> Tried:
    """Whether a choice works, by what its server has inside.

    Parameters
    ----------
    found
        The answer of `inside_cell`; anything, as it comes from a server.
    wants_devices
        Whether the choice asks for devices; None if that is not known.
    """
    shown, smi = shown_devices(found), found.get("nvidia_smi")
    smi = smi if isinstance(smi, Mapping) else {}
    gpus = tuple(text(each) for key in ("gpus", "mig") for each in _items(smi.get(key)) if text(each))
    state, sentence = ChoiceState.WORKS, _described(shown)
    if not shown.known:
        state, sentence = ChoiceState.UNSEEN, f"It starts, and its devices are not known: {shown.sentence}"
    elif wrong := _wrong(shown, smi, gpus, wants_devices):
        state, sentence = ChoiceState.FAILS, wrong
    return Tried(choice, state, sentence, {}, shown.devices, shown.place, shown.warm, gpus)


def _printed_by_whoami(answer: Mapping[str, Any]) -> ShownDevices:
    """The JSON of `dra-spawner whoami`, which has read the hub's answer, and looked into the server itself."""
    warm, devices = answer.get("warm"), [each for each in _items(answer.get("devices")) if isinstance(each, Mapping)]
    return ShownDevices(
        devices=tuple(map(_printed_device, devices)),
        known=answer.get("known") is True,
        sentence=text(answer.get("sentence")) or ("" if answer.get("known") is True else "whoami does not say it"),
        node=text(answer.get("node")),
        warm=warm if isinstance(warm, bool) else None,
        place=text(answer.get("place")),
    )


def _printed_device(found: Mapping[str, Any]) -> ShownDevice:
    network = found.get("network")
    present = network.get("present") if isinstance(network, Mapping) else None
    driver, pool, name, claim, request, device_class, product = (text(found.get(key)) for key in _TEXTS)
    return ShownDevice(
        driver,
        pool,
        name,
        claim,
        request,
        device_class,
        product,
        share=tuple(
            Share(*(text(each.get(key)) for key in ("capacity", "amount", "total", "text")))
            for each in _items(found.get("share"))
            if isinstance(each, Mapping)
        ),
        network=NetworkInterface(text(network.get("interface")), present=present if isinstance(present, bool) else None)
        if isinstance(network, Mapping)
        else None,
        health=text(found.get("health")) or "unknown",
        health_sentence=text(found.get("health_sentence")),
    )


def _wrong(shown: ShownDevices, smi: Mapping[str, Any], gpus: tuple[str, ...], wants_devices: bool | None) -> str:
    """What is wrong with the devices inside; empty if nothing is."""
    if wants_devices and not shown.devices:
        return "The server has no device, although the choice asks for one."
    for each in shown.devices:
        if each.is_faulty:
            return f"{each.name} is not healthy: {each.health_sentence or each.health}"
        if each.network is not None and each.network.present is False:
            return f"The network interface {each.network.interface} is not in the server."
    if smi and not gpus and any(each.driver == _NVIDIA for each in shown.devices):
        because = text(smi.get("problem"))
        return "nvidia-smi sees no GPU in the server" + (f": {because}" if because else ".")
    return ""


def _described(shown: ShownDevices) -> str:
    """The devices in words, with their node."""
    if not shown.devices:
        return "It has no device, as it asks for none."
    named = []
    for each in shown.devices:
        name = f"{each.name} ({each.product})" if each.product else each.name
        share = ", ".join(f"{part.text} {part.capacity}" for part in each.share)
        named.append(f"{share} of {name}" if share else name)
    node = f" on {shown.node}" if shown.node else ""
    return f"{'; '.join(named)}{node}{', warm' if shown.warm else ''}"


def _items(found: object) -> list[Any]:
    return found[:_MAX_LINES] if isinstance(found, list) else []
