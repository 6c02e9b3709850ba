"""What the plugin on the node does with the annotations: finds the pod, its cards, its device ids, its mask.

The kubelet asks the plugin twice for each container, which devices it prefers and then for the devices, without a word
about the pod. This is the plugin's part without its files, sockets and certificates: the reader of what the hub
writes, and so the test that it is written as the plugin reads it. Whatever goes wrong, the plugin lets the kubelet
have its way; no server fails because of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dra_spawner.profiles.intel_gas.annotations import filled_section, parse_time
from dra_spawner.profiles.intel_gas.ledger import PodKey
from dra_spawner.profiles.intel_gas.masks import affinity_mask
from dra_spawner.profiles.intel_gas.names import (
    CARDS_ANNOTATION,
    HIERARCHY_ENV,
    MASK_ENV,
    TILES_ANNOTATION,
    TIME_ANNOTATION,
)
from dra_spawner.profiles.intel_gas.pods import PodObject, containers_of, gpu_count, pod_key

#: The one device of the monitoring resource.
ALL_DEVICES = "all"


class NoCandidate(StrEnum):
    """Why no pod is found for which the kubelet asks."""

    #: There is none: it is gone already.
    NONE = "none"
    #: There is, but its annotations are not there yet: ask once more, a second later.
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Candidate:
    """The pod for which the kubelet asks.

    Attributes
    ----------
    index
        Which of its GPU containers it is: as many as have devices already.
    """

    pod: PodObject
    index: int


def pod_being_allocated(pods: Sequence[PodObject], allocated: Mapping[PodKey, int]) -> Candidate | NoCandidate:
    """Find the pod: the only one that waits for devices, or the one that got its cards first.

    Parameters
    ----------
    pods
        Of the node.
    allocated
        Pods that the kubelet lists, and how many of their containers have GPUs.
    """
    candidates = []
    for pod in pods:
        wanted = sum(gpu_count(container) > 0 for container in containers_of(pod))
        already = allocated.get(pod_key(pod))
        if (pod.get("status") or {}).get("phase") == "Pending" and already is not None and already < wanted:
            candidates.append(Candidate(pod, already))
    if not candidates:
        return NoCandidate.NONE
    if len(candidates) == 1:
        return candidates[0] if CARDS_ANNOTATION in _annotations(candidates[0].pod) else NoCandidate.RETRY
    # As numbers: the plugin compares text, which is the same as long as all have 19 digits (until the year 2286).
    times = [(parse_time(_annotations(each.pod), TIME_ANNOTATION), each) for each in candidates]
    with_time = [(time, each) for time, each in times if time is not None]
    return min(with_time, key=lambda item: item[0])[1] if with_time else NoCandidate.RETRY


def container_cards(annotation: str, index: int) -> tuple[str, ...]:
    """Cards of GPU container number ``index`` as ``gas-container-cards`` names them; none if it does not."""
    found = filled_section(annotation.split("|"), index)
    return tuple(found[1].split(",")) if found else ()


def preferred_ids(
    size: int, cards: Sequence[str], available: Sequence[str], must_include: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Device ids for a container's cards, and what to warn of.

    Parameters
    ----------
    size
        How many devices the kubelet wants.
    available, must_include
        Ids such as ``card0-1``; those that must be included are taken first for their card.

    Returns
    -------
    tuple
        Ids, perhaps fewer than wanted; warnings.
    """
    warnings = []
    if size != len(cards):
        warnings.append(f"{size} devices are asked for, and {len(cards)} cards were chosen")
    by_card: dict[str, list[str]] = {}
    for device in (*must_include, *available):
        by_card.setdefault(device.partition("-")[0], []).append(device)
    selected = []
    for card in cards[:size]:
        if card not in by_card:
            warnings.append(f"{card} is not among the devices")
        elif by_card[card]:
            selected.append(by_card[card].pop(0))
    return tuple(selected), tuple(warnings)


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """What a container gets: device ids, variables, and what to warn of."""

    ids: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass
class PluginMemory:
    """What the plugin remembers between the kubelet's two questions for a container."""

    tiles_per_card: int = 1
    _containers: dict[PodKey, dict[int, ContainerDevices]] = field(default_factory=dict)

    def preferred(
        self,
        requests: Sequence[PreferredRequest],
        pods: Sequence[PodObject],
        allocated: Mapping[PodKey, int],
    ) -> tuple[str, ...] | None:
        """Ids for one container; ``None`` leaves the choice to the kubelet."""
        if len(requests) != 1 or ALL_DEVICES in requests[0].available:
            return None
        found = pod_being_allocated(pods, allocated)
        if not isinstance(found, Candidate):
            return None
        annotations = _annotations(found.pod)
        cards = container_cards(annotations.get(CARDS_ANNOTATION, ""), found.index)
        request = requests[0]
        ids, warnings = preferred_ids(request.size, cards, request.available, request.must_include)
        mask = affinity_mask(
            annotations.get(TILES_ANNOTATION, ""), found.index, _hierarchies(found.pod), self.tiles_per_card
        )
        environment = {MASK_ENV: mask} if mask else {}
        remembered = ContainerDevices(ids, environment, warnings)
        self._containers.setdefault(pod_key(found.pod), {})[found.index] = remembered
        return ids

    def allocate(
        self,
        requests: Sequence[Sequence[str]],
        pods: Sequence[PodObject],
        allocated: Mapping[PodKey, int],
        known: Collection[str],
    ) -> ContainerDevices | None:
        """Devices of one container by the ids that the kubelet wants; ``None`` is the plugin's default method.

        Parameters
        ----------
        requests
            Ids by container; there must be one.
        known
            Ids of the devices there are.
        """
        if len(requests) != 1 or ALL_DEVICES in requests[0]:
            return None
        found = pod_being_allocated(pods, allocated)
        if not isinstance(found, Candidate):
            return None
        remembered = self._containers.get(pod_key(found.pod), {}).get(found.index)
        (ids,) = requests
        if remembered is None or not set(ids) <= set(known):
            return None
        warnings = []
        if len(ids) != len(remembered.ids):
            warnings.append(f"{len(ids)} devices are wanted, and {len(remembered.ids)} were preferred")
        warnings += [f"{device} was not preferred" for device in ids if device not in remembered.ids]
        return ContainerDevices(tuple(ids), remembered.environment, tuple(warnings))

    def clean_up(self, alive: Collection[PodKey]) -> None:
        """Forget pods that are neither Pending nor Running any more."""
        self._containers = {pod: found for pod, found in self._containers.items() if pod in alive}

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._containers


@dataclass(frozen=True, slots=True)
class PreferredRequest:
    """The kubelet's question for one container: how many devices, out of which, and which of them in any case."""

    size: int
    available: tuple[str, ...]
    must_include: tuple[str, ...] = ()


def _annotations(pod: PodObject) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("annotations") or {}


def _hierarchies(pod: PodObject) -> list[str | None]:
    """``ZE_FLAT_DEVICE_HIERARCHY`` of each container."""
    return [
        next((entry.get("value") for entry in container.get("env") or () if entry.get("name") == HIERARCHY_ENV), None)
        for container in containers_of(pod)
    ]
