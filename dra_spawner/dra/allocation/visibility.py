"""Descriptions of devices as selectors and constraints see them: without the attributes that they cannot see.

Drivers publish attributes that no two devices share (UUIDs, addresses). What does not look at them need not be asked
again for every device.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dra_spawner.dra.cel.evaluation.device import OWN_DOMAIN
from dra_spawner.dra.model.devices import DeviceDescription


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
        """Equal for descriptions that look the same to the selectors."""
        return description.common_key, self.attributes_of([description])

    def attributes_of(self, descriptions: Sequence[DeviceDescription]) -> Hashable:
        """What differs between descriptions, all of one driver, besides their ``common_key``."""
        if self._attributes is None or not descriptions:
            return tuple(descriptions)
        driver = descriptions[0].driver
        published = self._published.get(driver)
        if published is None:
            published = self._published[driver] = published_names(self._attributes, driver)
        names, domains = published
        seen: list[Hashable] = []
        for name in names:
            seen += [description.attributes.get(name) for description in descriptions]
        if domains:
            seen += [_of_domains(description, domains) for description in descriptions]
        return tuple(seen)


def _of_domains(description: DeviceDescription, domains: frozenset[str]) -> Hashable:
    return tuple(
        sorted(
            [
                (name, attribute.kind, attribute.value)
                for name, attribute in description.attributes.items()
                if (name.partition("/")[0] if "/" in name else description.driver) in domains
            ],
            key=lambda item: item[0],
        )
    )


def published_names(attributes: frozenset[str], driver: str) -> tuple[tuple[str, ...], frozenset[str]]:
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
