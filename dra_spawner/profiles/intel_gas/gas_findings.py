"""Findings about choices that ask for Intel GPUs by the device plugin.

They cover ``intel_gas``, and limits and annotations that a profile writes itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.profiles.choices import Choice, list_choices
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.findings import Finding, Level, LintRule
from dra_spawner.profiles.intel_gas import rules
from dra_spawner.profiles.intel_gas.annotations import AnnotationError, parse_cards, parse_tiles
from dra_spawner.profiles.intel_gas.choosing import choose
from dra_spawner.profiles.intel_gas.gas_language import NOTEBOOK, GpuRequest, parse_intel_gas
from dra_spawner.profiles.intel_gas.labels import NodeGpus, node_gpus
from dra_spawner.profiles.intel_gas.names import (
    CARDS_ANNOTATION,
    GAS_LABEL,
    MASK_ENV,
    MEMORY,
    MILLICORES,
    SAME_GPU_ANNOTATION,
    TILES,
    TILES_ANNOTATION,
    XE_LINK_ANNOTATION,
    CardScheduler,
    GpuResource,
)
from dra_spawner.profiles.intel_gas.pod_changes import changes_for_gas
from dra_spawner.profiles.syntax.problems import Problem, ProfileError

#: The spawner's trait.
TRAIT = "intel_gas"

_PLUGIN_IMAGE = re.compile(r"(?:^|/)intel-gpu-plugin:v?(\d+)\.(\d+)")
#: First release of the plugin that does not read the annotations any more.
_FIRST_WITHOUT = (0, 34)

#: Extended resources by container.
_Limits = Mapping[str, Mapping[str, int]]


def intel_gas_problems(profile_list: object, intel_gas: object) -> list[Problem]:
    """Invalid values of ``intel_gas`` in the spawner and in the choices of a static profile list."""
    try:
        parse_intel_gas(intel_gas, TRAIT)
    except ProfileError as error:
        return list(error.problems)
    problems: list[Problem] = []
    for listed in list_choices(profile_list, {TRAIT: intel_gas or {}}) if profile_list else ():
        if listed.choice is None:
            continue  # told elsewhere
        try:
            parse_intel_gas(listed.choice.settings.get(TRAIT), listed.choice.path_of_setting(TRAIT))
        except ProfileError as error:
            problems += error.problems
    return list(dict.fromkeys(problems))


def findings(choice: Choice, facts: ClusterFacts) -> Iterator[Finding]:
    try:
        request = parse_intel_gas(choice.settings.get(TRAIT), choice.path_of_setting(TRAIT))
    except ProfileError as error:
        for problem in error.problems:
            yield rules.LANGUAGE.finding(problem.path, problem.message)
        return
    asked = _Asked.by(choice, request)
    if request is None and not asked.annotations and not any(asked.limits.values()):
        return
    yield from _combinations(asked)
    yield from _tiles(asked, facts)
    if asked.is_legacy:
        yield from _plugin(asked, facts)
    if request is not None:
        yield from _cards(asked, request, facts)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A choice's requests, in either form.

    Attributes
    ----------
    path
        Of the requests in the configuration.
    limits
        By container, with those that ``intel_gas`` adds.
    annotations
        Of the profile, with those that ``intel_gas`` adds for GAS.
    """

    path: str
    request: GpuRequest | None
    limits: _Limits
    annotations: Mapping[str, str]
    environment: Mapping[str, Any]

    @classmethod
    def by(cls, choice: Choice, request: GpuRequest | None) -> _Asked:
        settings = choice.settings
        limits = {NOTEBOOK: _amounts(settings.get("extra_resource_guarantees"), settings.get("extra_resource_limits"))}
        for container in _list(settings.get("extra_containers")):
            resources = _mapping(container.get("resources"))
            limits[str(container.get("name"))] = _amounts(resources.get("requests"), resources.get("limits"))
        annotations = {str(name): str(value) for name, value in _mapping(settings.get("extra_annotations")).items()}
        path = choice.path_of_setting("extra_resource_limits")
        if request is not None:
            changes = changes_for_gas(request)
            for name, added in changes.limits.items():
                limits[name] = {**limits.get(name, {}), **_amounts(added)}
            annotations |= changes.annotations
            path = choice.path_of_setting(TRAIT)
        return cls(path, request, limits, annotations, _mapping(settings.get("environment")))

    @property
    def is_legacy(self) -> bool:
        """Whether it needs the fractional resource manager; any plugin gives a whole ``i915``."""
        fractions = any(name in limits for limits in self.limits.values() for name in (MILLICORES, MEMORY, TILES))
        return self.request is not None or fractions or any(name.startswith("gas-") for name in self.annotations)

    def count(self, container: str) -> int:
        """Number of GPUs of a container."""
        return sum(self.limits.get(container, {}).get(resource.full_name, 0) for resource in GpuResource)

    def finding(self, rule: LintRule, message: str, level: Level | None = None) -> Finding:
        return rule.finding(self.path, message, level)


def _plugin(asked: _Asked, facts: ClusterFacts) -> Iterator[Finding]:
    """The node's plugin is too new, or nothing chooses cards."""
    names = {name for limits in asked.limits.values() for name in limits} & {each.full_name for each in GpuResource}
    if facts.nodes is not None:
        nodes = [node for node in facts.nodes if _offers(node, names)]
        if not nodes:
            offered = " or ".join(sorted(names)) or "Intel GPUs"
            text = f"No node offers {offered} now; unless one comes, servers of this choice stay pending."
            yield asked.finding(rules.PLUGIN, text, Level.WARNING)
        too_new = [node for node in nodes if (versions := _plugin_versions(node)) and min(versions) >= _FIRST_WITHOUT]
        if too_new:
            which = "all nodes" if len(too_new) == len(nodes) else f"{len(too_new)} of {len(nodes)} nodes"
            text = (
                f"Intel's GPU plugin on {which} with these GPUs is 0.34 or later, which does not share GPUs and "
                "ignores gas annotations. Use the Intel DRA driver (device_claims), or plugin 0.33."
            )
            yield asked.finding(rules.PLUGIN, text, Level.ERROR if len(too_new) == len(nodes) else Level.WARNING)
    needs_gas = (
        asked.request.scheduler is CardScheduler.GAS if asked.request else CARDS_ANNOTATION not in asked.annotations
    )
    if needs_gas and facts.gas_runs is False:
        text = f"GPU Aware Scheduling does not run here (no pod is labelled {GAS_LABEL}), so nothing chooses cards; "
        mend = "set scheduler: none, and the hub does." if asked.request else "use intel_gas, and the hub does."
        yield asked.finding(rules.SCHEDULER, text + mend, Level.ERROR)


def _tiles(asked: _Asked, facts: ClusterFacts) -> Iterator[Finding]:
    """The annotation names tiles of cards that the container does not have, or that no card has."""
    value = asked.annotations.get(TILES_ANNOTATION)
    if not value:
        return
    rule = rules.TILES
    try:
        tiles = parse_tiles(value)
        cards = parse_cards(asked.annotations.get(CARDS_ANNOTATION, ""))
    except AnnotationError as error:
        yield asked.finding(rule, f"{TILES_ANNOTATION} or {CARDS_ANNOTATION} cannot be understood: {error}.")
        return
    for index, section in enumerate(tiles):
        own = cards[index] if index < len(cards) else ()
        strange = sorted({card for card, _ in section} - set(own))
        if strange:
            text = (
                f"{TILES_ANNOTATION} names {', '.join(strange)}, which {CARDS_ANNOTATION} does not give the container."
            )
            yield asked.finding(rule, text)
    most = max((gpus.capacity[r].tiles for gpus in _known_gpus(facts) for r in GpuResource), default=None)
    highest = max((tile for section in tiles for _, numbers in section for tile in numbers), default=0)
    if most is not None and highest >= most:
        text = f"{TILES_ANNOTATION} names tile gt{highest}; the cards of this cluster have {most} tiles, from gt0."
        yield asked.finding(rule, text)


def _combinations(asked: _Asked) -> Iterator[Finding]:
    """Combinations that GAS refuses in a pod."""
    rule = rules.COMBINATION
    names = {name for limits in asked.limits.values() for name in limits}
    if {each.full_name for each in GpuResource} <= names:
        yield asked.finding(rule, "A pod gets i915 or xe GPUs, never both.")
    same = [name for name in asked.annotations.get(SAME_GPU_ANNOTATION, "").split(",") if name]
    monitoring = {each.monitoring_name for each in GpuResource}
    if same and len(same) < 2:
        yield asked.finding(rule, "same-gpu is about two containers at the least.")
    for name in same:
        limits = asked.limits.get(name, {})
        if asked.count(name) != 1 or limits.get(TILES) or monitoring & set(limits):
            text = f"Container {name} shares a GPU (same-gpu): it must ask for one GPU, no tiles and no monitoring."
            yield asked.finding(rule, text)
    if XE_LINK_ANNOTATION not in asked.annotations:
        return
    if same:
        yield asked.finding(rule, "Xe Links join several GPUs, same-gpu means one: use one of the two.")
    for name, limits in asked.limits.items():
        count = asked.count(name)
        if count % 2:
            yield asked.finding(rule, f"With Xe Links GPUs come in pairs; {name} asks for {count}.")
        elif limits.get(TILES, 0) != count or monitoring & set(limits):
            text = f"With Xe Links container {name} must ask for as many tiles as GPUs, and for no monitoring."
            yield asked.finding(rule, text)


def _cards(asked: _Asked, request: GpuRequest, facts: ClusterFacts) -> Iterator[Finding]:
    """Problems of the hub's own choice of cards."""
    if request.scheduler is CardScheduler.GAS:
        if request.prefer:
            text = "prefer has no effect where GAS chooses cards; it goes by the node's label gas-prefer-gpu."
            yield asked.finding(rules.SCHEDULER, text, Level.INFO)
        return
    if MASK_ENV in asked.environment and any(each.need.tiles for each in request.containers):
        text = f"The profile's own {MASK_ENV} stays, and hides which tiles were chosen; take it out."
        yield asked.finding(rules.TILES, text, Level.WARNING)
    if facts.nodes is None:
        return
    offering = [node for node in facts.nodes if _offers(node, {request.resource.full_name})]
    known = [gpus for node in offering if (gpus := node_gpus(node)) is not None]
    for gpus in known:
        for warning in gpus.warnings:
            yield asked.finding(rules.LABELS, f"Node {gpus.node}: {warning}.")
    if offering and not known:
        text = "No node with these GPUs has the label gpu.intel.com/gpu-numbers, so the hub cannot choose cards."
        yield asked.finding(rules.LABELS, text, Level.WARNING)
    if known and choose(request, known, {}, [each.name for each in request.containers]) is None:
        text = "No node has enough cards for this choice, even if all were free."
        yield asked.finding(rules.CAPACITY, text, Level.WARNING)


def _known_gpus(facts: ClusterFacts) -> Sequence[NodeGpus]:
    return [gpus for node in facts.nodes or () if (gpus := node_gpus(node)) is not None]


def _plugin_versions(node: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Versions of Intel's GPU plugin among a node's images: one of them runs, as the kubelet keeps older images. Images
    without a version are ignored.
    """
    names = [name for image in _list(_mapping(node.get("status")).get("images")) for name in image.get("names") or ()]
    return [(int(found[1]), int(found[2])) for name in names if (found := _PLUGIN_IMAGE.search(str(name)))]


def _offers(node: Mapping[str, Any], names: set[str]) -> bool:
    allocatable = _amounts(_mapping(node.get("status")).get("allocatable"))
    return any(allocatable.get(name, 0) > 0 for name in names or {each.full_name for each in GpuResource})


def _amounts(*resources: object) -> dict[str, int]:
    """Whole amounts by name; Kubernetes itself refuses invalid quantities."""
    found = {}
    for each in resources:
        for name, value in _mapping(each).items():
            try:
                found[str(name)] = Quantity.parse(value if isinstance(value, int) else str(value)).value()
            except QuantityError:
                continue
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []
