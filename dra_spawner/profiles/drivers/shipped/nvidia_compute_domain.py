"""NVIDIA compute domains: channels over NVLink between nodes, which a controller of the driver hands out."""

from __future__ import annotations

from collections.abc import Iterator

from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.common_rules import COMMON_RULES
from dra_spawner.profiles.drivers.driver import Driver, RuleInput
from dra_spawner.profiles.drivers.driver_rules import COMPUTE_DOMAIN_CHANNEL
from dra_spawner.profiles.drivers.parameters import Field, Fields
from dra_spawner.profiles.drivers.vocabulary import KnownClass, ParameterKind, PublishedAttribute, ValueKind
from dra_spawner.profiles.findings import Finding
from dra_spawner.profiles.syntax.rules import one_of, text

_API_VERSION = "resource.nvidia.com/v1beta1"
_DOMAIN = Field(text("the uid of a ComputeDomain", r".+", 253), required=True)


def channels_come_from_a_template(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """Only the driver's controller knows the domain that a channel's parameters must name."""
    for claim in situation.claims:
        for request in driver.requests(claim, situation.published):
            message = (
                "A channel belongs to a ComputeDomain, whose controller makes a ResourceClaimTemplate for it; "
                "name that one: {template: …}."
            )
            yield situation.finding(COMPUTE_DOMAIN_CHANNEL, request.path, message)


NVIDIA_COMPUTE_DOMAIN = Driver(
    name="compute-domain.nvidia.com",
    title="NVIDIA compute domains",
    prepared_for=PreparedFor.CLAIM,
    classes=(
        KnownClass("compute-domain-default-channel.nvidia.com", "channel"),
        KnownClass("compute-domain-daemon.nvidia.com", "daemon"),
    ),
    attributes=(
        PublishedAttribute("type", values=("channel", "daemon")),
        PublishedAttribute("id", ValueKind.INT),
    ),
    parameter_kinds=(
        ParameterKind(
            "ComputeDomainChannelConfig",
            _API_VERSION,
            Fields({"domainID": _DOMAIN, "allocationMode": one_of("Single, All or none", "Single", "All", "")}),
            frozenset({"channel"}),
        ),
        ParameterKind("ComputeDomainDaemonConfig", _API_VERSION, Fields({"domainID": _DOMAIN}), frozenset({"daemon"})),
    ),
    rules=(*COMMON_RULES, channels_come_from_a_template),
)
