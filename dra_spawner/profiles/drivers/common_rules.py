"""Rules for every driver, based on its description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dra_spawner.dra.cel.errors import CelCompileError
from dra_spawner.dra.cel.syntax.references import Collection, referenced_attributes
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers.asked import AskedClaim, AskedConfig, AskedRequest
from dra_spawner.profiles.drivers.driver import Driver, DriverRule, RuleInput
from dra_spawner.profiles.drivers.driver_rules import (
    BYPASSED_SHARE,
    DRIVER_PARAMETERS,
    DROPPED_ATTRIBUTE,
    NODE_TOLERATION,
    OTHER_DEVICE_TYPE,
    PREPARED_FOR_ONE,
    SHARE_NOT_ENFORCED,
    UNREAD_PARAMETERS,
)
from dra_spawner.profiles.drivers.pod_settings import privileged_path, tolerates, visible_device_path
from dra_spawner.profiles.drivers.vocabulary import Enforcement, Presence
from dra_spawner.profiles.findings import Finding, Level


def parameters_are_understood(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """Opaque parameters are as the driver decodes them."""
    if not driver.parameter_kinds:
        return
    for _, config in _configs(driver, situation):
        for problem in driver.problems_of_parameters(config.parameters, config.parameters_path):
            found = f"found {problem.found}" if problem.found else "nothing found"
            message = f"{driver.title} would refuse this when a server starts: {found}; allowed: {problem.allowed}."
            yield situation.finding(DRIVER_PARAMETERS, problem.path, message)


def parameters_reach_a_request(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """Parameters are for at least one request of their driver; the API server does not look."""
    cluster = situation.published
    for claim, config in _configs(driver, situation):
        drivers = {
            cluster.driver_of_class(each.device_class) for each in claim.requests if config.covers(each.reference)
        }
        if drivers and not drivers & {"", driver.name}:
            message = (
                f"Parameters for {driver.name}, but none of the requests they are for gets a device of that driver."
            )
            yield situation.finding(UNREAD_PARAMETERS, config.path, message)


def kind_fits_the_devices(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """Parameters that name requests are of a kind for the devices that these get."""
    for claim, config in _configs(driver, situation):
        kind = driver.kind_of(config.parameters)
        if kind is None or not kind.device_types or not config.requests:
            continue  # without requests, they are for those devices alone that they fit
        for request in driver.requests(claim, situation.published):
            device_type = driver.device_type(request, situation.published)
            if config.covers(request.reference) and device_type and device_type not in kind.device_types:
                fitting = [each.kind for each in driver.parameter_kinds if device_type in each.device_types]
                remedy = f"; those need {' or '.join(fitting)}" if fitting else ""
                message = (
                    f"{kind.kind} is not for devices of type {device_type}, which {request.reference} gets{remedy}."
                )
                yield situation.finding(OTHER_DEVICE_TYPE, config.path, message)


def nodes_are_tolerated(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """The pod tolerates the taints that nodes with these devices have."""
    requests = [request for claim in situation.claims for request in driver.requests(claim, situation.published)]
    if not requests:
        return
    nodes = situation.published.nodes_with(driver.name)
    tolerations = situation.choice.settings.get("tolerations")
    for toleration in driver.node_tolerations:
        key, effect = toleration["key"], toleration["effect"]
        remedy = f"set tolerations: [{{key: {key}, operator: Exists, effect: {effect}}}]"
        if nodes is None:
            if not tolerates(tolerations, {"key": key, "effect": effect}):
                message = f"Nodes with {driver.title} often have the taint {key}:{effect}. If they do here, {remedy}."
                yield situation.finding(NODE_TOLERATION, "tolerations", message, Level.INFO)
            continue
        closed = sum(not _is_open(node, key, effect, tolerations) for node in nodes)
        if closed:
            which = "All" if closed == len(nodes) else f"{closed} of {len(nodes)}"
            message = f"{which} nodes with {driver.title} have the taint {key}:{effect}; {remedy}."
            yield situation.finding(NODE_TOLERATION, "tolerations", message)


def _is_open(node: Mapping[str, Any], key: str, effect: str, tolerations: object) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    usual = (each for each in taints if each.get("key") == key and each.get("effect") == effect)
    return all(tolerates(tolerations, {"value": "", **each}) for each in usual)


def shares_are_not_bypassed(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """A server with a share does not see the whole device anyway."""
    settings = situation.choice.settings
    privileged, visible = privileged_path(settings), visible_device_path(settings, driver.visible_devices)
    if not (privileged or visible) or not any(True for _ in _shares(driver, situation)):
        return
    if privileged:
        message = f"A privileged container gets at every device of its node, past the share of {driver.title}."
        yield situation.finding(BYPASSED_SHARE, privileged, message)
    if visible:
        name = visible.rpartition(".")[2]
        message = f"{name} gives the container devices that it did not claim, past the share of {driver.title}."
        yield situation.finding(BYPASSED_SHARE, visible, message)


def shares_are_enforced(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """It is said where nothing enforces a share."""
    for request, sentence in _shares(driver, situation, Enforcement.NONE):
        yield situation.finding(SHARE_NOT_ENFORCED, request.path, sentence)


def attributes_still_exist(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """CEL reads no attribute that the driver does not publish any more."""
    dropped = {each.name for each in driver.attributes if each.presence is Presence.DROPPED}
    if not dropped or situation.facts.slices is not None:
        return  # what is published is known then, and another rule compares with that
    for claim in situation.claims:
        for request in driver.requests(claim, situation.published):
            if not any(name in expression for expression in request.expressions for name in dropped):
                continue  # much cheaper than to parse them all
            for name in sorted(dropped & set(_read_attributes(driver.name, request))):
                message = f"{driver.title} does not publish {name} any more; CEL that reads it fails on every node."
                yield situation.finding(DROPPED_ATTRIBUTE, f"{request.path}.where", message)


def _read_attributes(domain: str, request: AskedRequest) -> Iterator[str]:
    for expression in request.expressions:
        try:
            references = referenced_attributes(expression)
        except CelCompileError:
            continue
        for each in references:
            if each.collection is Collection.ATTRIBUTES and each.domain in (domain, None) and not each.guarded:
                yield each.name


def _configs(driver: Driver, situation: RuleInput) -> Iterator[tuple[AskedClaim, AskedConfig]]:
    for claim in situation.claims:
        for config in claim.configs:
            if config.driver == driver.name:
                yield claim, config


def _shares(
    driver: Driver, situation: RuleInput, only: Enforcement | None = None
) -> Iterator[tuple[AskedRequest, str]]:
    for claim in situation.claims:
        for request in driver.requests(claim, situation.published):
            share = driver.share(driver, claim, request, situation.published)
            if share is not None and only in (None, share.enforcement):
                yield request, share.sentence


def claims_have_one_user(driver: Driver, situation: RuleInput) -> Iterator[Finding]:
    """No second pod or container is to get devices that the driver prepares for the first one alone."""
    prepared = situation.facts.drivers_prepare_for.get(driver.name, driver.prepared_for)
    if prepared in (None, PreparedFor.CLAIM) or driver.serves_several:
        return
    for claim in situation.claims:
        if not any(True for _ in driver.requests(claim, situation.published)):
            continue
        if claim.shared:
            message = (
                f"{driver.title}: the driver prepares a claim for one pod. Of the servers that share this one, all but "
                "the first start without the device, or none starts. Remove shared, so that each server has its own."
            )
            yield situation.finding(PREPARED_FOR_ONE, claim.path, message)
        elif prepared is PreparedFor.CONTAINER and claim.containers > 1:
            message = (
                f"{driver.title}: the driver prepares a claim for one container, and {claim.containers} use this one: "
                "the others never start. Give each container a claim of its own."
            )
            yield situation.finding(PREPARED_FOR_ONE, claim.path, message)
    for claim in situation.fixed_claims:
        if any(True for _ in driver.requests(claim, situation.published)):
            message = (
                f"{driver.title}: the driver prepares a claim for one pod, and all servers with this choice name claim "
                f"{claim.name}: while one has it, the others start without the device, or do not start. Name a "
                "template, so that each server has a claim of its own."
            )
            yield situation.finding(PREPARED_FOR_ONE, claim.path, message, Level.WARNING)


COMMON_RULES: tuple[DriverRule, ...] = (
    parameters_are_understood,
    parameters_reach_a_request,
    kind_fits_the_devices,
    nodes_are_tolerated,
    shares_are_not_bypassed,
    shares_are_enforced,
    attributes_still_exist,
    claims_have_one_user,
)
