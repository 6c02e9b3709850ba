"""Checks of ResourceSlices."""

import re
from itertools import pairwise
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import (
    FieldError,
    duplicate,
    forbidden_value,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from dra_spawner.devcluster.api.validation.claims import EFFECTS, check_qualified_attribute
from dra_spawner.devcluster.api.validation.names import (
    MAX_SUBDOMAIN_CHARACTERS,
    check_dns_label,
    check_dns_subdomain,
    check_driver_name,
    check_label_value,
    check_list,
    check_qualified_name,
    check_unique,
)
from dra_spawner.devcluster.api.validation.node_choices import check_device_nodes, check_slice_nodes
from dra_spawner.dra.quantity import Quantity

MAX_DEVICES = 128
MAX_DEVICES_ADVANCED = 64
"""Maximum if any device has taints, counters or list attributes."""
MAX_PROPERTIES = 32
MAX_ATTRIBUTE_VALUES = 48
MAX_TEXT_CHARACTERS = 64
MAX_TAINTS = 16
MAX_COUNTER_SETS = 8
MAX_COUNTERS = 32
MAX_CONSUMED_SETS = 2
MAX_VALID_VALUES = 10
MAX_BINDING_CONDITIONS = 4

_ONLY_PER_DEVICE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
_VALUES = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
# semver.org, version 2.0.0
_NUMBER = r"(0|[1-9]\d*)"
_PRERELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)


def check_slice_spec(spec: JsonObject, field: str) -> list[FieldError]:
    """Errors of a new slice."""
    errors = check_driver_name(spec.get("driver", ""), f"{field}.driver")
    errors += _check_pool(spec.get("pool") or {}, f"{field}.pool")
    errors += check_slice_nodes(spec, field)
    devices, counter_sets = spec.get("devices") or [], spec.get("sharedCounters") or []
    if devices and counter_sets:
        errors.append(invalid_value(field, "", "only one of `sharedCounters` or `devices` is allowed"))
    per_device = bool(spec.get("perDeviceNodeSelection"))
    errors += check_list(
        devices,
        f"{field}.devices",
        lambda device, path: _check_device(device, path, per_device),
        most=MAX_DEVICES_ADVANCED if any(map(_is_advanced, devices)) else MAX_DEVICES,
    )
    errors += check_unique((device.get("name", "") for device in devices), f"{field}.devices")
    path = f"{field}.sharedCounters"
    names = (entry.get("name", "") for entry in counter_sets[:MAX_COUNTER_SETS])
    errors += check_unique(names, path, items=counter_sets)
    return errors + check_list(counter_sets, path, _check_counter_set, most=MAX_COUNTER_SETS)


def check_slice_update(spec: JsonObject, old: JsonObject, field: str) -> list[FieldError]:
    """Errors of a slice's update: forbidden changes."""
    errors = []
    for path, new_value, old_value in (
        ("pool.name", (spec.get("pool") or {}).get("name"), (old.get("pool") or {}).get("name")),
        ("driver", spec.get("driver"), old.get("driver")),
        ("nodeName", spec.get("nodeName"), old.get("nodeName")),
    ):
        if new_value != old_value:
            errors.append(invalid_value(f"{field}.{path}", new_value, "field is immutable"))
    return errors


def _is_advanced(device: JsonObject) -> bool:
    lists = ("bools", "ints", "strings", "versions")
    return bool(
        device.get("taints")
        or device.get("consumesCounters")
        or any(name in value for value in (device.get("attributes") or {}).values() for name in lists)
    )


def _check_pool(pool: JsonObject, field: str) -> list[FieldError]:
    errors = check_pool_name(pool.get("name", ""), f"{field}.name")
    if (count := pool.get("resourceSliceCount", 0)) <= 0:
        errors.append(invalid_value(f"{field}.resourceSliceCount", count, "must be greater than zero"))
    if (generation := pool.get("generation", 0)) < 0:
        errors.append(invalid_value(f"{field}.generation", generation, "must be greater than or equal to zero"))
    return errors


def check_pool_name(name: str, field: str, *, is_numbered: bool = False) -> list[FieldError]:
    """Check a pool's name: DNS subdomains joined by slashes.

    Parameters
    ----------
    is_numbered
        Whether a message says which of them is wrong.
    """
    if not name:
        return [required(field)]
    errors: list[FieldError] = []
    if len(name) > MAX_SUBDOMAIN_CHARACTERS:
        errors.append(too_long(field, MAX_SUBDOMAIN_CHARACTERS))
    for index, part in enumerate(name.split("/")):
        errors += check_dns_subdomain(part, field, f"segment {index}: " if is_numbered else "")
    return errors


def _check_device(device: JsonObject, field: str, per_device_nodes: bool) -> list[FieldError]:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    errors = check_dns_label(device.get("name", ""), f"{field}.name")
    if (total := len(attributes) + len(capacity)) > MAX_PROPERTIES:
        detail = f"the total number of attributes and capacities must not exceed {MAX_PROPERTIES}"
        errors.append(invalid_value(field, total, detail))
    if (total := _value_count(attributes)) > MAX_ATTRIBUTE_VALUES:
        detail = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        errors.append(invalid_value(field, total, detail))
    for name, value in attributes.items():
        errors += check_qualified_attribute(name, f"{field}.attributes")
        errors += _check_attribute(value, f"{field}.attributes[{name}]")
    shared = bool(device.get("allowMultipleAllocations"))
    for name, value in capacity.items():
        errors += check_qualified_attribute(name, f"{field}.capacity")
        errors += _check_capacity(value, f"{field}.capacity[{name}]", shared)
    taints = device.get("taints") or []
    errors += check_list(taints, f"{field}.taints", check_taint, most=MAX_TAINTS)
    errors += check_list(taints[:MAX_TAINTS], f"{field}.taints", _check_effect)
    errors += _check_consumption(device.get("consumesCounters") or [], f"{field}.consumesCounters")
    if per_device_nodes:
        errors += check_device_nodes(device, field)
    elif any(name in device for name in ("nodeName", "nodeSelector", "allNodes")):
        errors.append(invalid_value(field, None, _ONLY_PER_DEVICE))
    return errors + check_binding_conditions(device, field)


def _value_count(attributes: JsonObject) -> int:
    return sum(
        len(value) if isinstance(value, list) else 1
        for attribute in attributes.values()
        for value in attribute.values()
    )


def _check_attribute(attribute: JsonObject, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for text in (attribute.get("string"), *(attribute.get("strings") or ())):
        if text is not None and len(text) > MAX_TEXT_CHARACTERS:
            errors.append(too_long(f"{field}.string", MAX_TEXT_CHARACTERS))
    for text in (attribute.get("version"), *(attribute.get("versions") or ())):
        if text is None:
            continue
        if len(text) > MAX_TEXT_CHARACTERS:
            errors.append(too_long(f"{field}.version", MAX_TEXT_CHARACTERS))
        if not _SEMVER.fullmatch(text):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            errors.append(invalid_value(f"{field}.version", text, detail))
    if len(attribute) != 1:
        shown = f"{{{', '.join(name for name in _VALUES if name in attribute)}}}" if attribute else ""
        detail = f"must specify {'exactly ' if attribute else ''}one of: {', '.join(f'`{name}`' for name in _VALUES)}"
        errors.append(invalid_value(field, shown, detail))
    return errors


def _check_capacity(capacity: JsonObject, field: str, shared: bool) -> list[FieldError]:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    field += ".requestPolicy"
    if not shared:
        return [forbidden_value(field, "allowMultipleAllocations must be true")]
    if policy.get("validValues") and "validRange" in policy:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_value(field, detail)]
    value = Quantity.parse(capacity.get("value", "0"))
    default = Quantity.parse(policy["default"]) if "default" in policy else None
    for name, check in (("validValues", _check_valid_values), ("validRange", _check_valid_range)):
        if not policy.get(name) and name not in policy:
            continue
        if default is None:
            return [required(f"{field}.default", f"required when {name} is defined")]
        return check(policy[name], value, default, f"{field}.{name}")
    return []


def _check_valid_values(values: list[str], capacity: Quantity, default: Quantity, field: str) -> list[FieldError]:
    quantities = [Quantity.parse(value) for value in values]
    errors: list[FieldError] = []
    for index, (left, right) in enumerate(pairwise(quantities)):
        if left > right:
            errors.append(
                invalid_value(f"{field}[{index + 1}]", str(right), "values must be sorted in ascending order")
            )
    considered = quantities
    if len(quantities) > MAX_VALID_VALUES:
        errors.append(too_many(field, len(quantities), MAX_VALID_VALUES))
        considered = []  # not checked
    for index, value in enumerate(considered):
        if value > capacity:
            detail = f"option is larger than capacity value: {capacity}"
            errors.append(invalid_value(f"{field}[{index}]", str(value), detail))
    # Options with the same whole number are duplicates.
    seen: set[int] = set()
    for index, value in enumerate(considered):
        if value.value() in seen:
            errors.append(duplicate(f"{field}[{index}]", str(value.value())))
        seen.add(value.value())
    if default not in considered:
        errors.append(invalid_value(field, str(default), "default value is not valid according to the requestPolicy"))
    return errors


def _check_valid_range(limits: JsonObject, capacity: Quantity, default: Quantity, field: str) -> list[FieldError]:
    if "min" not in limits:
        return [required(f"{field}.min", "required when validRange is defined")]
    least = Quantity.parse(limits["min"])
    most = Quantity.parse(limits["max"]) if "max" in limits else None
    errors: list[FieldError] = []

    def refuse(member: str, value: Quantity, detail: str) -> None:
        errors.append(invalid_value(f"{field}.{member}", str(value), detail))

    if least > capacity:
        refuse("min", least, f"min is larger than capacity value: {capacity}")
    if default < least:
        refuse("default", default, f"default is less than min: {least}")
    if most is not None:
        if least > most:
            refuse("max", least, f"min is larger than max: {most}")
        if most > capacity:
            refuse("max", most, f"max is larger than capacity value: {capacity}")
        if default > most:
            refuse("default", default, f"default is more than max: {most}")
    if "step" in limits:
        step = Quantity.parse(limits["step"])
        if step.value() == 0:
            refuse("step", step, "must be greater than zero")  # kube-apiserver divides by it and fails
            return errors
        if least + step > capacity:
            refuse("step", step, f"one step {least + step} is larger than capacity value: {capacity}")
        for value in (default, most):
            if value is not None and (value.value() - least.value()) % step.value():
                refuse("step", value, f"value is not a multiple of a given step ({step}) from ({least})")
    return errors


def check_taint_rule_spec(spec: JsonObject, field: str) -> list[FieldError]:
    """Errors of a DeviceTaintRule."""
    selector = spec.get("deviceSelector") or {}
    errors: list[FieldError] = []
    for part, check in (("driver", check_driver_name), ("pool", check_pool_name), ("device", check_dns_label)):
        if part in selector:
            errors += check(selector[part], f"{field}.deviceSelector.{part}")
    taint = spec.get("taint") or {}
    return errors + check_taint(taint, f"{field}.taint") + _check_effect(taint, f"{field}.taint")


def check_taint(taint: JsonObject, field: str) -> list[FieldError]:
    """Check key and value of a device's taint."""
    errors = check_qualified_name(taint.get("key", ""), f"{field}.key")
    return errors + check_label_value(taint.get("value", ""), f"{field}.value")


def _check_effect(taint: JsonObject, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    effect = taint.get("effect", "")
    if not effect:
        errors.append(required(f"{field}.effect"))
    elif effect not in EFFECTS:
        errors.append(not_supported(f"{field}.effect", effect, EFFECTS))
    return errors


def _check_counters(counters: JsonObject, field: str) -> list[FieldError]:
    if not counters:
        return [required(field)]
    if len(counters) > MAX_COUNTERS:
        return [too_many(field, len(counters), MAX_COUNTERS)]
    return [error for name in counters for error in check_dns_label(name, field)]


def _check_counter_set(counter_set: JsonObject, field: str) -> list[FieldError]:
    name = counter_set.get("name", "")
    errors = check_dns_label(name, f"{field}.name") if name else [required(f"{field}.name")]
    return errors + _check_counters(counter_set.get("counters") or {}, f"{field}.counters")


def _check_consumption(consumption: list[JsonObject], field: str) -> list[FieldError]:
    def check(entry: JsonObject, path: str) -> list[FieldError]:
        name = entry.get("counterSet", "")
        errors = check_dns_label(name, f"{path}.counterSet") if name else [required(f"{path}.counterSet")]
        return errors + _check_counters(entry.get("counters") or {}, f"{path}.counters")

    if len(consumption) > MAX_CONSUMED_SETS:
        return [too_many(field, len(consumption), MAX_CONSUMED_SETS)]
    names = (entry.get("counterSet", "") for entry in consumption)
    return check_list(consumption, field, check) + check_unique(names, field, items=consumption)


def check_binding_conditions(owner: JsonObject, field: str) -> list[FieldError]:
    """Check binding conditions of a device or an allocation result: both kinds or none, and no condition twice."""
    kinds = ("bindingConditions", "bindingFailureConditions")
    names: dict[str, list[Any]] = {kind: owner.get(kind) or [] for kind in kinds}
    errors: list[FieldError] = []
    for kind in kinds:
        errors += check_list(names[kind], f"{field}.{kind}", check_qualified_name, most=MAX_BINDING_CONDITIONS)
        errors += check_unique(names[kind][:MAX_BINDING_CONDITIONS], f"{field}.{kind}")
    for index, name in enumerate(names[kinds[1]]):
        if name in names[kinds[0]]:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid_value(f"{field}.{kinds[1]}[{index}]", name, detail))
    for present, missing in (kinds, kinds[::-1]):
        if names[present] and not names[missing]:
            errors.append(invalid_value(f"{field}.{missing}", None, f"{missing} are required to use {present}"))
    return errors
