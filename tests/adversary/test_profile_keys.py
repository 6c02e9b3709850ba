"""Every key of the profile language with hostile values: a value from a choice or free text is read or refused."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

import pytest

import dra_spawner.profiles
from dra_spawner.profiles.compiler.claim_plan import compile_claims
from dra_spawner.profiles.compiler.claim_templates import expand_claims
from dra_spawner.profiles.compiler.language import parse_device_claims
from dra_spawner.profiles.compiler.vlan_policy import parse_vlan_policy
from dra_spawner.profiles.intel_gas.gas_language import parse_intel_gas
from dra_spawner.profiles.syntax.keys import Key
from dra_spawner.profiles.syntax.problems import ProfileError
from dra_spawner.profiles.syntax.reading import ValueReader
from dra_spawner.profiles.syntax.templates import SAMPLE_VALUES
from dra_spawner.profiles.user_form.policy_choices import read_policy_choices
from tests.adversary.cpu_limit import cpu_limit
from tests.adversary.hostile_values import spoiled
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.profiles.accepted import ACCEPTED

INTEL: Final[Mapping[str, Any]] = {
    "resource": "i915",
    "count": 1,
    "millicores": 500,
    "memory": "1Gi",
    "tiles": 1,
    "containers": {"notebook": {"count": 1, "millicores": 1, "memory": "1Gi", "tiles": 1}},
    "policy": "packed",
    "prefer": ["card0"],
    "allow": ["card0", "card1"],
    "deny": ["card2"],
    "same_gpu": [],
    "single_numa": True,
    "xe_link": False,
    "hierarchy": "FLAT",
    "scheduler": "none",
}
VLANS: Final[Mapping[str, Any]] = {
    "by": "group",
    "mapping": {
        "a": {"id": 7, "address": "10.0.0.2/24", "subnet": "10.0.0.0/24", "gateway": "10.0.0.1"},
        "b": 8,
    },
    "range": "100-199",
    "exclude": [150],
    "groups": ["a", "b"],
}
FROM_POLICY: Final[Mapping[str, Any]] = {
    "claim": "gpu",
    "request": "gpu",
    "capacity": "memory",
    "at_most": 8,
    "smallest": "1Gi",
    "largest": "40Gi",
    "default": "10Gi",
    "fallback": ["5Gi", "10Gi"],
}

_CLASS: Final = {"device_class": "gpu.example.com"}
_PROPERTIES: Final = {
    "product": "A100*",
    "min_memory": "20Gi",
    "compute_capability": ">=8.0",
    "numa_node": 0,
    "pci_bus_id": "0000:8A:00.0",
    "rdma": True,
}
_COMPANIONS: Final = ACCEPTED["companions"]
MORE: Final[Mapping[str, Any]] = {
    "alternative with all": {"gpu": {"first_available": {"a": {**_CLASS, **_PROPERTIES}}}},
    "listed alternative with all": {"gpu": {"first_available": [{"name": "a", **_CLASS, **_PROPERTIES}]}},
    "claim with containers": {"gpu": {"claim": "c", "containers": {"notebook": "all"}}},
    **{
        f"companions {where}": {"gpu": {**form, "companions": next(iter(_COMPANIONS.values()))["companions"]}}
        for where, form in dict[str, dict[str, Any]](
            {
                "beside alternatives": {"first_available": {"a": _CLASS}},
                "in long form": {"requests": {"a": _CLASS}},
                "of a claim": {"claim": "c"},
                "of a spec": {"spec": {"devices": {}}},
            }
        ).items()
    },
}
"""What no value in `ACCEPTED` says."""
IS_LONG: Final = example_count(100) == 100
SHARE: Final = 0.25
"""Of all pairs of a place and a hostile value."""
NOWHERE: Final = {("keys of a request", "first_available")}
"""In a table for the sake of messages: a request with alternatives is read by another."""


def claims(value: Any) -> None:
    parsed = parse_device_claims(value, admin_access=True)
    compile_claims(expand_claims(parsed, SAMPLE_VALUES, "device_claims"))


def from_policy(value: Any) -> None:
    offered = {"gpu": {"device_class": "gpu.example.com", "capacity": {"memory": "5Gi"}}}
    _, problems = read_policy_choices({"from_policy": value}, offered, "choices")
    if problems:
        raise ProfileError(problems)


WRITTEN: Final[Mapping[str, tuple[Callable[[Any], object], Any]]] = {
    "intel_gas": (parse_intel_gas, INTEL),
    "vlans": (parse_vlan_policy, VLANS),
    "from_policy": (from_policy, FROM_POLICY),
    **{name: (claims, value) for name, value in {**ACCEPTED, **MORE}.items()},
}
"""Name -> who reads it, and a value that is right. A new key gets into one of them, into `MORE` or `ACCEPTED`."""


def keys_of_the_language() -> Iterator[Key]:
    """Of all tables of keys, in whatever module they stand."""
    path = dra_spawner.profiles.__path__
    for found in pkgutil.walk_packages(path, "dra_spawner.profiles."):
        for table in vars(importlib.import_module(found.name)).values():
            if isinstance(table, Mapping):
                yield from (each for each in table.values() if isinstance(each, Key))


def test_each_key_is_in_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[int, Key] = {}
    admitted: set[tuple[str, str]] = set()
    written: set[tuple[str, str]] = set()
    known_keys = ValueReader.known_keys

    def noted(self: ValueReader, entry: Mapping[str, object], path: str, keys: Mapping[str, Key], what: str) -> None:
        admitted.update((what, name) for name in keys)
        read.update({id(key): key for key in keys.values()})
        written.update((what, name) for name in entry)
        known_keys(self, entry, path, keys, what)

    monkeypatch.setattr(ValueReader, "known_keys", noted)
    for reader, value in WRITTEN.values():
        reader(value)
    for key in keys_of_the_language():
        assert id(key) in read, f"no value in WRITTEN has the key that means: {key.meaning}"
    missing = sorted({f"{name} (one of the {what})" for what, name in admitted - written - NOWHERE})
    assert not missing, "\n".join(("No value in WRITTEN has these keys: add each to one.", *missing))


@all_of_them("reader, value", WRITTEN)
def test_hostile_values_of_each_key(reader: Callable[[Any], object], value: Any) -> None:
    """A `ProfileError` with short problems, or claims; nothing else, and soon. The tier *long* has all hostile values."""
    reader(value)
    chance = Random(1)
    for changed, what in spoiled(value, lambda: IS_LONG or chance.random() < SHARE):
        problems: tuple[object, ...] = ()
        with cpu_limit():
            try:
                reader(changed)
            except ProfileError as error:
                problems = error.problems
        assert max(map(len, map(str, problems)), default=0) < 5_000, what
