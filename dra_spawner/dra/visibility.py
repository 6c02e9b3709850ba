"""Descriptions of devices as selectors and constraints see them: without the attributes that they cannot see.

Drivers publish attributes that no two devices share (UUIDs, addresses). What does not look at them need not be asked
again for every device.
"""

from __future__ import annotations

from collections.abc import Hashable

from dra_spawner.dra.cel.influences import OWN_DOMAIN
from dra_spawner.dra.devices import DeviceDescription

__all__ = ["Visibility"]


class Visibility:
    """What is seen of a description.

    Parameters
    ----------
    attributes
        Attributes that are seen: ``domain/name``, ``domain/`` for all of a domain (`OWN_DOMAIN` is that of the
        device's driver), or a name as published; None for all attributes. Everything else is always seen, as are
        attributes that can make any selector fail.
    """

    __slots__ = ("_attributes", "_published")

    def __init__(self, attributes: frozenset[str] | None) -> None:
        self._attributes = attributes
        self._published: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {}

    def seen(self, description: DeviceDescription) -> Hashable:
        """Equal for descriptions that cannot be told apart."""
        if self._attributes is None:
            return description
        published = self._published.get(description.driver)
        if published is None:
            published = self._published[description.driver] = _published_names(self._attributes, description.driver)
        names, domains = published
        attributes = description.attributes
        if not names and not domains:
            return description.common_key
        if not domains:
            return description.common_key, *map(attributes.get, names)
        of_domains = [
            (name, attribute)
            for name, attribute in attributes.items()
            if (name.partition("/")[0] if "/" in name else description.driver) in domains
        ]
        of_domains.sort(key=lambda item: item[0])
        return description.common_key, *map(attributes.get, names), tuple(of_domains)


def _published_names(attributes: frozenset[str], driver: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names under which a driver's devices may have these attributes, and domains that are seen as a whole."""
    names = set()
    domains = set()
    for attribute in attributes:
        domain, slash, name = attribute.partition("/")
        if slash and not name:
            domains |= {domain, driver} if domain == OWN_DOMAIN else {domain}
            continue
        names.add(attribute)
        if slash and domain in (driver, OWN_DOMAIN):
            names |= {name, f"{driver}/{name}"}
    return tuple(sorted(names)), frozenset(domains)
