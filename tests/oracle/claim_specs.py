"""Random classes, claims, and claims that are allocated already."""

from __future__ import annotations

import random
import uuid
from typing import TYPE_CHECKING, Any

from tests.oracle.hardware import DRIVERS, MIG_PROFILES, random_amount

if TYPE_CHECKING:
    from tests.oracle.scenarios import Family

__all__ = ["make_claims", "make_classes", "make_existing"]

Json = dict[str, Any]

_UNITS = {"memory": "Gi", "bandwidth": "G", "cores": "", "vlans": ""}
_MATCHED = ("resource.kubernetes.io/pcieRoot", "{driver}/numa", "{driver}/model", "{driver}/driverVersion")
_RARE = (
    "{driver}/index",
    "{driver}/healthy",
    "other.example.com/zone",
    "{driver}/zone",
    "{driver}/slot",
    "{driver}/none",
)


def make_classes(rng: random.Random, family: Family) -> list[Json]:
    """A class for each driver, and one that takes any device."""
    classes = []
    for name in (*DRIVERS, "any"):
        spec: Json = {}
        if name != "any":
            spec["selectors"] = [{"cel": {"expression": f"device.driver == '{name}'"}}]
        if rng.random() < family.config:
            spec["config"] = [_opaque(rng, f"class-{name}-{index}") for index in range(rng.randint(1, 2))]
        classes.append(
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
        )
    return classes


def _opaque(rng: random.Random, text: str) -> Json:
    return {"opaque": {"driver": rng.choice(DRIVERS), "parameters": {"kind": "Config", "text": text}}}


def make_existing(rng: random.Random, family: Family, slices: list[Json]) -> list[Json]:
    """Allocated claims for devices or shares; some devices no longer exist, or were published differently then."""
    claims: list[Json] = []
    for item in slices:
        for device in item["spec"].get("devices", ()):
            shares = device.get("allowMultipleAllocations", False)
            holders = rng.randint(1, 3) if shares and rng.random() < 0.7 else 1
            for _ in range(holders):
                if rng.random() < family.busy:
                    claims.append(_make_holder(rng, family, len(claims), item["spec"], device, shares))
    return claims


def _make_holder(rng: random.Random, family: Family, number: int, spec: Json, device: Json, shares: bool) -> Json:
    result: Json = {
        "request": "r0",
        "driver": spec["driver"],
        "pool": spec["pool"]["name"],
        "device": device["name"] if rng.random() < 0.98 else "gone",
    }
    if rng.random() < 0.05:
        shares = not shares
    if shares:
        result["shareID"] = str(uuid.UUID(int=rng.getrandbits(128)))
        capacity = {
            name: random_amount(rng, family, _UNITS[name.rpartition("/")[2]], 0, 12)
            for name in device.get("capacity", ())
            if rng.random() < 0.95
        }
        if capacity or rng.random() < 0.2:
            result["consumedCapacity"] = capacity
    if rng.random() < 0.03 + family.admin * 0.2:
        result["adminAccess"] = True
    return _claim(f"used-{number}", [_exactly("r0", "any")], status={"allocation": {"devices": {"results": [result]}}})


def make_claims(rng: random.Random, family: Family, *, lists: bool) -> list[Json]:
    """The claims of the pod that is to be placed."""
    claims = []
    for index in range(rng.randint(*family.claims)):
        requests = [
            _make_request(rng, family, f"r{position}", lists) for position in range(rng.randint(*family.requests))
        ]
        claim = _claim(f"claim-{index}", requests)
        devices = claim["spec"]["devices"]
        names = _request_names(requests)
        if requests and rng.random() < family.constraints:
            devices["constraints"] = [_make_constraint(rng, family, names) for _ in range(rng.choice((1, 1, 2)))]
        if requests and rng.random() < family.config:
            devices["config"] = [
                {**_opaque(rng, f"claim-{position}"), **_for_requests(rng, names, 0.3)}
                for position in range(rng.randint(1, 4))
            ]
        if rng.random() < family.malformed:
            _malform(rng, claim)
        claims.append(claim)
    return claims


def _claim(name: str, requests: list[Json], **more: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": requests}},
        **more,
    }


def _exactly(name: str, device_class: str) -> Json:
    return {"name": name, "exactly": {"deviceClassName": device_class}}


def _request_names(requests: list[Json]) -> list[str]:
    names = []
    for request in requests:
        names.append(request["name"])
        names += [f"{request['name']}/{item['name']}" for item in request.get("firstAvailable", ())]
    return names


def _for_requests(rng: random.Random, names: list[str], empty: float) -> Json:
    if rng.random() < empty:
        return {}
    return {"requests": rng.sample(names, rng.randint(1, len(names)))}


def _make_constraint(rng: random.Random, family: Family, names: list[str]) -> Json:
    names_of_attributes = _MATCHED[:2] if rng.random() < family.lists else _MATCHED if rng.random() < 0.75 else _RARE
    attribute = rng.choice(names_of_attributes).format(driver=rng.choice(DRIVERS[:1] if family.lists else DRIVERS))
    if family.numa and rng.random() < family.numa:
        attribute = f"{rng.choice(DRIVERS)}/numa"
    kind = "distinctAttribute" if rng.random() < family.distinct else "matchAttribute"
    alternatives = [name for name in names if "/" in name]
    if family.for_alternatives and alternatives and rng.random() < family.for_alternatives:
        constraint: Json = {kind: attribute, **_for_requests(rng, alternatives, 0.0)}
    else:
        constraint = {kind: attribute, **_for_requests(rng, names, 0.5)}
    if rng.random() < 0.03:
        constraint["distinctAttribute"] = constraint["matchAttribute"] = attribute
    return constraint


def _make_request(rng: random.Random, family: Family, name: str, lists: bool) -> Json:
    if rng.random() < family.first_available:
        number = rng.randint(*family.alternatives)
        alternatives = [{"name": f"s{index}", **_make_wanted(rng, family, lists)} for index in range(number)]
        return {"name": name, "firstAvailable": alternatives}
    wanted = _make_wanted(rng, family, lists)
    if rng.random() < family.admin:
        wanted["adminAccess"] = rng.random() < 0.9
    return {"name": name, "exactly": wanted}


def _make_wanted(rng: random.Random, family: Family, lists: bool) -> Json:
    device_class = rng.choice((DRIVERS[0], DRIVERS[0], DRIVERS[1], "any"))
    driver = device_class if device_class in DRIVERS else rng.choice(DRIVERS)
    wanted: Json = {"deviceClassName": device_class}
    if rng.random() < family.take_all:
        wanted["allocationMode"] = "All"
    else:
        # Where counts are large, those around the limit of a claim are the interesting ones.
        near_limit = family.count[1] > 16 and rng.random() < 0.7
        count = rng.choice((1, 11, 12, 16, 20, 31, 32)) if near_limit else rng.randint(*family.count)
        if count > 1 or rng.random() < 0.5:
            wanted["count"] = count
        if rng.random() < 0.5:
            wanted["allocationMode"] = "ExactCount"
    if rng.random() < family.selectors:
        wanted["selectors"] = [
            {"cel": {"expression": _make_selector(rng, family, driver, lists)}} for _ in range(rng.choice((1, 1, 2)))
        ]
    if rng.random() < max(family.shared, family.malformed / 2) * 0.8:
        wanted["capacity"] = _make_capacity_requests(rng, family, driver)
    if rng.random() < family.taints:
        wanted["tolerations"] = [_make_toleration(rng) for _ in range(rng.randint(1, 2))]
    return wanted


def _make_capacity_requests(rng: random.Random, family: Family, driver: str) -> Json:
    names = ("memory", "cores") if driver == DRIVERS[0] else ("bandwidth", "vlans")
    requests: Json = {}
    for name in names:
        if rng.random() < 0.6:
            amount = random_amount(rng, family, _UNITS[name], 0, 30)
            if rng.random() < family.odd_amounts * 0.3 and amount[0] in "123456789":
                amount = f"-{amount}"
            prefix = f"{driver}/" if rng.random() < family.odd_names * 0.4 else ""
            requests[f"{prefix}{name}"] = amount
    if rng.random() < 0.03:
        requests["unknown"] = "1"
    return {"requests": requests} if requests or rng.random() < 0.5 else {}


def _make_toleration(rng: random.Random) -> Json:
    toleration: Json = {}
    if rng.random() < 0.8:
        toleration["key"] = rng.choice(("example.com/bad", "example.com/slow"))
    if rng.random() < 0.7:
        toleration["operator"] = rng.choice(("Exists", "Equal"))
    if toleration.get("operator") != "Exists" and rng.random() < 0.8:
        toleration["value"] = rng.choice(("y", "n"))
    if rng.random() < 0.4:
        toleration["effect"] = rng.choice(("NoSchedule", "NoExecute"))
    if rng.random() < 0.1:
        toleration["tolerationSeconds"] = 30
    return toleration


def _make_selector(rng: random.Random, family: Family, driver: str, lists: bool) -> str:
    own = f"device.attributes['{driver}']"
    capacity = f"device.capacity['{driver}']"
    size = "memory" if driver == DRIVERS[0] else "bandwidth"
    unit = _UNITS[size]
    if family.mig and driver == DRIVERS[0] and rng.random() < 0.8:
        return f"has({own}.profile) && {own}.profile == '{rng.choice(MIG_PROFILES)}'"
    if rng.random() < family.failing_selectors:
        return rng.choice(
            (
                f"{own}.nothing == 1",
                "device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:00'",
                "device.attributes['other.example.com'].zone == 'a'",
                f"{own}.model < 3",
                f"{own}.model",
                "device.driver",
                "device.nothing == 1",
                "device.driver ==",
                f"{capacity}.{size}.isGreaterThan(quantity('20{unit}'))",
                f"{own}.nothing == 1 || true",
                f"{own}.nothing == 1 && device.driver == '{driver}'",
            )
        )
    choices = [
        "true",
        f"device.driver == '{driver}'",
        f"{own}.model == 'A100'",
        f"{own}.model in ['A100', 'L4']",
        f"has({own}.model) && {own}.model != 'L4'",
        f"has({own}.index) && {own}.index < {rng.randint(0, 4)}",
        f"has({own}.index) && {own}.index % 2 == 0",
        "'zone' in device.attributes['other.example.com']",
        f"has({own}.healthy) && {own}.healthy",
        f"has({own}.driverVersion) && {own}.driverVersion.isGreaterThan(semver('2.0.0'))",
        f"has({own}.driverVersion) && {own}.driverVersion == semver('2.1.0')",
        f"has({own}.model) && {own}.model.matches('^[AH]1')",
        f"has({own}.model) && {own}.model.startsWith('A')",
        f"has({capacity}.{size}) && {capacity}.{size}.compareTo(quantity('20{unit}')) >= 0",
        f"has({capacity}.{size}) && {capacity}.{size}.isLessThan(quantity('30{unit}'))",
        f"!({own}.model == 'H100' && {own}.index > 1)" if driver == DRIVERS[0] else "!false",
        "device.allowMultipleAllocations || true",
    ]
    if lists:
        choices.append(f"has({own}.numa) && {own}.numa.includes(1)")
    return rng.choice(choices)


def _malform(rng: random.Random, claim: Json) -> None:
    """Make the claim one that the API server refuses, or that no cluster can serve."""
    devices = claim["spec"]["devices"]
    if not devices["requests"]:
        return
    request = rng.choice(devices["requests"])
    wanted = request.get("exactly") or rng.choice(request["firstAvailable"])
    match rng.randint(0, 6):
        case 0:
            wanted["deviceClassName"] = "unknown"
        case 1:
            wanted["deviceClassName"] = ""
        case 2:
            wanted["allocationMode"] = "Some"
        case 3:
            wanted["count"] = rng.choice((33, 500, 10**9))
        case 4:
            devices["constraints"] = [{"requests": [request["name"]]}]
        case 5:
            wanted["selectors"] = [{}]
        case _:
            wanted["capacity"] = {"requests": {"unknown": "1"}}
