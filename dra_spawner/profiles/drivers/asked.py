"""What a choice asks of drivers, whether it is said in the short form, the long form or as a ``spec``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.profiles.choices import TRAIT, Choice
from dra_spawner.profiles.compiler.claims import DeviceClaim, DeviceRequest
from dra_spawner.profiles.compiler.vlan_attachments import vlan_configs


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """Devices of one class: a request, or one of its alternatives.

    Attributes
    ----------
    reference
        ``request`` or ``request/alternative``, as configurations name it.
    path
        Where it stands below ``device_claims``, beginning with a dot.
    device_class
        ``deviceClassName``.
    count
        ``None``: all there are.
    capacity
        Capacity name and amount.
    expressions
        CEL of the request, with that of words such as ``min_memory``.
    words
        The words themselves, where the language was used.
    """

    reference: str
    path: str
    device_class: str
    count: int | None = 1
    capacity: tuple[tuple[str, str], ...] = ()
    expressions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    admin_access: bool = False


@dataclass(frozen=True, slots=True)
class AskedConfig:
    """Parameters for a driver.

    Attributes
    ----------
    requests
        References it is for; none means all of the claim.
    written
        The parameters with their variables, which in ``parameters`` have the values of some user.
    path
        Where the configuration stands; its parameters at ``parameters_path``.
    """

    driver: str
    parameters: Mapping[str, Any]
    requests: tuple[str, ...]
    path: str
    parameters_path: str
    written: Mapping[str, Any] = field(default_factory=dict)

    def covers(self, reference: str) -> bool:
        """Whether it is for a request; one that names a request is for all of its alternatives."""
        return not self.requests or reference in self.requests or reference.partition("/")[0] in self.requests


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """A claim with its own spec.

    Attributes
    ----------
    containers
        How many containers use it.
    shared
        Whether several servers share it.
    """

    name: str
    path: str
    requests: tuple[AskedRequest, ...]
    configs: tuple[AskedConfig, ...]
    containers: int = 1
    shared: bool = False

    def configs_of(self, request: AskedRequest, driver: str) -> Iterator[AskedConfig]:
        """The configurations for a driver that are for a request, in order: the last one counts."""
        return (config for config in self.configs if config.driver == driver and config.covers(request.reference))


def asked_claims(choice: Choice) -> tuple[AskedClaim, ...]:
    """The claims of a choice that have a spec of their own; what others made is not known."""
    written = choice.settings.get(TRAIT)
    written = written if isinstance(written, Mapping) else {}
    return tuple(
        asked_claim(claim, f".{claim.name}", written.get(claim.name))
        for claim in choice.claims
        if claim.requests or claim.spec is not None
    )


def fixed_claims(choice: Choice, specs: Mapping[str, JsonObject]) -> tuple[AskedClaim, ...]:
    """The claims of a choice that others made, once for all its servers, as far as their specs are known."""
    found = {claim.claim: (f".{claim.name}", claim.containers) for claim in choice.claims if claim.claim}
    for name, path in _named_in_pod(choice):
        found.setdefault(name, (path, ()))
    return tuple(
        replace(asked_claim(DeviceClaim(name, containers, spec=specs[name])), path=path, shared=True)
        for name, (path, containers) in found.items()
        if name in specs
    )


def names_of_fixed_claims(choice: Choice) -> tuple[str, ...]:
    """Names of the claims of a choice that others made, without those that depend on the user."""
    found = (*(claim.claim for claim in choice.claims), *(name for name, _ in _named_in_pod(choice)))
    return tuple(name for name in found if name and "{" not in name)


def _named_in_pod(choice: Choice) -> Iterator[tuple[str, str]]:
    """Names of claims in the pod's own fields, and where they are written."""
    extra = choice.settings.get("extra_pod_config")
    entries = extra.get("resourceClaims", extra.get("resource_claims")) if isinstance(extra, Mapping) else None
    for number, entry in enumerate(entries if isinstance(entries, list | tuple) else ()):
        name = entry.get("resourceClaimName") if isinstance(entry, Mapping) else None
        if name and isinstance(name, str):
            yield name, f"extra_pod_config.resourceClaims[{number}]"


def asked_claim(claim: DeviceClaim, path: str = "", written: object = None) -> AskedClaim:
    """One claim.

    Parameters
    ----------
    claim
        With requests, or with a spec.
    path
        Where it stands below ``device_claims``.
    written
        The same as it was written, from which short and long form are told apart.
    """
    if claim.spec is not None:
        return _of_spec(claim, claim.spec, f"{path}.spec.devices")
    requests = []
    for request in claim.requests:
        where = _request_path(claim, request.name, path, written)
        if request.first_available:
            requests += [
                _of_request(each, f"{request.name}/{each.name}", f"{where}.first_available.{each.name}")
                for each in request.first_available
                if each.device_class  # an alternative without a class is "nothing"
            ]
        elif request.device_class:
            requests.append(_of_request(request, request.name, where))
    configs = [
        AskedConfig(
            driver=each.driver,
            parameters=each.parameters,
            requests=each.requests,
            path=f"{path}.config[{index}]",
            parameters_path=f"{path}.config[{index}].parameters",
            written=_written_parameters(written, index),
        )
        for index, each in enumerate(claim.config)
    ]
    places = {request.reference: f"{request.path}.vlan" for request in requests}
    for each in vlan_configs(claim.requests):
        where = places.get(each.requests[0], path)
        configs.append(AskedConfig(each.driver, each.parameters, each.requests, where, where))
    return AskedClaim(claim.name, path, tuple(requests), tuple(configs), _users(claim), claim.sharing is not None)


def _request_path(claim: DeviceClaim, request: str, path: str, written: object) -> str:
    """Where a request stands; of one that the language made of another, the claim."""
    if isinstance(written, Mapping):
        requests = written.get("requests")
        is_long = isinstance(requests, Mapping) and request in requests
    else:
        is_long = len(claim.requests) > 1 or bool(claim.config or claim.constraints)
    return f"{path}.requests.{request}" if is_long else path


def _written_parameters(written: object, index: int) -> Mapping[str, Any]:
    configs = written.get("config") if isinstance(written, Mapping) else None
    entry = configs[index] if isinstance(configs, list | tuple) and index < len(configs) else None
    parameters = entry.get("parameters") if isinstance(entry, Mapping) else None
    return parameters if isinstance(parameters, Mapping) else {}


def _users(claim: DeviceClaim) -> int:
    return sum(1 for _, requests in claim.containers if requests is None or requests)


def _of_request(request: DeviceRequest, reference: str, path: str) -> AskedRequest:
    return AskedRequest(
        reference=reference,
        path=path,
        device_class=request.device_class,
        count=request.count,
        capacity=request.capacity,
        expressions=request.expressions,
        words=tuple(word for word, _ in request.properties),
        admin_access=request.admin_access,
    )


def _of_spec(claim: DeviceClaim, spec: JsonObject, path: str) -> AskedClaim:
    devices = spec.get("devices") or {}
    requests = []
    for index, request in enumerate(devices.get("requests") or ()):
        where = f"{path}.requests[{index}]"
        if request.get("exactly"):
            requests.append(_of_json(request["exactly"], request["name"], f"{where}.exactly"))
        for place, each in enumerate(request.get("firstAvailable") or ()):
            reference = f"{request['name']}/{each.get('name', '')}"
            requests.append(_of_json(each, reference, f"{where}.firstAvailable[{place}]"))
    configs = []
    for index, config in enumerate(devices.get("config") or ()):
        opaque = config.get("opaque") or {}
        parameters, where = opaque.get("parameters"), f"{path}.config[{index}]"
        if isinstance(parameters, Mapping):
            for_requests = tuple(config.get("requests") or ())
            driver = str(opaque.get("driver", ""))
            configs.append(AskedConfig(driver, parameters, for_requests, where, f"{where}.opaque.parameters"))
    where = path.removesuffix(".spec.devices")
    return AskedClaim(claim.name, where, tuple(requests), tuple(configs), _users(claim), claim.sharing is not None)


def _of_json(devices: JsonObject, reference: str, path: str) -> AskedRequest:
    requests = (devices.get("capacity") or {}).get("requests") or {}
    selectors = devices.get("selectors") or ()
    return AskedRequest(
        reference=reference,
        path=path,
        device_class=str(devices.get("deviceClassName") or ""),
        count=None if devices.get("allocationMode") == "All" else int(devices.get("count") or 1),
        capacity=tuple((str(name), str(amount)) for name, amount in requests.items()),
        expressions=tuple(str(each["cel"].get("expression", "")) for each in selectors if each.get("cel")),
        admin_access=bool(devices.get("adminAccess")),
    )
