"""Devices that the recorded verdicts are about."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.cel import CelDevice
from dra_spawner.dra.quantity import Quantity

_PLAIN: dict[str, dict[str, Any]] = {
    "s": {"string": "fish"},
    "i": {"int": 7},
    "b": {"bool": True},
    "v": {"version": "1.2.3-rc.1+b1"},
    "o.com/s": {"string": "x"},
}
_PLAIN_CAPACITY = {"mem": Quantity.parse("10Gi"), "o.com/frac": Quantity.parse("1500m")}
_LISTS: dict[str, dict[str, Any]] = {
    "names": {"strings": ["fish", "bird"]},
    "ints": {"ints": [1, 2]},
    "flags": {"bools": [False, True]},
    "vers": {"versions": ["1.0.0", "2.0.0"]},
    "empty": {"ints": []},
}

FISH = CelDevice.from_device("d.com", _PLAIN, _PLAIN_CAPACITY)
FISH_WITH_LISTS = CelDevice.from_device("d.com", _PLAIN | _LISTS, _PLAIN_CAPACITY, list_attributes=True)
GPU = CelDevice.from_device(
    "gpu.example.com",
    {
        "product": {"string": "A100"},
        "index": {"int": 7},
        "mig": {"bool": False},
        "uuid": {"string": "gpu-0"},
        "count": {"int": -1},
        "driver": {"version": "550.54.14"},
        "other.example.com/product": {"string": "é"},
        "other.example.com/index": {"int": 1},
        "other.example.com/mig": {"bool": True},
        "other.example.com/driver": {"version": "1.2.3-rc.1+x"},
    },
    {
        "memory": Quantity.parse("10Gi"),
        "cores": Quantity.parse("108"),
        "other.example.com/memory": Quantity.parse("1500m"),
    },
    allow_multiple_allocations=True,
)
