"""Checks of a ResourceClaim's status, which schedulers and drivers write."""

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import FieldError, forbidden_value, invalid_value, required, too_many
from dra_spawner.devcluster.api.validation.claims import (
    MAX_CONFIGS,
    MAX_PARAMETER_BYTES,
    check_raw_object,
    check_reference,
    is_share_id,
    request_names,
)
from dra_spawner.devcluster.api.validation.names import check_dns_label, check_driver_name, check_list, check_unique
from dra_spawner.devcluster.api.validation.node_choices import check_node_selector
from dra_spawner.devcluster.api.validation.slices import check_binding_conditions, check_pool_name

MAX_CONSUMERS = 256
MAX_RESULTS = 32
MAX_CONDITIONS = 8


def check_claim_status(claim: JsonObject, old: JsonObject) -> list[FieldError]:
    """Errors of a status that replaces the status of `old`."""
    status, old_status = claim.get("status") or {}, old.get("status") or {}
    errors = _check_consumers(claim, status.get("reservedFor") or [], old_status.get("reservedFor") or [])
    allocation, old_allocation = status.get("allocation"), old_status.get("allocation")
    errors += _check_device_statuses(status.get("devices") or [], allocation or {})
    if status.get("reservedFor") and allocation is None:
        detail = "may not be specified when `allocated` is not set"
        errors.append(forbidden_value("status.reservedFor", detail))
    if allocation is not None and old_allocation is not None:
        if allocation != old_allocation:
            errors.append(invalid_value("status.allocation", None, "field cannot be modified once set"))
    elif allocation is not None:
        errors += _check_allocation(allocation, "status.allocation", request_names(claim["spec"]))
    return errors


def _check_consumers(claim: JsonObject, consumers: list[JsonObject], old: list[JsonObject]) -> list[FieldError]:
    field = "status.reservedFor"
    errors: list[FieldError] = []
    if len(consumers) > MAX_CONSUMERS:
        errors.append(too_many(field, len(consumers), MAX_CONSUMERS))
    for index, consumer in enumerate(consumers[:MAX_CONSUMERS]):
        errors += [
            required(f"{field}[{index}].{name}") for name in ("resource", "name", "uid") if not consumer.get(name)
        ]
    errors += check_unique((consumer.get("uid", "") for consumer in consumers), field)
    if claim["metadata"].get("deletionTimestamp") and any(consumer not in old for consumer in consumers):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden_value(field, detail))
    return errors


def _check_allocation(allocation: JsonObject, field: str, names: frozenset[str]) -> list[FieldError]:
    devices = allocation.get("devices") or {}
    errors = check_list(
        devices.get("results") or [],
        f"{field}.devices.results",
        lambda result, path: _check_result(result, path, names),
        most=MAX_RESULTS,
    )
    configs = devices.get("config") or []
    if len(configs) > 2 * MAX_CONFIGS:
        errors.append(too_many(f"{field}.devices.config", len(configs), 2 * MAX_CONFIGS))
    if "nodeSelector" in allocation:
        errors += check_node_selector(allocation["nodeSelector"], f"{field}.nodeSelector")
    return errors


def _check_result(result: JsonObject, field: str, names: frozenset[str]) -> list[FieldError]:
    errors = check_reference(result.get("request", ""), f"{field}.request", names)
    errors += _check_device_names(result, field)
    return errors + check_binding_conditions(result, field)


def _check_device_names(device: JsonObject, field: str) -> list[FieldError]:
    errors = check_driver_name(device.get("driver", ""), f"{field}.driver")
    errors += check_pool_name(device.get("pool", ""), f"{field}.pool", is_numbered=True)
    errors += check_dns_label(device.get("device", ""), f"{field}.device")
    if "shareID" in device:
        errors += _check_share_id(device["shareID"], f"{field}.shareID")
    return errors


def _check_share_id(share: str, field: str) -> list[FieldError]:
    if is_share_id(share):
        return []
    return [invalid_value(field, share, "must be a lowercase UUID in 8-4-4-4-12 format")]


def _device_id(device: JsonObject) -> tuple[str, ...]:
    return tuple(device.get(name, "") for name in ("driver", "pool", "device", "shareID"))


def _check_device_statuses(devices: list[JsonObject], allocation: JsonObject) -> list[FieldError]:
    allocated = {_device_id(result) for result in (allocation.get("devices") or {}).get("results") or ()}
    field = "status.devices"
    errors: list[FieldError] = []
    for index, device in enumerate(devices):
        path = f"{field}[{index}]"
        errors += _check_device_names(device, path)
        if _device_id(device) not in allocated:
            shown = "/".join(filter(None, _device_id(device)))
            errors.append(invalid_value(path, shown, "must be an allocated device in the claim"))
        conditions = device.get("conditions") or []
        if len(conditions) > MAX_CONDITIONS:
            errors.append(too_many(f"{path}.conditions", len(conditions), MAX_CONDITIONS))
        if "data" in device:
            errors += check_raw_object(device["data"], f"{path}.data", MAX_PARAMETER_BYTES)
    return errors + check_unique(map(_device_id, devices), field)
