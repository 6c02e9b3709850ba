"""What a choice asks of the cluster, request by request, and where each part of it was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.claims import DeviceConstraint, DeviceRequest, RequestAlternative, ResourceClaim
from dra_spawner.profiles.choices import TRAIT, Choice
from dra_spawner.profiles.syntax.properties import PROPERTIES


@dataclass(frozen=True, slots=True)
class Want:
    """Devices of one class: a request, or one of its alternatives.

    Attributes
    ----------
    reference
        ``request``, or ``request/alternative``.
    devices
        What is asked for, decoded.
    """

    reference: str
    request: str
    devices: RequestAlternative
    _choice: Choice
    _below: str
    _is_raw: bool

    @property
    def selectors(self) -> tuple[str, ...]:
        """CEL, that of words such as ``product`` among it."""
        return tuple(expression or "" for expression in self.devices.selectors)

    @property
    def path(self) -> str:
        """Where it stands in the profile."""
        return self._choice.path_of(self._below)

    def path_of(self, key: str) -> str:
        """Where one of its keys stands, by its name in the language."""
        return self._choice.path_of(f"{self._below}.{_RAW_KEYS.get(key, key) if self._is_raw else key}")

    def capacity_path(self, name: str) -> str:
        return self._choice.path_of(f"{self._below}.capacity{'.requests' if self._is_raw else ''}.{name}")

    def selector_path(self, position: int) -> str:
        """Where a selector was written; of a word, the request."""
        if self._is_raw:
            return self._choice.path_of(f"{self._below}.selectors[{position}].cel.expression")
        written = _at(self._choice.settings.get(TRAIT), self._below).get("where")
        expression = self.selectors[position]
        if written == expression:
            return self.path_of("where")
        if isinstance(written, list | tuple) and expression in written:
            return self.path_of(f"where[{list(written).index(expression)}]")
        return self.path

    def shown_selector(self, position: int) -> str:
        """A selector as the profile has it: a word such as ``product: A100*``, or its CEL."""
        written = {} if self._is_raw else _at(self._choice.settings.get(TRAIT), self._below)
        for word, known in PROPERTIES.items():
            value = written.get(word)
            made = (known.expression(value, list_attributes=lists) for lists in (False, True))
            if value is not None and self.selectors[position] in made:
                return f"{word}: {value}"
        return self.selectors[position]


_RAW_KEYS = {"device_class": "deviceClassName", "admin_access": "adminAccess"}


@dataclass(frozen=True, slots=True)
class WantedClaim:
    """One claim with a spec.

    Attributes
    ----------
    claim
        Decoded.
    spec
        As the API server gets it.
    requests
        What each request asks for, by its name: alternatives in order, else one.
    """

    claim: ResourceClaim
    spec: JsonObject
    requests: Mapping[str, tuple[Want, ...]]
    _choice: Choice
    _is_raw: bool

    @property
    def wants(self) -> Iterator[Want]:
        return (want for wants in self.requests.values() for want in wants)

    @property
    def path(self) -> str:
        return self._choice.path_of(f".{self.claim.name}")

    def constraint_path(self, position: int) -> str:
        return self._choice.path_of(
            f".{self.claim.name}{'.spec.devices' if self._is_raw else ''}.constraints[{position}]"
        )

    def config_path(self, position: int) -> str:
        return self._choice.path_of(f".{self.claim.name}{'.spec.devices' if self._is_raw else ''}.config[{position}]")

    def covered(self, references: tuple[str, ...]) -> dict[str, tuple[Want, ...]]:
        """The requests, or some alternatives of them, that a constraint or configuration names; none means all."""
        if not references:
            return dict(self.requests)
        covered = {}
        for name, wants in self.requests.items():
            named = wants if name in references else tuple(want for want in wants if want.reference in references)
            if named:
                covered[name] = named
        return covered

    def constraints(self) -> Iterator[tuple[int, DeviceConstraint]]:
        return enumerate(self.claim.constraints)


def wanted_claims(
    choice: Choice, decoded: dict[tuple[str, int], ResourceClaim] | None = None
) -> tuple[WantedClaim, ...]:
    """The claims of a choice that have a spec of their own; of those that others made nothing is known.

    Parameters
    ----------
    decoded
        Claims of choices that are still there, by name and identity of the spec: equal claims of a list have one spec.
    """
    decoded = {} if decoded is None else decoded
    wanted = []
    for name, spec in choice.plan.specs.items():
        claim = decoded.get((name, id(spec)))
        if claim is None:
            claim = decoded[name, id(spec)] = ResourceClaim.from_json({"metadata": {"name": name}, "spec": spec})
        wanted.append(_wanted_claim(choice, claim, spec))
    return tuple(wanted)


def _wanted_claim(choice: Choice, claim: ResourceClaim, spec: JsonObject) -> WantedClaim:
    name = claim.name
    written = _at(choice.settings.get(TRAIT), f".{name}")
    is_raw = "spec" in written
    requests = {}
    for position, request in enumerate(claim.requests):
        below = f".{name}.spec.devices.requests[{position}]" if is_raw else _below(written, name, request.name)
        requests[request.name] = tuple(_wants(choice, request, below, is_raw))
    return WantedClaim(claim, spec, requests, choice, is_raw)


def _below(written: Mapping[str, Any], claim: str, request: str) -> str:
    """Where a request of the language stands; of one that the language made of another, the claim."""
    requests = written.get("requests")
    return f".{claim}.requests.{request}" if isinstance(requests, Mapping) and request in requests else f".{claim}"


def _wants(choice: Choice, request: DeviceRequest, below: str, is_raw: bool) -> Iterator[Want]:
    if request.exactly is not None:
        yield Want(request.name, request.name, request.exactly, choice, f"{below}.exactly" if is_raw else below, is_raw)
    alternatives = "firstAvailable" if is_raw else "first_available"
    written = _at(choice.settings.get(TRAIT), below).get(alternatives)
    for position, alternative in enumerate(request.first_available):
        place = f"[{position}]" if is_raw or isinstance(written, list | tuple) else f".{alternative.name}"
        reference = f"{request.name}/{alternative.name}"
        yield Want(reference, request.name, alternative, choice, f"{below}.{alternatives}{place}", is_raw)


def _at(value: object, below: str) -> Mapping[str, Any]:
    """What was written at a path of names alone; nothing if it is no mapping."""
    for part in below.replace("[", ".[").split(".")[1:]:
        if part.startswith("["):
            index = int(part[1:-1])
            value = value[index] if isinstance(value, list | tuple) and index < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
