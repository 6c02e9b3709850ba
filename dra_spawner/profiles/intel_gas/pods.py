"""Cards of pods, from their limits and annotations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.names import INTEL_GAS
from dra_spawner.profiles.intel_gas.annotations import (
    AnnotationError,
    Tiles,
    of_containers,
    parse_cards,
    parse_tiles,
    parse_time,
)
from dra_spawner.profiles.intel_gas.ledger import CardAssignment, ContainerCards, Ledger, Need, PodKey
from dra_spawner.profiles.intel_gas.names import (
    CARDS_ANNOTATION,
    MEMORY,
    MILLICORES,
    TILES,
    TILES_ANNOTATION,
    TIME_ANNOTATION,
    GpuResource,
)

PodObject = Mapping[str, Any]

_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodCards:
    """A pod's cards.

    Attributes
    ----------
    assignment
        ``None`` if no cards are chosen or the annotations are invalid.
    chosen_by_gas
        Whether GAS chose the cards.
    warnings
        Problems of the annotations.
    """

    assignment: CardAssignment | None = None
    chosen_by_gas: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RebuiltLedger:
    """A ledger rebuilt from pods, whether GAS chose any cards, and warnings."""

    ledger: Ledger
    gas_runs: bool
    warnings: tuple[str, ...]


def pod_key(pod: PodObject) -> PodKey:
    """Namespace and name."""
    metadata = pod.get("metadata") or {}
    return (str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def is_finished(pod: PodObject) -> bool:
    """Whether it has released its cards. A terminating pod has not."""
    return (pod.get("status") or {}).get("phase") in _FINISHED


def containers_of(pod: PodObject) -> list[Mapping[str, Any]]:
    """Its containers. Init containers are left out: neither GAS nor the plugin gives them cards."""
    return list((pod.get("spec") or {}).get("containers") or ())


def gpu_count(container: Mapping[str, Any]) -> int:
    """Number of cards of a container."""
    return sum(_amount(container, resource.full_name) for resource in GpuResource)


def counts(pod: PodObject, own: Collection[str] | None) -> bool:
    """Whether a pod's cards count: a stranger's only on a node that runs it, and only as many as the pod asks for.

    Parameters
    ----------
    own
        Namespaces of the hub's servers; None for all.
    """
    if own is None or pod_key(pod)[0] in own:
        return True
    if not (pod.get("spec") or {}).get("nodeName"):
        return False
    cards = read_pod(pod).assignment
    return cards is None or all(
        len(each.cards) <= gpu_count(container)
        for container, each in zip(containers_of(pod), cards.containers, strict=True)
    )


def rebuild(pods: Iterable[PodObject], own: Collection[str] | None = None) -> RebuiltLedger:
    """The ledger of pods whose cards count (`counts`); only the hub's own pods prove that GAS runs."""
    found: dict[PodKey, CardAssignment] = {}
    gas_runs = False
    warnings: list[str] = []
    for pod in pods:
        read = read_pod(pod)
        gas_runs = gas_runs or (read.chosen_by_gas and (own is None or pod_key(pod)[0] in own))
        warnings += read.warnings
        if read.assignment is not None and not is_finished(pod):
            found[pod_key(pod)] = read.assignment
    return RebuiltLedger(Ledger.of(found), gas_runs, tuple(warnings))


def read_pod(pod: PodObject) -> PodCards:
    """Read a pod's cards; invalid annotations become warnings."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    if CARDS_ANNOTATION not in annotations:
        return PodCards()
    time = parse_time(annotations, TIME_ANNOTATION)
    chosen_by_gas = time is not None and annotations.get(INTEL_GAS) != str(time)
    containers = containers_of(pod)
    counts = [gpu_count(container) for container in containers]
    uses_gpu = [count > 0 for count in counts]
    who = "/".join(pod_key(pod))
    try:
        cards = of_containers(parse_cards(annotations[CARDS_ANNOTATION]), uses_gpu, ())
        tiles = _tiles(annotations, uses_gpu)
    except AnnotationError as error:
        return PodCards(None, chosen_by_gas, (f"pod {who}: {error}",))
    if cards is None or tiles is None:
        text = f"pod {who}: its annotations are for another number of containers"
        return PodCards(None, chosen_by_gas, (text,))
    warnings = [
        f"pod {who}: container {container.get('name')} asks for {count} cards and has {len(mine)}"
        for container, count, mine in zip(containers, counts, cards, strict=True)
        if count != len(mine)
    ]
    assigned = tuple(
        ContainerCards(mine, mine_tiles, _need(container, count))
        for container, count, mine, mine_tiles in zip(containers, counts, cards, tiles, strict=True)
    )
    node = node_of(pod)
    if not node:
        return PodCards(None, chosen_by_gas, (*warnings, f"pod {who}: it has cards but no node"))
    return PodCards(CardAssignment(node, time or 0, assigned), chosen_by_gas, tuple(warnings))


def node_of(pod: PodObject) -> str:
    """A pod's node, or the only one that its required affinity names; empty if there is neither."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    names = {
        tuple(field.get("values") or ())
        for term in terms
        for field in term.get("matchFields") or ()
        if field.get("key") == "metadata.name" and field.get("operator") == "In"
    }
    return next(iter(names))[0] if len(names) == 1 and len(next(iter(names))) == 1 else ""


def _tiles(annotations: Mapping[str, str], uses_gpu: list[bool]) -> list[Tiles] | None:
    value = annotations.get(TILES_ANNOTATION, "")
    if not value:
        return [()] * len(uses_gpu)
    sections = parse_tiles(value)
    if len(sections) != len(uses_gpu):
        # Containers may have cards without tiles, so the number of filled sections proves nothing.
        return None if sum(map(bool, sections)) != sum(uses_gpu) else of_containers(sections, uses_gpu, ())
    return list(sections)


def _need(container: Mapping[str, Any], count: int) -> Need:
    """Amounts of each card, rounded up."""
    whole = max(count, 1)
    return Need(*(-(-_amount(container, name) // whole) for name in (MILLICORES, MEMORY, TILES)))


def _amount(container: Mapping[str, Any], name: str) -> int:
    resources = container.get("resources") or {}
    value = (resources.get("requests") or {}).get(name, (resources.get("limits") or {}).get(name, 0))
    try:
        return max(0, Quantity.parse(value).value())
    except QuantityError:
        return 0
