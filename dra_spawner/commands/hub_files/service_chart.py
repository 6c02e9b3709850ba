"""Values of the chart ``dra-spawner`` in a tree of values: alone, beside a hub's, or in an umbrella chart. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner import names
from dra_spawner.commands.hub_files.values_tree import at, without_nulls

#: Keys of ``service`` in the chart's values, which sections of that name in other charts lack.
_SERVICE_KEYS: Final = frozenset(("config", "extraConfig"))
_LONGEST_NAME: Final = 255
_PLACEHOLDER_KEYS: Final = frozenset(("enabled", "targets"))


@dataclass(frozen=True, slots=True)
class ServiceValues:
    """Values of the chart for one service.

    Attributes
    ----------
    prefix
        Path of the values in their files, empty or with a dot at its end.
    given
        Values as the files have them.
    is_chart
        Whether they are values of the chart; else of a configuration file without it.
    """

    prefix: str
    given: Mapping[str, Any]
    is_chart: bool = True

    @classmethod
    def of_config(cls, settings: Mapping[str, Any]) -> ServiceValues:
        """The settings of a configuration file."""
        return cls("c.DRASpawnerService.", {"service": {"config": dict(settings)}}, is_chart=False)

    @property
    def path(self) -> str:
        """Where the service's settings stand."""
        return f"{self.prefix}service.config" if self.is_chart else self.prefix.removesuffix(".")

    @property
    def name(self) -> str:
        """Name of the service in the hub."""
        found = at(self.given, "hub", "serviceName")
        return found[:_LONGEST_NAME] if isinstance(found, str) and found else names.HUB_SERVICE

    @property
    def has_placeholders(self) -> bool:
        """Whether the chart gives the rights for placeholders; without the chart that is not known."""
        return not self.is_chart or at(self.given, "placeholders", "enabled") is True

    @property
    def settings(self) -> dict[str, Any]:
        """The service's settings, as the chart writes them."""
        found: dict[str, Any] = {}
        configured = at(self.given, "service", "config")
        found |= configured if isinstance(configured, Mapping) else {}
        if (
            self.is_chart
            and self.has_placeholders
            and (targets := at(self.given, "placeholders", "targets")) is not None
        ):
            found["placeholders"] = targets
        if at(self.given, "userNamespaces") is True:
            found["user_namespaces"] = True
        if self._history and isinstance(found.get("history", {}), Mapping):
            found["history"] = self._history
        return found

    @property
    def _history(self) -> dict[str, Any]:
        configured = at(self.given, "service", "config", "history")
        found = dict(configured) if isinstance(configured, Mapping) else {}
        for key, name in (("keepDays", "keep_days"), ("url", "url")):
            if value := at(self.given, "history", key):
                found[name] = value
            elif value == 0 and value is not False:
                found[name] = 0
        return found


def services_in(values: Mapping[str, Any], path: str = "") -> Iterator[ServiceValues]:
    """Values of each service in values of the chart, or of charts that include it at any depth."""
    if _is_service(values):
        yield ServiceValues(path, without_nulls(values))
        return
    for name, below in values.items():
        if isinstance(below, Mapping):
            yield from services_in(below, f"{path}{name}.")


def service_of_hub(prefix: str, services: tuple[ServiceValues, ...]) -> ServiceValues | None:
    """The service beside a hub: the only one, or the one in the same umbrella chart."""
    around = prefix.removesuffix(".").rpartition(".")[0]
    near = [each for each in services if each.prefix.removesuffix(".").rpartition(".")[0] == around]
    found = near if len(services) > 1 else list(services)
    return found[0] if len(found) == 1 else None


def _is_service(values: Mapping[str, Any]) -> bool:
    service, placeholders = values.get("service"), values.get("placeholders")
    if isinstance(service, Mapping) and not _SERVICE_KEYS.isdisjoint(service):
        return True
    return isinstance(placeholders, Mapping) and bool(placeholders) and placeholders.keys() <= _PLACEHOLDER_KEYS
