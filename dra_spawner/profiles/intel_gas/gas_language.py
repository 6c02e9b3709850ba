"""Parsing and validation of ``intel_gas``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles.intel_gas.ledger import NO_NEED, Need
from dra_spawner.profiles.intel_gas.names import CardPolicy, CardScheduler, GpuResource, Hierarchy
from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.keys import Key, Keys, schema_of_keys
from dra_spawner.profiles.syntax.reading import ValueReader
from dra_spawner.profiles.syntax.rules import ValueRule, either, one_of, text, whole_number

#: The container in which KubeSpawner starts the notebook server.
NOTEBOOK = "notebook"
#: More cards than any node has.
MAX_CARDS = 64
MAX_CONTAINERS = 32


def _number(allowed: str, least: int, most: int) -> ValueRule:
    """A whole number, or the digits of one: forms send text."""
    digits = text("", r"[1-9][0-9]{0,5}", 6)
    return either(
        allowed,
        whole_number("", least, most),
        ValueRule("", digits.schema, lambda value: digits.accepts(value) and least <= int(str(value)) <= most),
    )


_COUNT = _number(f"a whole number from 1 to {MAX_CARDS}", 1, MAX_CARDS)
_MILLICORES = _number("a whole number from 1 to 1000, thousandths of a card", 1, 1000)
_TILES = _number("a whole number from 1 to 64", 1, 64)
_CARD = text("a card such as card0", r"card(?:0|[1-9][0-9]{0,3})", 8)
_RESOURCE = one_of("i915 or xe", *(each.value for each in GpuResource))
_POLICY = one_of("first-fit, balanced or packed", *(each.value for each in CardPolicy))
_HIERARCHY = one_of("FLAT, COMPOSITE or COMBINED", *(each.value for each in Hierarchy))
_SCHEDULER = one_of("gas, none or auto", *(each.value for each in CardScheduler))


def _cards(meaning: str) -> Key:
    return Key(meaning, {"type": "array", "items": _CARD.schema, "maxItems": MAX_CARDS})


#: Keys of a container; beside ``containers`` they hold for all.
AMOUNT_KEYS: Keys = {
    "count": Key("Number of different cards; default 1.", _COUNT.schema),
    "millicores": Key("Thousandths of each card.", _MILLICORES.schema),
    "memory": Key("Memory of each card.", rules.QUANTITY.schema),
    "tiles": Key("Tiles of each card.", _TILES.schema),
}
INTEL_GAS_KEYS: Keys = {
    "resource": Key("Kernel driver of the GPUs: i915 (default) or xe.", _RESOURCE.schema),
    **AMOUNT_KEYS,
    "containers": Key(
        "Containers that get cards; default: the notebook's. Keys of a container override the common ones.",
        {
            "type": "object",
            "propertyNames": rules.NAME.schema,
            "maxProperties": MAX_CONTAINERS,
            "additionalProperties": {
                "type": "object",
                "properties": {name: dict(key.schema) for name, key in AMOUNT_KEYS.items()},
                "additionalProperties": False,
            },
        },
    ),
    "policy": Key("Which of several cards that fit: first-fit (default), balanced or packed.", _POLICY.schema),
    "prefer": _cards("Cards to be tried first."),
    "allow": _cards("Only these cards."),
    "deny": _cards("Not these cards."),
    "same_gpu": Key(
        "Containers that share one card; each asks for one, and for no tiles.",
        {"type": "array", "items": rules.NAME.schema, "maxItems": MAX_CONTAINERS},
    ),
    "single_numa": Key("Whether all cards must be at one NUMA node.", rules.FLAG.schema),
    "xe_link": Key("Whether cards come in pairs with an Xe Link, one tile of each.", rules.FLAG.schema),
    "hierarchy": Key(
        "ZE_FLAT_DEVICE_HIERARCHY of the containers; left out: as their environment says.", _HIERARCHY.schema
    ),
    "scheduler": Key("Who chooses cards: gas, none (the hub) or auto (default).", _SCHEDULER.schema),
}


@dataclass(frozen=True, slots=True)
class ContainerGpuRequest:
    """Cards of one container.

    Attributes
    ----------
    count
        Number of different cards.
    need
        Amounts of each card.
    """

    name: str
    count: int = 1
    need: Need = NO_NEED


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """Cards of a server; the attributes are the keys of ``intel_gas``."""

    containers: tuple[ContainerGpuRequest, ...] = (ContainerGpuRequest(NOTEBOOK),)
    resource: GpuResource = GpuResource.I915
    policy: CardPolicy = CardPolicy.FIRST_FIT
    prefer: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    same_gpu: tuple[str, ...] = ()
    single_numa: bool = False
    xe_link: bool = False
    hierarchy: Hierarchy | None = None
    scheduler: CardScheduler = CardScheduler.AUTO


def parse_intel_gas(value: object, path: str = "intel_gas") -> GpuRequest | None:
    """Parse and validate ``intel_gas``; ``None`` if it is empty.

    Raises
    ------
    ProfileError
        With every problem found.
    """
    if value is None or value == {}:
        return None
    reader = _GpuReader()
    return reader.accepted(reader.request(value, path))


def intel_gas_schema() -> dict[str, Any]:
    """JSON Schema of ``intel_gas``; it allows more than the parser."""
    return schema_of_keys(INTEL_GAS_KEYS)


class _GpuReader(ValueReader):
    """Reads ``intel_gas``."""

    def request(self, value: object, path: str) -> GpuRequest | None:
        entry = self.keyed(value, path, INTEL_GAS_KEYS, "keys of intel_gas", "a mapping such as {millicores: 500}")
        if entry is None:
            return None
        entry = {key: each for key, each in entry.items() if each is not None}
        containers = self._containers(entry, path)
        request = GpuRequest(
            containers=containers,
            resource=GpuResource(self._one_of(_RESOURCE, entry, "resource", path) or GpuResource.I915),
            policy=CardPolicy(self._one_of(_POLICY, entry, "policy", path) or CardPolicy.FIRST_FIT),
            prefer=self._names(_CARD, entry, "prefer", path),
            allow=self._names(_CARD, entry, "allow", path),
            deny=self._names(_CARD, entry, "deny", path),
            same_gpu=self._names(rules.NAME, entry, "same_gpu", path),
            single_numa=self._flag(entry, "single_numa", path),
            xe_link=self._flag(entry, "xe_link", path),
            hierarchy=Hierarchy(found) if (found := self._one_of(_HIERARCHY, entry, "hierarchy", path)) else None,
            scheduler=CardScheduler(self._one_of(_SCHEDULER, entry, "scheduler", path) or CardScheduler.AUTO),
        )
        if not self.problems:
            self._agreement(request, path)
        return request

    def _containers(self, entry: Mapping[str, object], path: str) -> tuple[ContainerGpuRequest, ...]:
        common = {key: entry[key] for key in AMOUNT_KEYS if key in entry}
        self._amounts(common, path)
        if "containers" not in entry:
            return (_container_wish(NOTEBOOK, common),)
        where = f"{path}.containers"

        def container(name: str, value: object, own_path: str) -> ContainerGpuRequest | None:
            own = self.keyed(value or {}, own_path, AMOUNT_KEYS, "keys of a container", "a mapping such as {tiles: 1}")
            if own is None:
                return None
            own = {key: each for key, each in own.items() if each is not None}
            self._amounts(own, own_path)
            return _container_wish(name, {**common, **own})

        found = self.named(entry["containers"], where, "what a container gets", MAX_CONTAINERS, container)
        if not found and not self.problems:
            self.missing(where, "at least one container; leave the key out for the notebook's")
        return found

    def _amounts(self, entry: Mapping[str, object], path: str) -> None:
        """Record problems of amounts, with their paths."""
        for key, rule in _AMOUNT_RULES.items():
            if key in entry:
                self.follows(rule, entry[key], f"{path}.{key}")

    def _one_of(self, rule: ValueRule, entry: Mapping[str, object], key: str, path: str) -> str:
        return self.text(rule, entry[key], f"{path}.{key}") if key in entry else ""

    def _flag(self, entry: Mapping[str, object], key: str, path: str) -> bool:
        return key in entry and self.follows(rules.FLAG, entry[key], f"{path}.{key}") and bool(entry[key])

    def _names(self, rule: ValueRule, entry: Mapping[str, object], key: str, path: str) -> tuple[str, ...]:
        where = f"{path}.{key}"
        found = self.listed(entry.get(key), where, key, MAX_CARDS, lambda each, at: self.text(rule, each, at) or None)
        if len(set(found)) < len(found):
            self.refuse(where, list(found), "each once")
        return found

    def _agreement(self, request: GpuRequest, path: str) -> None:
        """Refuse combinations that GAS refuses or the plugin gets wrong."""
        by_name = {each.name: each for each in request.containers}
        if len({bool(each.need.tiles) for each in request.containers}) > 1:
            # The plugin counts filled sections of gas-container-tiles, not containers with GPUs.
            tiles = {each.name: each.need.tiles for each in request.containers}
            self.refuse(f"{path}.containers", tiles, "tiles for all containers or for none: masks would be mixed up")
        if request.same_gpu:
            where = f"{path}.same_gpu"
            if len(request.same_gpu) < 2:
                self.refuse(where, list(request.same_gpu), "at least two containers")
            for name in request.same_gpu:
                if name not in by_name:
                    self.refuse(where, name, f"one of the containers: {', '.join(by_name)}")
                elif by_name[name].count != 1 or by_name[name].need.tiles:
                    self.refuse(where, name, "containers that ask for one card and for no tiles")
        if not request.xe_link:
            return
        if request.same_gpu:
            self.refuse(f"{path}.xe_link", True, "either xe_link or same_gpu")
        for each in request.containers:
            if each.count % 2:
                self.refuse(f"{path}.xe_link", f"{each.count} cards for {each.name}", "an even count with xe_link")
            if each.need.tiles != 1:
                self.refuse(f"{path}.xe_link", f"{each.need.tiles} tiles for {each.name}", "tiles: 1 with xe_link")


_AMOUNT_RULES: Mapping[str, ValueRule] = {
    "count": _COUNT,
    "millicores": _MILLICORES,
    "memory": rules.QUANTITY,
    "tiles": _TILES,
}


def _container_wish(name: str, entry: Mapping[str, object]) -> ContainerGpuRequest:
    """A container's amounts, without the invalid ones, which are recorded problems."""
    good = {key: str(entry[key]) for key, rule in _AMOUNT_RULES.items() if key in entry and rule.accepts(entry[key])}
    return ContainerGpuRequest(
        name,
        int(good.get("count", "1")),
        Need(
            millicores=int(good.get("millicores", "0")),
            memory_bytes=Quantity.parse(good.get("memory", "0")).value(),
            tiles=int(good.get("tiles", "0")),
        ),
    )
