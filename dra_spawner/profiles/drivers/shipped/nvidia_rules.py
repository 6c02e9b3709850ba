"""What can go wrong with the ways of sharing an NVIDIA GPU, and how firm each is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.profiles.drivers.asked import AskedClaim, AskedConfig, AskedRequest
from dra_spawner.profiles.drivers.driver import Driver, DriverRule, RuleInput
from dra_spawner.profiles.drivers.driver_rules import (
    DRIVER_GATE,
    MPS_BESIDE_OTHERS,
    MPS_NO_LIMIT,
    MPS_PER_PROGRAM,
    MPS_SINGLE_USER,
    TIME_SLICING_ON_MIG,
    VFIO_BESIDE_WEBHOOK,
)
from dra_spawner.profiles.drivers.pod_settings import may_run_as_another_than_root
from dra_spawner.profiles.drivers.published import Published
from dra_spawner.profiles.drivers.shares import is_shared, takes_a_part
from dra_spawner.profiles.drivers.vocabulary import Enforcement, ShareEnforcement
from dra_spawner.profiles.findings import Finding, Level

_TIME_SLICING, _MPS = "TimeSlicing", "MPS"
#: Strategy -> the driver's feature gate, off by default.
_GATES = {_TIME_SLICING: "TimeSlicingSettings", _MPS: "MPSSupport"}
#: Name of the webhook in the driver's ValidatingWebhookConfiguration.
_WEBHOOK = "gpu.nvidia.com"

_MIG_SENTENCE = "This slice is cut out of the GPU in hardware: its memory and computing units are yours alone."
#: By what MPS limits; its limits count for each program, and an error of one program on the device ends the others.
_MPS_SENTENCES: Mapping[tuple[bool, bool], str] = {
    (memory, time): (
        f"{what}; two programs may take twice as much, and one that crashes on the GPU can end the others."
        if what
        else "Programs run on this GPU at the same time; nothing limits how much of it each takes, and one that "
        "crashes on the GPU can end the others."
    )
    for memory, time, what in (
        (True, True, "Each program gets a limited part of the GPU's memory and of its computing time"),
        (True, False, "Each program gets a limited part of the GPU's memory, and computing time has no limit"),
        (False, True, "Each program gets a limited part of the GPU's computing time, and memory has no limit"),
        (False, False, ""),
    )
}
#: Least and largest percentage of computing units that limit a program; the daemon answers 0 with 100.
_PERCENTAGES = range(1, 100)
_TURNS_SENTENCE = "Containers with this GPU take turns on it; its memory is not divided between them."
_MEMORY_SENTENCE = "The memory share is not enforced: other users of this GPU can use more than theirs."
_SHARES_SENTENCE = "Others use this GPU too, and nothing limits how much of it each takes."


def nvidia_share(
    driver: Driver, claim: AskedClaim, request: AskedRequest, cluster: Published
) -> ShareEnforcement | None:
    """How firm the share is: MIG in hardware, MPS by its daemon, everything else not at all."""
    device_type = driver.device_type(request, cluster)
    if takes_a_part(driver, request, cluster):
        memory = any(name == "memory" for name, _ in request.capacity)
        return ShareEnforcement(Enforcement.NONE, _MEMORY_SENTENCE if memory else _SHARES_SENTENCE)
    sharing = _sharing(list(driver.parameters_of(claim, request, cluster)))
    if sharing.get("strategy") == _MPS:
        limits = _mps_settings(sharing)
        memory, time = _limits_memory(driver, limits, request, cluster), _limits_time(limits)
        enforcement = Enforcement.DAEMON if memory or time else Enforcement.NONE
        return ShareEnforcement(enforcement, _MPS_SENTENCES[memory, time])
    if device_type == "mig":
        return ShareEnforcement(Enforcement.HARDWARE, _MIG_SENTENCE)
    if sharing.get("strategy") == _TIME_SLICING and claim.containers > 1:
        return ShareEnforcement(Enforcement.NONE, _TURNS_SENTENCE)
    return None


def _sharing(configs: list[AskedConfig]) -> Mapping[str, Any]:
    """``sharing`` of the parameters that count, the last ones."""
    sharing = configs[-1].parameters.get("sharing") if configs else None
    return sharing if isinstance(sharing, Mapping) else {}


def _mps_settings(sharing: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = sharing.get("mpsConfig")
    return settings if isinstance(settings, Mapping) else {}


def _limits_time(settings: Mapping[str, Any]) -> bool:
    return settings.get("defaultActiveThreadPercentage") in _PERCENTAGES


def _limits_memory(driver: Driver, settings: Mapping[str, Any], request: AskedRequest, cluster: Published) -> bool:
    """Whether each device that the request can get has more memory than a program may take.

    A limit for all devices counts, or one for each device of the request. Where no size is known, a limit is believed.
    """
    per_device = settings.get("defaultPerDevicePinnedMemoryLimit")
    named = list(per_device.values()) if isinstance(per_device, Mapping) else []
    for_all = settings.get("defaultPinnedDeviceMemoryLimit")
    limits = [for_all] if for_all is not None else named if len(named) >= (request.count or len(named) + 1) else []
    sizes = [
        device.description.capacity["memory"].value
        for device in cluster.candidates(request, driver.name) or ()
        if "memory" in device.description.capacity
    ]
    return bool(limits) and all(
        quantity is not None and all(quantity < size for size in sizes) for quantity in map(_quantity, limits)
    )


def _quantity(value: object) -> Quantity | None:
    try:
        return Quantity.from_json(value)
    except QuantityError:
        return None


def _shared_by(
    driver: Driver, situation: RuleInput, strategy: str
) -> Iterator[tuple[AskedClaim, AskedRequest, AskedConfig]]:
    """Requests whose parameters, of the claim or of the class, choose a strategy."""
    for claim in situation.claims:
        for request in driver.requests(claim, situation.published):
            for config in driver.parameters_of(claim, request, situation.published):
                if _sharing([config]).get("strategy") == strategy:
                    yield claim, request, config


def mps_has_the_gpu_alone(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """MPS goes with no other way of sharing a GPU."""
    dynamic = _has_dynamic_mig(driver, situation.published)
    sliced = {
        (claim.name, request.reference)
        for claim, request, config in _shared_by(driver, situation, _TIME_SLICING)
        if config.requests or len(claim.requests) == 1
    }
    for claim, request, config in _shared_by(driver, situation, _MPS):
        if is_shared(driver, request, situation.published):
            message = f"{request.reference} gets a GPU that several claims share; the driver refuses MPS there."
        elif dynamic:
            message = "The driver cuts MIG slices on demand in this cluster; it has no MPS then."
        elif (claim.name, request.reference) in sliced:
            message = f"{request.reference} has parameters for TimeSlicing, too; the two do not go together on a GPU."
        else:
            continue
        yield situation.finding(MPS_BESIDE_OTHERS, config.parameters_path, message)


def _has_dynamic_mig(driver: Driver, cluster: Published) -> bool:
    """Whether MIG devices are published that draw on the counters of their GPU."""
    own = (device for device in cluster.devices or () if device.id.driver == driver.name and device.consumes_counters)
    return "mig" in cluster.types(own)


def mps_serves_users(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """Without ``multiUser`` MPS serves programs of one user id at a time."""
    if not may_run_as_another_than_root(situation.choice.settings):
        return
    for _, _, config in _shared_by(driver, situation, _MPS):
        if _mps_settings(_sharing([config])).get("multiUser") is not True:
            message = (
                "Without multiUser MPS serves the programs of one user id at a time, and those of others wait: set "
                "mpsConfig.multiUser to true if containers run as different users."
            )
            yield situation.finding(MPS_SINGLE_USER, f"{config.parameters_path}.sharing.mpsConfig", message)


def mps_limits_limit(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """Settings of MPS that look like limits and are none; and what its limits do not do."""
    for _, request, config in _shared_by(driver, situation, _MPS):
        settings = _mps_settings(_sharing([config]))
        path = f"{config.parameters_path}.sharing.mpsConfig"
        percentage = settings.get("defaultActiveThreadPercentage")
        if percentage == 0:
            message = "0 is no limit: MPS takes it as 100."
            yield situation.finding(MPS_NO_LIMIT, f"{path}.defaultActiveThreadPercentage", message)
        elif not _limits_time(settings):
            message = (
                "Without a percentage below 100 a program that fills the GPU slows small ones to about a tenth of "
                "their speed (measured on an H100; taking turns leaves them three quarters)."
            )
            yield situation.finding(MPS_NO_LIMIT, path, message, Level.INFO)
        for name in ("defaultPinnedDeviceMemoryLimit", "defaultPerDevicePinnedMemoryLimit"):
            value = settings.get(name)
            if value is None or _limits_memory(driver, {name: value}, request, situation.published):
                continue
            message = (
                "It names fewer devices than the request asks for, so one has no limit."
                if isinstance(value, Mapping) and len(value) < (request.count or len(value) + 1)
                else "It limits nothing: a device has no more memory than that."
            )
            yield situation.finding(MPS_NO_LIMIT, f"{path}.{name}", message)
        message = (
            "Limits of MPS count for each program, so a server with two kernels may take twice as much; and a program "
            "that fails on the GPU ends the other programs there."
        )
        yield situation.finding(MPS_PER_PROGRAM, path, message)


def time_slicing_does_something(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """TimeSlicing on a MIG device is accepted and does nothing."""
    for claim in situation.claims:
        for config in claim.configs:
            if config.driver != driver.name or config.parameters.get("kind") != "MigDeviceConfig":
                continue
            if _sharing([config]).get("strategy") == _TIME_SLICING:
                message = "TimeSlicing has no effect on MIG devices."
                yield situation.finding(TIME_SLICING_ON_MIG, f"{config.parameters_path}.sharing.strategy", message)


def passthrough_passes_the_webhook(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """The driver's webhook does not know VfioDeviceConfig."""
    if _WEBHOOK not in (situation.facts.webhooks or ()):
        return
    for claim in situation.claims:
        for config in claim.configs:
            if config.driver == driver.name and config.parameters.get("kind") == "VfioDeviceConfig":
                message = "The driver's webhook runs in this cluster, and its releases so far refuse VfioDeviceConfig."
                yield situation.finding(VFIO_BESIDE_WEBHOOK, config.parameters_path, message)


def gates_are_named(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """It is said which of the driver's own feature gates a choice needs; a cluster does not show them."""
    for strategy, gate in _GATES.items():
        for _, _, config in _shared_by(driver, situation, strategy):
            message = f"{strategy} needs the driver's feature gate {gate}, which is off unless it was switched on."
            yield situation.finding(DRIVER_GATE, f"{config.parameters_path}.sharing.strategy", message)


NVIDIA_RULES: tuple[DriverRule, ...] = (
    mps_has_the_gpu_alone,
    mps_serves_users,
    mps_limits_limit,
    time_slicing_does_something,
    passthrough_passes_the_webhook,
    gates_are_named,
)
