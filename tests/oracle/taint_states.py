"""Random states of slices and DeviceTaintRules, and the taints that devices have in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from dra_spawner.dra.model.objects import DeviceTaintRule, ResourceSlice
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.snapshot import Snapshot

__all__ = ["State", "Taints", "digest", "states", "taints_of"]

State = dict[str, Any]
Taints = dict[str, dict[str, list[str]]]
"""Taints of each device as ``key=value:effect``, sorted, by slice and device."""

_DRIVERS: Final = ("gpu.example.com", "nic.example.com")
_POOLS: Final = ("n1", "n2", "fabric")
_DEVICES: Final = ("d0", "d1", "d2", "d3")
_KEYS: Final = ("example.com/upkeep", "sick", "example.com/Hot_1")
_EFFECTS: Final = ("NoSchedule", "NoExecute", "None")


def states(number: int, seed: int) -> Iterator[State]:
    """Random states."""
    for each in range(number):
        random = Random(f"{seed}/{each}")
        yield {
            "slices": [_slice(f"s{at}", random) for at in range(random.randint(0, 5))],
            "rules": [_rule(f"r{at}", random) for at in range(random.randint(0, 4))],
        }


def _slice(name: str, random: Random) -> dict[str, Any]:
    devices: list[dict[str, Any]] = []
    for device in random.sample(_DEVICES, random.randint(0, 4)):
        taints = [_taint(random) for _ in range(random.choice((0, 0, 0, 1, 2)))]
        devices.append({"name": device, **({"taints": taints} if taints else {})})
    pool = {"name": random.choice(_POOLS), "generation": random.randint(1, 2), "resourceSliceCount": 1}
    spec = {"driver": random.choice(_DRIVERS), "pool": pool, "nodeName": "n1", "devices": devices}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _taint(random: Random) -> dict[str, str]:
    value = {"value": random.choice(("", "y"))} if random.random() < 0.5 else {}
    return {"key": random.choice(_KEYS), "effect": random.choice(_EFFECTS), **value}


def _rule(name: str, random: Random) -> dict[str, Any]:
    spec: dict[str, Any] = {"taint": _taint(random)}
    # Of eight rules, one has no selector, and one an empty one.
    match random.randint(0, 7):
        case 0:
            pass
        case 1:
            spec["deviceSelector"] = {}
        case 2:
            spec["deviceSelector"] = {"driver": None, "device": random.choice(_DEVICES)}
        case _:
            values = {"driver": (*_DRIVERS, "x.example.com"), "pool": (*_POOLS, "n9"), "device": (*_DEVICES, "d9")}
            spec["deviceSelector"] = {
                field: random.choice(known) for field, known in values.items() if random.random() < 0.6
            }
    return {"kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}


def taints_of(state: State, rules: SchedulerRules) -> Taints:
    """What devices have for the simulator; rules come one by one, before, between and after the slices."""
    random = Random(json.dumps(state))
    items: list[ResourceSlice | DeviceTaintRule] = [
        *map(ResourceSlice.from_json, state["slices"]),
        *map(DeviceTaintRule.from_json, state["rules"]),
    ]
    random.shuffle(items)
    first = random.randint(0, len(items))
    snapshot = Snapshot(items[:first], rules=rules)
    for item in items[first:]:
        snapshot.put(item)
    return {
        name: {
            device.id.device: sorted(f"{taint.key}={taint.value}:{taint.effect}" for taint in device.taints)
            for device in item.devices
        }
        for name, item in snapshot.slices.items()
    }


def digest(taints: Taints) -> str:
    """A short text that is equal for equal taints."""
    return hashlib.sha256(json.dumps(taints, sort_keys=True).encode()).hexdigest()[:12]
