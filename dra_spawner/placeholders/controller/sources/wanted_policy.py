"""The policy that follows from the settings, the published shapes, and overrides."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from dra_spawner.common.log_once import LogOnce
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, policy_with

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicySources:
    """What a policy follows from, besides the settings of the service.

    Attributes
    ----------
    is_usable
        Whether valid shapes were ever read.
    has_devices
        Whether the cluster has an API of devices.
    """

    published: PublishedShapes
    is_usable: bool
    has_devices: bool
    overrides: Overrides

    def is_same(self, other: PolicySources) -> bool:
        """Whether nothing has changed, without a look into the parts."""
        return (
            self.published is other.published
            and self.overrides is other.overrides
            and (self.is_usable, self.has_devices) == (other.is_usable, other.has_devices)
        )


@dataclass(frozen=True, slots=True)
class WantedPolicy:
    """The result.

    Attributes
    ----------
    replicas
        By published name of the choice, without settings that name no choice.
    names
        Names of choices by id of their shape: those with own targets and short names first.
    """

    policy: Policy
    problems: tuple[str, ...] = ()
    replicas: Mapping[str, ReplicaRange] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class WantedPolicies:
    """Computes a policy once for each change of its sources."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._last: tuple[PolicySources, WantedPolicy] | None = None
        self._log_once = LogOnce(log, "Placeholders: %s")

    def of(self, sources: PolicySources) -> WantedPolicy:
        """The policy; the same object until something changes."""
        if self._last is None or not self._last[0].is_same(sources):
            self._last = sources, self._want(sources)
        return self._last[1]

    def _want(self, sources: PolicySources) -> WantedPolicy:
        published = sources.published
        shape_of = {name: each.id for name, each in published.shapes.items()}
        base = sources.overrides.applied_to(self._settings.policy, shape_of)
        if not self._settings.has_placeholders:
            return WantedPolicy(replace(base, shapes={}, replicas={}), names=_names(published, {}))
        if not sources.is_usable:
            return WantedPolicy(replace(base, shapes={}, replicas={}, is_complete=False))
        overrides = sources.overrides
        replicas = overrides.classes.applied_to({**self._settings.replicas, **overrides.replicas})
        policy, problems = policy_with(base, published, replicas)
        by_choice = {
            choice: each
            for name, each in replicas.items()
            if (choice := find_choice(name, published.shapes)) is not None
        }
        if not sources.has_devices:
            with_devices = {name for name in by_choice if published.shapes[name].wants_devices}
            kept = {shape: each for shape, each in policy.replicas.items() if not policy.shapes[shape].wants_devices}
            policy = replace(policy, replicas=kept)
            if with_devices:
                names = ", ".join(sorted(with_devices))
                problems.append(f"placeholders of {names}: none are created, as the cluster has no devices")
        self._log_once.present(problems)
        return WantedPolicy(policy, tuple(problems), by_choice, _names(published, by_choice))


def _names(published: PublishedShapes, first: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, shape in published.shapes.items():
        found.setdefault(shape.id, []).append(name)
    return {
        shape: tuple(sorted(names, key=lambda name: (name not in first, len(name), name)))
        for shape, names in found.items()
    }
