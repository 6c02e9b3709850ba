"""Whether any node could ever have the devices of a choice, were nothing in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.allocation.allocator import DoesNotFit
from dra_spawner.dra.allocation.reasons import NoFitReason, RefusalKind, shortest
from dra_spawner.dra.budget import SearchStopped
from dra_spawner.dra.errors import AllocationError, FatalReason
from dra_spawner.dra.model.claims import AllocationMode, ResourceClaim
from dra_spawner.dra.model.consumable_capacity import Share, shortage
from dra_spawner.dra.model.devices import Device
from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.profiles.choices import Choice
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.cluster import has_no_devices
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim
from dra_spawner.simulator.refusal_text import MORE_THAN_ANY_MACHINE, NO_SUCH_MACHINE

#: Rules about what no present device or node can do; the others are mistakes of another kind.
_BEYOND_NODES: Final = frozenset(
    each.name
    for each in (
        rules.NEVER_FITS,
        rules.NO_COMMON_VALUE,
        rules.SHARE_TOO_LARGE,
        rules.TOO_FEW_ALIKE,
        rules.UNKNOWN_CAPACITY,
    )
)


@dataclass(frozen=True, slots=True)
class Impossible:
    """Why no node could have the devices of a choice, were nothing in use.

    Attributes
    ----------
    detail
        For an administrator.
    text
        For the user, a part of a sentence; empty if only an administrator can make sense of it.
    lasts
        Whether it is so as long as the devices are the same; taints may go, and pools become complete.
    """

    detail: str
    text: str = ""
    lasts: bool = True


def unselected_findings(claim: WantedClaim, inventory: Inventory, certain: Level) -> Iterator[Finding]:
    """Findings about requests whose own words and CEL select none of the devices of their class."""
    for wants in claim.requests.values():
        empty = [want for want in wants if _selects_nothing(want, inventory)]
        for want in empty:
            name = want.devices.device_class_name
            count = len(inventory.all_candidates(inventory.expressions(name, ())))
            which = (
                f"none of the {count} devices of class {name} is"
                if count > 1
                else f"the one device of class {name} is not"
            )
            one = "" if len(wants) == 1 or len(empty) == len(wants) else "; this alternative is never chosen"
            level = Level.WARNING if one else certain
            yield rules.NEVER_FITS.finding(
                want.path, f"{which} what this asks for{_which_selector(want, inventory)}{one}", level
            )


def _which_selector(want: Want, inventory: Inventory) -> str:
    """Which of its selectors selects nothing all by itself, if that can be said."""
    of_class = want.devices.device_class_name
    alone = [
        want.shown_selector(position)
        for position, selector in enumerate(want.selectors)
        if not inventory.candidates(inventory.expressions(of_class, (selector,))).devices
    ]
    return f" ({'; '.join(alone)})" if alone else ""


def _selects_nothing(want: Want, inventory: Inventory) -> bool:
    of_class = inventory.candidates(inventory.expressions(want.devices.device_class_name, ()))
    found = inventory.candidates(inventory.expressions(want.devices.device_class_name, want.selectors))
    return bool(of_class.devices) and not found.devices and not found.failures


def fit_findings(
    choice: Choice, claims: Sequence[WantedClaim], inventory: Inventory, certain: Level
) -> Iterator[Finding]:
    """Findings about all claims of a choice together: whether any node has the devices, were nothing in use."""
    requests = [wants for claim in claims for wants in claim.requests.values()]
    amounts = requested(choice.settings)
    if not inventory.nodes or any(all(has_no_devices(want, inventory) for want in wants) for wants in requests):
        return  # the latter is told already, and the next node may bring them
    labels = _labels(choice)
    extended = _extended_claim(choice, inventory)
    wanted = [claim.claim for claim in claims] + ([extended] if extended is not None else [])
    is_any_node = not labels and not any(lacking(node, amounts) for node in inventory.facts.nodes or ())
    if not wanted or (
        extended is None and is_any_node and any(_fits_where_it_is(want, claims, inventory) for want in requests[0])
    ):
        return
    impossible = why_never(wanted, labels, inventory, amounts)
    if impossible is None:
        return
    message = impossible.detail
    if choice.plan.fallback is not None:
        least = [_decoded(name, spec) for name, spec in choice.plan.fallback.specs.items()]
        if not least or why_never(least, labels, inventory, amounts) is None:
            yield rules.NEVER_FITS.finding(_path(choice, claims), f"{message}; servers start without", Level.WARNING)
            return
    yield rules.NEVER_FITS.finding(_path(choice, claims), message, certain if impossible.lasts else Level.WARNING)


def extended_findings(choice: Choice, inventory: Inventory) -> Iterator[Finding]:
    """Findings about extended resources: whether a device class stands for each, or a device plugin gives it."""
    if inventory.facts.device_classes is None or inventory.facts.nodes is None:
        return
    unknown = choice.plan.extended_resources.unknown(inventory.facts.device_classes.values())
    for name in unknown:
        if name not in inventory.allocatable:
            message = f"no device class stands for {name}, and no node has it from a device plugin"
            yield rules.EXTENDED_RESOURCE.finding(choice.path_of_setting("extra_resource_limits"), message)
    if not choice.plan.claims:
        return
    for name in choice.plan.extended_resources.names:
        if name not in unknown and name in inventory.allocatable:
            message = (
                f"on a node that has {name} from a device plugin kube-scheduler never gets a server through that has "
                "device_claims as well; keep this choice away from those nodes (node_selector), or ask by "
                "device_claims alone"
            )
            yield rules.EXTENDED_BESIDE_CLAIMS.finding(choice.path_of_setting("extra_resource_limits"), message)


def _path(choice: Choice, claims: Sequence[WantedClaim]) -> str:
    return claims[0].path if claims else choice.claims_path


def _decoded(name: str, spec: JsonObject) -> ResourceClaim:
    return ResourceClaim.from_json({"metadata": {"name": name}, "spec": spec})


def _extended_claim(choice: Choice, inventory: Inventory) -> ResourceClaim | None:
    """What the scheduler makes of extended resources for which device classes stand."""
    if not choice.plan.extended_resources.names:
        return None
    spec = choice.plan.extended_resources.claim_spec((inventory.facts.device_classes or {}).values())
    return _decoded("extended-resources", spec) if spec is not None else None


def _labels(choice: Choice) -> Mapping[str, Any]:
    selector = choice.settings.get("node_selector")
    return selector if isinstance(selector, Mapping) else {}


def never_text(choice: Choice, finding: Finding, inventory: Inventory) -> str:
    """Why a choice can never work, for its user, as a part of a sentence; empty if the user cannot make sense of it.

    Parameters
    ----------
    finding
        An error in the choice.
    """
    if finding.rule == rules.DEVICE_CLASS.name:
        return "it asks for a kind of device that this cluster does not have"
    if finding.rule not in _BEYOND_NODES or not inventory.nodes:
        return ""
    extended = _extended_claim(choice, inventory)
    wanted = [_decoded(name, spec) for name, spec in choice.plan.specs.items()]
    wanted += [extended] if extended is not None else []
    impossible = why_never(wanted, _labels(choice), inventory, requested(choice.settings))
    return impossible.text if impossible is not None else ""


def why_never(
    claims: Sequence[ResourceClaim],
    labels: Mapping[str, Any],
    inventory: Inventory,
    amounts: Mapping[str, int] = MappingProxyType({}),
) -> Impossible | None:
    """Why no node could have the devices of these claims, were nothing in use; None if one could, or it is not clear.

    Parameters
    ----------
    labels
        Of the nodes that count.
    amounts
        What else a server requests (`requested`).
    """
    try:
        verdicts = inventory.verdicts_when_empty(claims)
    except AllocationError as error:
        return Impossible(f"the scheduler gives up on the pod: {error}")
    reasons: list[NoFitReason] = []
    elsewhere = small = ""
    for group in verdicts:
        if group.fits:
            suitable = [node for node in group.nodes if _has_labels(inventory, node, labels)]
            elsewhere = elsewhere or group.nodes[0]
            for node in suitable:
                if not (resource := lacking(inventory.node_objects[node], amounts)):
                    return None
                small = small or f"{resource} of node {node}"
            continue
        verdict = group.verdict
        stopped = isinstance(verdict, AllocationError) and verdict.reason is FatalReason.ABORTED
        if stopped or isinstance(verdict, SearchStopped):
            return None  # too many ways to tell
        if isinstance(verdict, DoesNotFit) and verdict.reason is not None:
            reasons.append(verdict.reason)
    if small:
        return Impossible(
            f"no node with such devices has as much CPU and memory as is requested beside them ({small} is too little)",
            f"{MORE_THAN_ANY_MACHINE} with such devices has",
        )
    if elsewhere:
        shown = ", ".join(f"{name}={value}" for name, value in labels.items())
        return Impossible(
            f"node_selector ({shown}) leaves out every node with such devices, {elsewhere} among them",
            NO_SUCH_MACHINE.never,
        )
    nowhere = "no node can have these devices, even if nothing is in use"
    if few := _too_few_to_share(claims, inventory):
        return Impossible(f"{nowhere}: {few}", "it asks for several shares, and no machine has so many devices")
    reason = shortest(reasons)
    why = f"{nowhere}: {_why(reason, claims)}"
    if reason is None:
        return Impossible(why)
    return Impossible(why, reason.for_user.never, reason.nearest.kind not in _PASSING)


def _too_few_to_share(claims: Sequence[ResourceClaim], inventory: Inventory) -> str:
    """Of several shares in one request: that each is of another device (KEP-5075), where nodes have too few devices."""
    for request in (each for claim in claims for each in claim.requests):
        for exact in request.alternatives:
            if exact.allocation_mode != AllocationMode.EXACT_COUNT or exact.count < 2:
                continue
            selectors = [each for each in exact.selectors if each is not None]
            there = inventory.all_candidates(inventory.expressions(exact.device_class_name, selectors))
            shared = Counter(inventory.node_of(device) for device in there if device.is_shared)
            most = max(shared.values(), default=0)
            if 0 < most < exact.count:
                return (
                    f"a claim gets at most one share of a device, and {request.name} asks for {exact.count} where no "
                    f"node has more than {most} such device{'s' if most > 1 else ''}; ask for one larger share"
                )
    return ""


def _fits_where_it_is(want: Want, claims: Sequence[WantedClaim], inventory: Inventory) -> bool:
    """Whether all claims fit on the node of a device that a request could get; a quick look before the long one."""
    devices = inventory.candidates(inventory.expressions(want.devices.device_class_name, want.selectors)).devices
    if not devices:
        return False
    if len(claims) == 1 and len(claims[0].requests) == 1 and _wants_one(want):
        return any(_serves(device, want, inventory) for device in devices)
    return inventory.fits_at_once(inventory.node_of(devices[0]), [claim.claim for claim in claims])


def _wants_one(want: Want) -> bool:
    return want.devices.allocation_mode == AllocationMode.EXACT_COUNT and want.devices.count == 1


def _serves(device: Device, want: Want, inventory: Inventory) -> bool:
    """Whether an idle device surely is enough; devices with peculiarities are left to the search."""
    if device.taints or device.counter_sets or device.binding_conditions or device.defect:
        return False
    share = inventory.share(device, want.devices.capacity_requests)
    return isinstance(share, Share) and shortage(share, None, None) is None and inventory.is_usable(device)


def _why(reason: NoFitReason | None, claims: Sequence[ResourceClaim]) -> str:
    requests = [request.name for claim in claims for request in claim.requests]
    if reason is None or reason.nearest.kind in _ELSEWHERE:
        return (
            f"none has devices for {' and '.join(requests)} together" if len(requests) > 1 else "none has such a device"
        )
    return f"{reason.request}: {reason}" if len(requests) > 1 else str(reason)


#: What may be over soon.
_PASSING = (RefusalKind.POOL_INCOMPLETE, RefusalKind.POOL_INVALID, *(each for each in RefusalKind if each.is_taint))
#: What keeps the devices of other nodes from a request: then the devices are there, but not together.
_ELSEWHERE = (RefusalKind.NO_DEVICES, RefusalKind.SELECTOR, RefusalKind.OTHER_NODE)


def _has_labels(inventory: Inventory, name: str, labels: Mapping[str, Any]) -> bool:
    there = inventory.empty_cluster.nodes[name].labels
    return all(there.get(label) == str(value) for label, value in labels.items())


#: Traits of KubeSpawner by resource: what is requested, and what the API server requests if that is left out.
_TRAITS: Final = {"cpu": ("cpu_guarantee", "cpu_limit"), "memory": ("mem_guarantee", "mem_limit")}
#: Suffixes of JupyterHub's ``ByteSpecification``.
_BYTES: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NANO: Final = 10**9


def requested(settings: Mapping[str, Any]) -> dict[str, int]:
    """What the containers of a server request together, in nano-units; without what is no amount.

    Init containers are left out: they run before the others.
    """
    total = dict.fromkeys(_TRAITS, 0)
    for resource, (guarantee, limit) in _TRAITS.items():
        total[resource] += _trait(settings.get(guarantee)) or _trait(settings.get(limit))
    extra = settings.get("extra_containers")
    for container in extra.values() if isinstance(extra, Mapping) else extra if isinstance(extra, list | tuple) else ():
        resources = container.get("resources") if isinstance(container, Mapping) else None
        resources = resources if isinstance(resources, Mapping) else {}
        for resource in _TRAITS:
            amounts = (each.get(resource) for each in _mappings(resources.get("requests"), resources.get("limits")))
            total[resource] += next((_quantity(amount) for amount in amounts if amount), 0)
    return {resource: amount for resource, amount in total.items() if amount}


def lacking(node: JsonObject, wanted: Mapping[str, int]) -> str:
    """The first resource of which a whole node has less than is wanted; empty if it has enough, or does not say."""
    there = (node.get("status") or {}).get("allocatable") or {}
    return next((name for name, amount in wanted.items() if name in there and _quantity(there[name]) < amount), "")


def _mappings(*values: object) -> Iterator[Mapping[str, Any]]:
    return (each for each in values if isinstance(each, Mapping))


def _trait(value: object) -> int:
    """Nano-units of a number, or of bytes such as ``1.5G``."""
    if isinstance(value, str):
        text, factor = (value[:-1], _BYTES[value[-1]]) if value[-1:] in _BYTES else (value, 1)
        try:
            return int(float(text) * factor * _NANO)
        except (ValueError, OverflowError):
            return 0
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e30:
        return int(value * _NANO)
    return 0


def _quantity(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    try:
        return Quantity.parse(str(value)).nano
    except QuantityError:
        return 0
