"""Settings about placeholders, validated early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster_index import Namespaces
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.policy import MOST_PLACEHOLDERS, Policy, ReplicaRange
from dra_spawner.profiles.problems import Problem, shown

__all__ = ["ControllerSettings", "PlaceholderSettingsError", "read_replicas"]

_KEYS: Final = ("min", "max", "floor")


class PlaceholderSettingsError(ValueError):
    """Raised for invalid targets of placeholders, with every problem."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """All settings about placeholders.

    Attributes
    ----------
    hub_namespace
        Namespace in which the hub publishes its shapes.
    replicas
        By name of the choice (`planner.choice_names`); empty for no placeholders.
    policy
        Policy without shapes and targets.
    user_namespaces
        Whether each user has a namespace, as with KubeSpawner's ``enable_user_namespaces``.
    shapes_config_map
        Name of the ConfigMap with the published shapes.
    capacity_buffers
        Whether shapes without devices have CapacityBuffers instead of placeholders.
    """

    hub_namespace: str
    replicas: Mapping[str, ReplicaRange] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    placeholders: PlaceholderSettings = field(default_factory=PlaceholderSettings)
    user_namespaces: bool = False
    shapes_config_map: str = names.SHAPES_CONFIG_MAP
    capacity_buffers: bool = False

    @property
    def namespaces(self) -> Namespaces:
        """Namespaces that are read: servers in all namespaces if users have their own, but no other objects there."""
        ours = frozenset((self.placeholders.namespace,))
        return Namespaces(None if self.user_namespaces else ours, ours, ours | {self.hub_namespace})

    @property
    def reservation(self) -> timedelta:
        """Duration of a reservation."""
        return self.policy.grace.reservation


def read_replicas(value: object, path: str = "placeholders") -> dict[str, ReplicaRange]:
    """The targets by choice, as configured: ``{"gpu-slice": {"min": 2, "max": 20}}``.

    ``max`` is twice ``min`` by default; with a ``min`` of 0, as many as there are pending servers.

    Raises
    ------
    PlaceholderSettingsError
        With path, found and allowed values of every problem.
    """
    problems: list[Problem] = []
    if not isinstance(value, Mapping):
        raise PlaceholderSettingsError(
            [Problem(path, shown(value), "a mapping of names of choices to numbers of placeholders")]
        )
    found: dict[str, ReplicaRange] = {}
    for name, each in value.items():
        where = f"{path}.{name}"
        if not isinstance(name, str) or not name:
            problems.append(Problem(path, shown(name), "names of choices, like gpu-slice or gpu-slice/memory=large"))
        elif not isinstance(each, Mapping):
            problems.append(Problem(where, shown(each), 'a mapping like {"min": 2, "max": 20}'))
        else:
            found[name] = _replicas(each, where, problems)
    if problems:
        raise PlaceholderSettingsError(problems)
    return found


def _replicas(value: Mapping[object, object], path: str, problems: list[Problem]) -> ReplicaRange:
    for key in value:
        if key not in _KEYS:
            problems.append(Problem(f"{path}.{key}", shown(key), f"the keys {', '.join(_KEYS)}"))
    if "min" not in value:
        problems.append(Problem(f"{path}.min", "", "the number of placeholders at all times"))
        return ReplicaRange(0, 0)
    minimum = _number(value["min"], f"{path}.min", 0, MOST_PLACEHOLDERS, problems)
    # A target of 0 still allows placeholders for pending pods.
    usual = 2 * minimum or MOST_PLACEHOLDERS
    maximum = _number(value.get("max", usual), f"{path}.max", minimum, MOST_PLACEHOLDERS, problems)
    floor = value.get("floor")
    return ReplicaRange(
        minimum, maximum, None if floor is None else _number(floor, f"{path}.floor", 0, minimum, problems)
    )


def _number(value: object, path: str, least: int, most: int, problems: list[Problem]) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    problems.append(Problem(path, shown(value), f"a whole number from {least} to {most}"))
    return least
