"""Settings about placeholders, validated early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_spawner import names
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS, Policy, ReplicaRange
from dra_spawner.profiles.syntax.problems import shown
from dra_spawner.profiles.syntax.settings_reader import SettingsReader, refuse_settings


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
    settings_config_map
        Name of the ConfigMap with overrides by the API.
    max_nodes
        The most nodes that there may be, by kind of node.
    has_autoscaler
        Whether an autoscaler is known to add nodes.
    drain_sick_devices
        The most devices that the service drains by itself at a time, as their nodes report that they do not work.
    tickets_namespace
        Namespace of the queue for devices; empty for the hub's. `Policy.tickets` says whether there is one.
    """

    hub_namespace: str
    replicas: Mapping[str, ReplicaRange] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    placeholders: PlaceholderSettings = field(default_factory=PlaceholderSettings)
    user_namespaces: bool = False
    shapes_config_map: str = names.SHAPES_CONFIG_MAP
    settings_config_map: str = names.SETTINGS_CONFIG_MAP
    max_nodes: Mapping[str, int] = field(default_factory=dict)
    has_autoscaler: bool = False
    drain_sick_devices: int = 0
    tickets_namespace: str = ""

    @property
    def has_placeholders(self) -> bool:
        """Whether there may be placeholders: for targets, or for tickets."""
        return bool(self.replicas) or self.policy.tickets is not None

    @property
    def namespaces(self) -> Namespaces:
        """Namespaces that are read: servers in all namespaces if users have their own, but no other objects there."""
        ours = frozenset((self.placeholders.namespace,))
        installation = self.placeholders.labels.get(names.INSTALLATION, "")
        return Namespaces(None if self.user_namespaces else ours, ours, ours | {self.hub_namespace}, installation)


def read_replicas(value: object, path: str = "placeholders") -> dict[str, ReplicaRange]:
    """The targets by choice, as configured: ``{"gpu-slice": {"min": 2, "max": 20}}``.

    ``max`` is twice ``min`` by default; with a ``min`` of 0, as many as there are pending servers.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    choices = SettingsReader(value, path, "a mapping of names of choices to numbers of placeholders")
    found: dict[str, ReplicaRange] = {}
    for name, each in choices.given.items():
        if not isinstance(name, str) or not name:
            choices.refuse_itself(shown(name), "names of choices, like gpu-slice or gpu-slice/memory=large")
        else:
            found[name] = _replicas(choices.inner(name, each, 'a mapping like {"min": 2, "max": 20}'))
    refuse_settings(choices.problems)
    return found


def _replicas(reader: SettingsReader) -> ReplicaRange:
    if not reader.required("min", "the number of placeholders at all times"):
        minimum = 0
    else:
        minimum = reader.whole_number("min", 0, 0, MAX_PLACEHOLDERS)
    # A target of 0 still allows placeholders for pending pods.
    maximum = reader.whole_number("max", 2 * minimum or MAX_PLACEHOLDERS, minimum, MAX_PLACEHOLDERS)
    floor = reader.whole_number("floor", 0, 0, minimum) if reader.value("floor") is not None else None
    reader.refuse_other_keys()
    return ReplicaRange(minimum, maximum, floor)
