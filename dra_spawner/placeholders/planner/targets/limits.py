"""What placeholders may exist: an administrator's limits, and ResourceQuotas of their namespace.

Users' servers are never limited. What counts for a limit is in `limit_usage`; what follows is in `limited_targets` and
`quota_preemption`. A limit counts a shared device once and is fair between hubs; a quota counts requests, as the API
server does: amounts follow Kubernetes 1.36 (``pkg/quota/v1/evaluator/core``), a pod by its requests, a claim by the
devices of each class that it may get at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.counted_text import counted
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.allocation.requests import MAX_DEVICES_PER_CLAIM
from dra_spawner.dra.model.claims import AllocationMode, DeviceClass, RequestAlternative, ResourceClaim
from dra_spawner.dra.model.extended_resources import IMPLICIT_PREFIX
from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity, QuantityError
from dra_spawner.placeholders.planner.targets.choice_names import find_choice, profile_of
from dra_spawner.placeholders.planner.targets.hypothetical_pods import (
    claim_of_extended_resources,
    simulated_placeholder,
)
from dra_spawner.placeholders.planner.targets.placeholder_objects import requests_of
from dra_spawner.placeholders.planner.targets.shapes import Shape

#: Names of the bounds that are not about capacities.
PLACEHOLDERS: Final = "*"
DEVICES: Final = ""

#: Amounts of a quota's resources, in nano-units.
Amounts = Mapping[str, int]

_NAMESPACE: Final = "default"
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_REQUESTS: Final = "requests."
_HUGE_PAGES: Final = "hugepages-"
_TEMPLATES: Final = f"count/resourceclaimtemplates.{names.RESOURCE_GROUP}"
_CLAIMS: Final = f"count/resourceclaims.{names.RESOURCE_GROUP}"


@dataclass(frozen=True, slots=True)
class Limit:
    """The most placeholders, devices and capacities of devices; a bound that is not set does not count.

    Attributes
    ----------
    name
        For people: unique among all limits.
    placeholders
        The most placeholders; None for any number.
    devices
        The most devices that placeholders hold together; None for any number. A shared device counts once.
    capacity
        The most that placeholders hold of each capacity of devices, by the name that drivers publish.
    device_class
        Only devices that are requested by this DeviceClass count; empty for all.
    selector
        Only devices that this CEL expression selects count; empty for all.
    profiles
        Names of profiles (`gpu-slice`) and choices (`gpu-slice/memory=large`) whose placeholders count; empty for all.
    shapes
        Ids of the shapes of these profiles, once they are published; None for all shapes.
    all_hubs
        Whether placeholders of all hubs of the cluster count, and not only this service's.
    """

    name: str
    placeholders: int | None = None
    devices: int | None = None
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    device_class: str = ""
    selector: str = ""
    profiles: tuple[str, ...] = ()
    shapes: frozenset[str] | None = None
    all_hubs: bool = False

    def applies_to(self, shape: str) -> bool:
        """Whether placeholders of a shape count."""
        return self.shapes is None or shape in self.shapes

    @property
    def counts_devices(self) -> bool:
        """Whether it limits devices or capacities, and not only placeholders."""
        return self.devices is not None or bool(self.capacity)

    @property
    def bounds(self) -> dict[str, int]:
        """The most that is allowed, by bound; of capacities in nano-units."""
        numbers = {PLACEHOLDERS: self.placeholders, DEVICES: self.devices}
        found = {bound: most for bound, most in numbers.items() if most is not None}
        return found | {name: most.nano for name, most in self.capacity.items()}

    def __str__(self) -> str:
        parts = []
        if self.placeholders is not None:
            parts.append(counted(self.placeholders, "placeholder"))
        if self.devices is not None:
            parts.append(counted(self.devices, "device") + self._of_what)
        parts += [f"{amount} of {name}{self._of_what}" for name, amount in self.capacity.items()]
        of_all = ", of all hubs" if self.all_hubs else ""
        return f"limit {self.name!r} ({', '.join(parts)}{of_all})"

    @property
    def _of_what(self) -> str:
        of_class = f" of {self.device_class}" if self.device_class else ""
        return f"{of_class} that its selector selects" if self.selector else of_class


def resolved_limits(limits: Iterable[Limit], shapes: Mapping[str, str]) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    """The limits with the shapes of their profiles; and names of profiles that are not published, as sentences.

    Parameters
    ----------
    shapes
        Id of the shape by published name of the choice.
    """
    found: list[Limit] = []
    problems: list[str] = []
    for limit in limits:
        if not limit.profiles:
            found.append(replace(limit, shapes=None))
            continue
        of_profiles = {name: _shapes_of(name, shapes) for name in limit.profiles}
        problems += [
            f"limit {limit.name!r}: the hub publishes no choice of profile {name}"
            for name, its in of_profiles.items()
            if not its
        ]
        found.append(replace(limit, shapes=frozenset().union(*of_profiles.values())))
    return tuple(found), tuple(problems)


def _shapes_of(profile: str, shapes: Mapping[str, str]) -> frozenset[str]:
    """Shapes of all choices of a profile, or of the one choice that is named."""
    choice = find_choice(profile, shapes)
    if "/" in profile:
        return frozenset((shapes[choice],)) if choice is not None else frozenset()
    return frozenset(shape for name, shape in shapes.items() if profile_of(name) == profile)


@dataclass(frozen=True, slots=True)
class Quota:
    """One ResourceQuota.

    Attributes
    ----------
    hard, left
        By resource. Of a resource that is not counted yet nothing is left; less than nothing where the quota was
        lowered below what is used.
    uncounted
        Resources that are not counted yet.
    for_placeholders, for_servers, for_claims
        Whether pods of placeholders, pods of users' servers, and claims count. A quota for a PriorityClass is taken to
        be for placeholders or for servers, and never for both.
    best_effort
        Whether only pods without requests for CPU and memory count (true), or only others (false); None for both.
    """

    name: str
    hard: Mapping[str, Quantity] = field(default_factory=dict)
    left: Amounts = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()
    for_placeholders: bool = True
    for_servers: bool = True
    for_claims: bool = True
    best_effort: bool | None = None

    def counts_pods(self, requests: Mapping[str, Quantity]) -> bool:
        """Whether a pod with these requests counts, whoever it is for."""
        return self.best_effort is None or self.best_effort is not any(requests.get(name) for name in ("cpu", "memory"))


def quota_of(obj: JsonObject, priority_class: str, *, has_servers: bool = True) -> Quota:
    """A quota as the API server has it.

    Parameters
    ----------
    priority_class
        Of placeholders; empty for none.
    has_servers
        Whether users' servers are in the quota's namespace, too.
    """
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    hard, used = _quantities(spec.get("hard")), _quantities(status.get("used"))
    left = {name: most.nano - used[name].nano if name in used else 0 for name, most in hard.items()}
    rules = list(_rules(spec))
    of_placeholders = [_selects(rule, priority_class) for rule in rules]
    classes = [rule for rule in rules if rule["scopeName"] == "PriorityClass"]
    best_effort = {rule["scopeName"] == "BestEffort" for rule in rules if rule["scopeName"].endswith("BestEffort")}
    return Quota(
        obj["metadata"]["name"],
        hard,
        left,
        frozenset(hard.keys() - used.keys()),
        for_placeholders=all(of_placeholders) and len(best_effort) < 2,
        for_servers=has_servers and not classes and all(_selects(rule, "") for rule in rules) and len(best_effort) < 2,
        # No scope matches a claim.
        for_claims=not rules,
        best_effort=best_effort.pop() if len(best_effort) == 1 else None,
    )


def pod_amounts(requests: Mapping[str, Quantity]) -> Counter[str]:
    """What a pod with these requests counts."""
    found = Counter({"pods": NANO_PER_UNIT, "count/pods": NANO_PER_UNIT})
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES):
            found[name] = amount.nano
        if name in _COMPUTE or name.startswith(_HUGE_PAGES) or "/" in name:
            found[f"{_REQUESTS}{name}"] = amount.nano
    return found


def claim_amounts(
    claims: Iterable[ResourceClaim], classes: Mapping[str, DeviceClass], *, from_templates: bool = False
) -> Counter[str]:
    """What these claims count.

    Parameters
    ----------
    classes
        By name; they may stand for extended resources, which count, too.
    from_templates
        Whether each has a template of its own, as with users' servers.
    """
    found = Counter[str]()
    for claim in claims:
        found[_CLAIMS] += NANO_PER_UNIT
        found[_TEMPLATES] += NANO_PER_UNIT * from_templates
        for request in claim.requests:
            counts = (Counter({each.device_class_name: device_count(each)}) for each in request.alternatives)
            for name, most in reduce(or_, counts, Counter[str]()).items():
                amount = most * NANO_PER_UNIT
                found[f"{name}.deviceclass.{names.RESOURCE_GROUP}/devices"] += amount
                found[f"{_REQUESTS}{IMPLICIT_PREFIX}{name}"] += amount
                resource = classes[name].extended_resource_name if name in classes else None
                if resource:
                    found[f"{_REQUESTS}{resource}"] += amount
    return +found


def needed_amounts(
    shape: Shape,
    classes: Mapping[str, DeviceClass],
    quota: Quota,
    *,
    for_server: bool,
    with_pod: bool = True,
    with_claims: bool = True,
) -> Counter[str]:
    """What a placeholder or a server of a shape counts for a quota: its pod, its claims, or both.

    Of a server's claims alone, their templates exist already.
    """
    found = Counter[str]()
    requests = requests_of(shape)
    if with_pod and (quota.for_servers if for_server else quota.for_placeholders) and quota.counts_pods(requests):
        found += pod_amounts(requests)
    if with_claims and quota.for_claims and (quota.for_servers or not for_server):
        pod, claims = simulated_placeholder(shape, _NAMESPACE)
        found += claim_amounts([each.claim for each in claims], classes, from_templates=for_server and with_pod)
        generated = claim_of_extended_resources(pod, classes)
        if generated.requests:
            # The pod counts the requests itself.
            amounts = claim_amounts([generated], classes).items()
            found += Counter({name: amount for name, amount in amounts if not name.startswith(_REQUESTS)})
    return found


def device_count(wanted: RequestAlternative) -> int:
    """The most devices that a request may get."""
    return MAX_DEVICES_PER_CLAIM if wanted.allocation_mode == AllocationMode.ALL else wanted.count


def _rules(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The scopes in the one form that has operators."""
    for name in spec.get("scopes") or ():
        yield {"scopeName": name, "operator": "Exists"}
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or ()


def _selects(rule: Mapping[str, Any], priority_class: str) -> bool:
    """Whether a scope selects a pod of a PriorityClass that has no deadline and no affinity across namespaces."""
    match rule["scopeName"]:
        case "NotTerminating" | "BestEffort" | "NotBestEffort":
            return True
        case "PriorityClass":
            is_listed = priority_class in (rule.get("values") or ())
            return {
                "Exists": bool(priority_class),
                "DoesNotExist": not priority_class,
                "In": is_listed,
                "NotIn": not is_listed,
            }.get(rule.get("operator", ""), False)
        case _:
            return False


def _quantities(value: object) -> dict[str, Quantity]:
    found = {}
    for name, amount in value.items() if isinstance(value, dict) else ():
        try:
            found[str(name)] = Quantity.from_json(amount)
        except QuantityError:
            continue  # the API server admits none
    return found
