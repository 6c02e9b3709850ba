"""Random nodes and ResourceSlices."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.oracle.odd_values import odd_amount, odd_counter, odd_policy

if TYPE_CHECKING:
    from tests.oracle.scenarios import Family

__all__ = ["DRIVERS", "MIG_PROFILES", "make_hardware", "random_amount"]

Json = dict[str, Any]

DRIVERS = ("gpu.example.com", "nic.example.com")
_NAMES = {"gpu.example.com": "gpu", "nic.example.com": "nic"}
_SIZES = {"gpu.example.com": ("memory", "Gi", "cores", ""), "nic.example.com": ("bandwidth", "G", "vlans", "")}


def make_hardware(rng: random.Random, family: Family) -> tuple[list[Json], list[Json]]:
    """Nodes, and the slices of every pool; slices in random order, as a lister has them."""
    nodes: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{index}", "labels": {"tier": rng.choice("abc"), "rank": str(rng.randint(0, 3))}},
        }
        for index in range(rng.randint(*family.nodes))
    ]
    names = [node["metadata"]["name"] for node in nodes]
    slices: list[Json] = []
    for driver in DRIVERS[: rng.choice((1, 2, 2, 2, 2))]:
        for node in names:
            if rng.random() < 0.9:
                slices += _make_pool(rng, family, driver, names, node)
        if rng.random() < family.network:
            slices += _make_pool(rng, family, driver, names, None)
    rng.shuffle(slices)
    return nodes, slices


def random_amount(rng: random.Random, family: Family, unit: str, low: int, high: int) -> str:
    """An amount in a unit; now and then one that is no whole number of it, or is written unusually."""
    amount = rng.randint(low, high)
    if family.edge_amounts and rng.random() < family.edge_amounts:
        return odd_amount(rng)
    if rng.random() >= family.odd_amounts:
        return f"{amount}{unit}"
    return rng.choice(
        (
            f"{amount}.5{unit}",
            f"{amount * 1000 + 500}m",
            f"{amount}M",
            f"{amount}k",
            f"{amount}500u",
            f"{amount}e6",
            f"{amount}E",
            f"{amount * 1024}{unit}" if unit in ("", "Gi") else f"{amount}000{unit}",
            f"0{amount}{unit}",
            f"+{amount}{unit}",
            "0",
        )
    )


def _make_pool(rng: random.Random, family: Family, driver: str, nodes: list[str], node: str | None) -> list[Json]:
    name = _pool_name(rng, family, driver, node)
    generations = [rng.randint(1, 2)]
    if rng.random() < family.generations:
        generations.append(generations[0] + 1)
    slices = []
    for generation in generations:
        slices += _make_generation(rng, family, driver, nodes, node, name, generation)
    if len(generations) > 1 and rng.random() < 0.5:
        # Only part of the new generation is there, or only part of the old one is left.
        slices.pop(rng.randrange(len(slices)))
    return slices


def _pool_name(rng: random.Random, family: Family, driver: str, node: str | None) -> str:
    if node is None:
        return "net" if rng.random() < family.same_pool_names else f"net-{_NAMES[driver]}"
    return node if rng.random() < family.same_pool_names else f"{node}-{_NAMES[driver]}"


def _make_generation(
    rng: random.Random, family: Family, driver: str, nodes: list[str], node: str | None, pool: str, generation: int
) -> list[Json]:
    if family.mig and driver == DRIVERS[0] and rng.random() < family.mig:
        return _make_mig(rng, node or rng.choice(nodes), pool, generation)
    count = rng.randint(2, 3) if rng.random() < family.extra_slices else 1
    counter_sets = _make_counter_sets(rng, family) if rng.random() < family.counters else {}
    per_device = rng.random() < family.per_device_nodes
    specs: list[Json] = []
    first = 0
    for _ in range(count):
        devices = [
            _make_device(rng, family, driver, f"{_NAMES[driver]}-{first + index}", counter_sets)
            for index in range(rng.randint(*family.devices))
        ]
        first += len(devices)
        if rng.random() < 0.3:
            rng.shuffle(devices)
        spec: Json = {"devices": devices}
        if per_device:
            spec["perDeviceNodeSelection"] = True
            for device in devices:
                device.update(_choose_nodes(rng, family, nodes, node))
        else:
            # With several slices, some of a network pool may be for other nodes.
            spec.update(_choose_nodes(rng, family, nodes, node))
        specs.append(spec)
    if counter_sets:
        spec = {"sharedCounters": [{"name": name, "counters": values} for name, values in counter_sets.items()]}
        spec.update(
            _choose_nodes(rng, family, nodes, node) if node is None or rng.random() < 0.9 else {"nodeName": node}
        )
        specs.append(spec)
        if len(counter_sets) > 1 and rng.random() < 0.3:
            second = {**spec, "sharedCounters": [spec["sharedCounters"].pop()]}
            specs.append(second)
    _spoil(rng, family, specs)
    expected = len(specs)
    slices = [
        _wrap(
            rng, f"{pool}-{_NAMES[driver]}-{generation}-{rng.choice('abcdef')}{index}", driver, pool, generation, spec
        )
        for index, spec in enumerate(specs)
    ]
    if rng.random() < family.incomplete:
        match rng.randint(0, 2):
            case 0 if len(slices) > 1:
                slices.pop(rng.randrange(len(slices)))
            case 1:
                expected += rng.choice((-1, 1))
            case _:
                slices[rng.randrange(len(slices))]["spec"]["pool"]["resourceSliceCount"] = expected + 1
    for item in slices:
        item["spec"]["pool"].setdefault("resourceSliceCount", max(expected, 1))
    return slices


#: Slices of memory that a profile takes, and where its placements may begin.
_MIG: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "1g.10gb": (1, 1, (0, 1, 2, 3, 4, 5, 6)),
    "1g.20gb": (2, 1, (0, 2, 4, 6)),
    "2g.20gb": (2, 2, (0, 2, 4)),
    "3g.40gb": (4, 3, (0, 4)),
    "4g.40gb": (4, 4, (0,)),
    "7g.80gb": (8, 7, (0,)),
}
MIG_PROFILES = tuple(_MIG)


def _make_mig(rng: random.Random, node: str, pool: str, generation: int) -> list[Json]:
    """Slices of one or two GPUs, as a driver publishes them that divides GPUs on demand."""
    sets, devices = [], []
    for gpu in range(rng.randint(1, 2)):
        name = f"gpu-{gpu}-counters"
        counters = {f"memory-slice-{place}": {"value": "1"} for place in range(8)}
        sets.append({"name": name, "counters": {**counters, "multiprocessors": {"value": "7"}}})
        for profile, (memory, processors, places) in _MIG.items():
            for place in places:
                taken = {f"memory-slice-{place + step}": {"value": "1"} for step in range(memory)}
                devices.append(
                    {
                        "name": f"gpu-{gpu}-{profile.replace('.', '-')}-{place}",
                        "attributes": {"profile": {"string": profile}, "index": {"int": gpu}},
                        "capacity": {"memory": {"value": f"{memory * 10}Gi"}},
                        "consumesCounters": [
                            {
                                "counterSet": name,
                                "counters": {**taken, "multiprocessors": {"value": str(processors)}},
                            }
                        ],
                    }
                )
    specs: list[Json] = [{"devices": devices, "nodeName": node}, {"sharedCounters": sets, "nodeName": node}]
    slices = [
        _wrap(rng, f"{pool}-mig-{generation}-{at}", DRIVERS[0], pool, generation, spec) for at, spec in enumerate(specs)
    ]
    for item in slices:
        item["spec"]["pool"]["resourceSliceCount"] = len(slices)
    return slices


def _wrap(rng: random.Random, name: str, driver: str, pool: str, generation: int, spec: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": driver, "pool": {"name": pool, "generation": generation}, **spec},
    }


def _choose_nodes(rng: random.Random, family: Family, nodes: list[str], node: str | None) -> Json:
    if node is not None:
        return {"nodeName": node}
    if rng.random() < 0.4:
        return {"allNodes": True}
    if rng.random() < 0.1:
        return {"nodeName": rng.choice(nodes)}
    return {"nodeSelector": {"nodeSelectorTerms": [_make_term(rng, family, nodes)]}}


def _make_term(rng: random.Random, family: Family, nodes: list[str]) -> Json:
    if rng.random() >= family.odd_node_selectors:
        values = sorted(rng.sample("abc", rng.randint(1, 3)))
        return {"matchExpressions": [{"key": "tier", "operator": "In", "values": values}]}
    expression = rng.choice(
        (
            {"key": "tier", "operator": "NotIn", "values": ["b"]},
            {"key": "example.com/none", "operator": "NotIn", "values": ["b"]},
            {"key": "rank", "operator": "Gt", "values": [rng.choice(("0", "1", "2"))]},
            {"key": "rank", "operator": "Lt", "values": ["2"]},
            {"key": "rank", "operator": "Exists"},
            {"key": "example.com/none", "operator": "DoesNotExist"},
            {"key": "tier", "operator": "Exists"},
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
        )
    )
    if rng.random() < 0.03:
        expression = rng.choice(
            (
                {"key": "tier", "operator": "Like", "values": ["a"]},
                {"key": "tier", "operator": "In"},
                {"key": "tier", "operator": "Gt", "values": ["x"]},
                {"key": "-bad", "operator": "Exists"},
                {"key": "tier", "operator": "In", "values": ["not a value"]},
                {"key": "tier", "operator": "Exists", "values": ["a"]},
            )
        )
    field = {"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": [rng.choice(nodes)]}
    match rng.randint(0, 3):
        case 0:
            return {"matchFields": [field]}
        case 1:
            return {"matchExpressions": [expression], "matchFields": [field]}
        case 2:
            return {"matchExpressions": [expression, {"key": "tier", "operator": "In", "values": ["a", "b"]}]}
        case _:
            return {"matchExpressions": [expression]}


def _make_counter_sets(rng: random.Random, family: Family) -> dict[str, Json]:
    return {
        f"set{index}": {
            "mem": {"value": _edged(rng, family, f"{rng.choice((0, 20, 40, 80, 80))}Gi")},
            "slots": {"value": str(rng.randint(1, 7))},
        }
        for index in range(rng.randint(1, 2))
    }


def _edged(rng: random.Random, family: Family, amount: str) -> str:
    """The amount, or one at the edge where the family has such ones."""
    return odd_counter(rng) if family.edge_amounts and rng.random() < family.edge_amounts else amount


def _make_device(rng: random.Random, family: Family, driver: str, name: str, counter_sets: dict[str, Json]) -> Json:
    device: Json = {"name": name, "attributes": _make_attributes(rng, family, driver, name)}
    shared = rng.random() < family.shared
    if shared:
        device["allowMultipleAllocations"] = True
    if not (shared and rng.random() < family.uncounted):
        device["capacity"] = _make_capacity(rng, family, driver, shared)
    if counter_sets and rng.random() < 0.85:
        names = rng.sample(sorted(counter_sets), rng.randint(1, len(counter_sets)))
        device["consumesCounters"] = [
            {
                "counterSet": set_name,
                "counters": {
                    "mem": {"value": _edged(rng, family, f"{rng.choice((0, 5, 10, 20, 40))}Gi")},
                    **({"slots": {"value": str(rng.randint(0, 3))}} if rng.random() < 0.7 else {}),
                },
            }
            for set_name in names
        ]
    if rng.random() < family.taints:
        device["taints"] = [
            {
                "key": rng.choice(("example.com/bad", "example.com/slow")),
                "value": rng.choice(("y", "n", "")),
                "effect": rng.choice(("NoSchedule", "NoExecute", "NoSchedule", "NoExecute", "None", "Future")),
            }
            for _ in range(rng.randint(1, 2))
        ]
    if rng.random() < family.binding:
        device["bindingConditions"] = [f"{driver}/ready"]
        device["bindingFailureConditions"] = [f"{driver}/failed"]
        if rng.random() < 0.1:
            device["bindingConditions"] = []
    if rng.random() < family.binds_to_node:
        device["bindsToNode"] = True
    return device


def _make_attributes(rng: random.Random, family: Family, driver: str, name: str) -> Json:
    attributes: Json = {
        "model": {"string": rng.choice(("A100", "H100", "L4"))},
        "index": {"int": int(name.rpartition("-")[2])},
        "healthy": {"bool": rng.random() < 0.8},
        "driverVersion": {"version": rng.choice(("1.0.0", "2.1.0", "2.1.0+build7", "2.1.0-rc1"))},
    }
    if rng.random() < 0.85:
        attributes["resource.kubernetes.io/pcieRoot"] = {"string": rng.choice(("pci0000:00", "pci0000:01"))}
    if rng.random() < 0.7:
        attributes["numa"] = rng.choice(({"int": 0}, {"int": 1}, {"int": 1}, {"string": "1"}, {"bool": True}))
    if rng.random() < 0.6:
        prefix = rng.choice(("", f"{driver}/", "other.example.com/")) if family.odd_names else "other.example.com/"
        attributes[f"{prefix}zone"] = {"string": rng.choice("ab")}
    if rng.random() < family.odd_names * 0.3:
        # Which of the two a selector sees is random; no selector asks, constraints do.
        attributes["slot"] = {"int": rng.randint(0, 1)}
        attributes[f"{driver}/slot"] = {"int": rng.randint(0, 1)}
    if rng.random() < family.lists:
        strings = rng.sample(("pci0000:00", "pci0000:01", "pci0000:02"), rng.randint(1, 3))
        attributes["resource.kubernetes.io/pcieRoot"] = rng.choice(
            ({"strings": strings}, {"strings": strings}, {"strings": strings}, {"versions": ["1.0.0"]}, {"ints": [1]})
        )
    if rng.random() < family.lists - 0.1:
        attributes["numa"] = rng.choice(
            ({"ints": rng.sample((0, 1, 2), rng.randint(1, 3))}, {"int": 1}, {"bools": [True, False]})
        )
    return attributes


def _make_capacity(rng: random.Random, family: Family, driver: str, shared: bool) -> Json:
    large, large_unit, small, small_unit = _SIZES[driver]
    capacity: Json = {}
    for name, unit, sizes in ((large, large_unit, (10, 24, 40, 80)), (small, small_unit, (8, 100))):
        if rng.random() < 0.1:
            continue
        size = rng.choice(sizes)
        odd = max(family.odd_amounts, family.edge_amounts) / 2
        value = f"{size}{unit}" if rng.random() >= odd else random_amount(rng, family, unit, 5, 80)
        entry: Json = {"value": value}
        if shared and rng.random() < family.policies:
            entry["requestPolicy"] = _make_policy(rng, unit, size, family.odd_amounts)
            if family.edge_policies and rng.random() < family.edge_policies:
                entry["requestPolicy"] = odd_policy(rng, value)
            if rng.random() < family.odd_amounts * 0.3:
                # Refused by the API server, but its value counts before anything else.
                entry["requestPolicy"]["default"] = f"{rng.randint(0, size)}{unit}"
        prefix = f"{driver}/" if rng.random() < family.odd_names * 0.3 else ""
        capacity[f"{prefix}{name}"] = entry
        if prefix and rng.random() < 0.3:
            capacity[name] = {"value": f"{size}{unit}"}
    return capacity


def _make_policy(rng: random.Random, unit: str, size: int, odd: float) -> Json:
    if rng.random() < odd * 0.4:
        # In thousandths: minimum, step and request are each rounded up to whole numbers.
        return {"default": "2", "validRange": {"min": "1500m", "step": "500m"}} if unit == "" else {"default": "1"}
    match rng.randint(0, 4):
        case 0:
            return {"default": f"{rng.randint(0, size)}{unit}"}
        case 1:
            values = sorted(rng.sample(range(1, size + 1), min(rng.randint(1, 4), size)))
            return {"default": f"{rng.choice(values)}{unit}", "validValues": [f"{value}{unit}" for value in values]}
        case 2:
            return {"default": f"{rng.randint(1, size)}{unit}", "validRange": {"min": f"1{unit}"}}
        case _:
            minimum, step = rng.randint(0, 3), rng.randint(1, 5)
            steps = max((size - minimum) // step, 0)
            valid_range: Json = {"min": f"{minimum}{unit}", "step": f"{step}{unit}"}
            if rng.random() < 0.5:
                valid_range["max"] = f"{minimum + step * rng.randint(0, steps)}{unit}"
                return {"default": f"{minimum}{unit}", "validRange": valid_range}
            return {"default": f"{minimum + step * rng.randint(0, steps)}{unit}", "validRange": valid_range}


def _spoil(rng: random.Random, family: Family, specs: list[Json]) -> None:
    """Now and then make the pool contradict itself."""
    if rng.random() >= family.contradicting:
        return
    with_devices = [spec for spec in specs if spec.get("devices")]
    with_counters = [spec for spec in specs if spec.get("sharedCounters")]
    match rng.randint(0, 2):
        case 0 if with_devices:
            devices = rng.choice(with_devices)["devices"]
            devices.append({**rng.choice(devices)})
        case 1 if with_counters:
            sets = rng.choice(with_counters)["sharedCounters"]
            sets.append({**sets[0]})
        case _ if with_devices:
            rng.choice(rng.choice(with_devices)["devices"])["consumesCounters"] = [
                {"counterSet": rng.choice(("set0", "nowhere")), "counters": {"none": {"value": "1"}}}
            ]
