"""The description of a DRA driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.compiler.claims import DeviceClaim
from dra_spawner.profiles.drivers.asked import (
    AskedClaim,
    AskedConfig,
    AskedRequest,
    asked_claim,
    asked_claims,
    fixed_claims,
)
from dra_spawner.profiles.drivers.parameters import parameter_problems
from dra_spawner.profiles.drivers.published import Published, published
from dra_spawner.profiles.drivers.vocabulary import (
    WEAKEST_FIRST,
    KnownClass,
    ParameterKind,
    PublishedAttribute,
    PublishedCapacity,
    ShareEnforcement,
)
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding, Level, LintRule
from dra_spawner.profiles.syntax.problems import Problem, shown


@dataclass(frozen=True, slots=True)
class RuleInput:
    """The input of a driver's rules: a choice and the cluster.

    Attributes
    ----------
    choice
        The choice with its settings, for rules about the pod.
    claims
        Its claims that have a spec.
    published
        Facts of the cluster.
    fixed_claims
        Claims that others made, once for all servers with the choice.
    """

    choice: Choice
    claims: tuple[AskedClaim, ...]
    published: Published
    fixed_claims: tuple[AskedClaim, ...] = ()

    @classmethod
    def of(cls, choice: Choice, facts: ClusterFacts | None) -> RuleInput:
        """The input for a choice."""
        fixed = fixed_claims(choice, facts.claims) if facts is not None else ()
        return cls(choice, asked_claims(choice), published(facts), fixed)

    @property
    def facts(self) -> ClusterFacts:
        return self.published.facts

    def finding(self, rule: LintRule, where: str, message: str, level: Level | None = None) -> Finding:
        """A finding of a rule; of its first level if none is given.

        Parameters
        ----------
        where
            Below ``device_claims`` if it begins with a dot, else the path of a setting such as ``tolerations``.
        """
        path = self.choice.path_of(where) if where.startswith(".") else self.choice.path_of_setting(where)
        return rule.finding(path, message, level)


DriverRule = Callable[["Driver", RuleInput], Iterator[Finding]]
#: Finds the enforcement of a request's share.
EnforcementRule = Callable[["Driver", AskedClaim, AskedRequest, Published], ShareEnforcement | None]


def _no_shares(driver: Driver, claim: AskedClaim, request: AskedRequest, cluster: Published) -> ShareEnforcement | None:
    return None


@dataclass(frozen=True, slots=True)
class Driver:
    """One DRA driver.

    Attributes
    ----------
    name
        As in ``spec.driver`` of its ResourceSlices.
    title
        Name in messages.
    classes
        DeviceClasses of its installation; clusters may have others.
    attributes, capacities
        Known attributes and capacities of its devices; a device may have more.
    parameter_kinds
        Kinds of its opaque parameters; empty if it reads none.
    node_tolerations
        Tolerations of the usual taints of nodes with its devices.
    visible_devices
        Environment variables that give a container devices without a claim.
    equal_sharers
        Whether all claims on one device must carry equal parameters.
    prepared_for
        What a prepared claim serves; None if that is not known.
    serves_several
        Whether all pods and containers that the driver knows at the preparation get the devices, though it prepares for
        these alone.
    share
        Function that finds the enforcement of a request's share; it returns ``None`` for whole devices.
    rules
        Functions that find what else is wrong in a choice, beyond the parameters.
    own_rules
        Rules that only this driver's functions use; ``--ignore`` and ``ignored_profile_rules`` take their names.
    """

    name: str
    title: str
    classes: tuple[KnownClass, ...] = ()
    attributes: tuple[PublishedAttribute, ...] = ()
    capacities: tuple[PublishedCapacity, ...] = ()
    parameter_kinds: tuple[ParameterKind, ...] = ()
    node_tolerations: tuple[JsonObject, ...] = ()
    visible_devices: frozenset[str] = frozenset()
    equal_sharers: bool = False
    prepared_for: PreparedFor | None = None
    serves_several: bool = False
    share: EnforcementRule = _no_shares
    rules: tuple[DriverRule, ...] = ()
    own_rules: tuple[LintRule, ...] = ()
    class_types: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_types", {each.name: each.device_type for each in self.classes})

    def findings(self, choice: Choice, facts: ClusterFacts | None) -> Iterator[Finding]:
        """Findings about a choice: values that the driver would refuse, or handle otherwise than meant."""
        yield from self.findings_of(RuleInput.of(choice, facts))

    def findings_of(self, situation: RuleInput) -> Iterator[Finding]:
        for rule in self.rules:
            yield from rule(self, situation)

    def enforcement(self, claim: DeviceClaim, facts: ClusterFacts | None) -> ShareEnforcement | None:
        """The weakest enforcement of the shares of a claim's requests for this driver.

        Returns
        -------
        ShareEnforcement or None
            ``None`` where all devices of this driver are the claim's alone.
        """
        cluster = published(facts)
        asked = asked_claim(claim)
        shares = (self.share(self, asked, request, cluster) for request in self.requests(asked, cluster))
        found = [share for share in shares if share is not None]
        return min(found, key=lambda share: WEAKEST_FIRST.index(share.enforcement), default=None)

    def requests(self, claim: AskedClaim, cluster: Published) -> Iterator[AskedRequest]:
        """The requests of a claim that are for this driver."""
        return (request for request in claim.requests if self.serves(request.device_class, cluster))

    def serves(self, device_class: str, cluster: Published) -> bool:
        driver = cluster.driver_of_class(device_class)
        return driver == self.name if driver else device_class in self.class_types

    def device_type(self, request: AskedRequest, cluster: Published) -> str:
        """Type of the devices of a request; empty if it is not known."""
        return cluster.type_of(request) or self.class_types.get(request.device_class, "")

    def parameters_of(self, claim: AskedClaim, request: AskedRequest, cluster: Published) -> Iterator[AskedConfig]:
        """The parameters that are for a request, those of its class first: the last one counts."""
        device_class = cluster.device_class(request.device_class)
        for config in device_class.config if device_class is not None else ():
            opaque = config.content.get("opaque")
            if not isinstance(opaque, Mapping) or opaque.get("driver") != self.name:
                continue
            if isinstance(opaque.get("parameters"), Mapping):
                where = f"{request.path}.device_class"
                yield AskedConfig(self.name, opaque["parameters"], (), where, where)
        yield from claim.configs_of(request, self.name)

    def kind_of(self, parameters: Mapping[str, Any]) -> ParameterKind | None:
        """The kind of opaque parameters; ``None`` if the driver does not know it."""
        for each in self.parameter_kinds:
            if not each.kind or (
                each.kind == parameters.get("kind") and each.api_version == parameters.get("apiVersion")
            ):
                return each
        return None

    def problems_of_parameters(self, parameters: Mapping[str, Any], path: str) -> Iterator[Problem]:
        """Problems of opaque parameters that the driver would refuse."""
        kind = self.kind_of(parameters)
        if kind is not None:
            own = {} if not kind.kind else {"apiVersion", "kind"}
            rest = {name: value for name, value in parameters.items() if name not in own}
            yield from parameter_problems(kind.shape, rest, path)
        elif self.parameter_kinds:
            known = " or ".join(f"{each.kind} of {each.api_version}" for each in self.parameter_kinds)
            found = " of ".join(str(parameters[key]) for key in ("kind", "apiVersion") if parameters.get(key))
            yield Problem(path, shown(found) if found else "", f"{known} (kind and apiVersion)")
