"""The profile language: ``device_claims`` as an administrator writes it, parsed and validated.

Everything is refused here that the API server would refuse later (``resource.k8s.io/v1`` validation), and
all that could only fail in silence: a quantity that is none, a capacity that is negative, a misspelt key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from dra_spawner.dra.cel import CelCompileError, compile_selector
from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.profiles.problems import Problem, ProfileError, shown

#: A claim's allocation has at most so many devices (``AllocationResultsMaxSize``).
MAX_DEVICES_PER_CLAIM = 32
#: Most selectors of one request (``DeviceSelectorsMaxSize``).
MAX_SELECTORS = 32
#: Most claims of one pod that KubeSpawner's users meet in practice are few; the API sets no limit of its own.
MAX_CLAIMS = 32
#: Most requests of one claim (``DeviceRequestsMaxSize``).
MAX_REQUESTS = 32
#: The container in which KubeSpawner starts the notebook server.
NOTEBOOK = "notebook"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CAPACITY_NAME = re.compile(r"(?:[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}")

_REQUEST_KEYS = ("device_class", "product", "capacity", "where", "count")
_CLAIM_KEYS = ("requests", "containers")

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One named request: devices of one class, and what each of them must be.

    Attributes
    ----------
    name
        The request's name, a DNS label.
    device_class
        ``deviceClassName``.
    count
        How many devices, from 1 to 32.
    product
        A pattern for the product's name (``*`` any text, ``?`` one character), or ``None``.
    capacity
        Capacity name, exactly as the driver publishes it, and how much of it is asked for, canonically written.
    where
        Further selectors in CEL, all of which must hold.
    """

    name: str
    device_class: str
    count: int = 1
    product: str | None = None
    capacity: tuple[tuple[str, str], ...] = ()
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """One claim of a server.

    Attributes
    ----------
    name
        The name of the pod's ``resourceClaims`` entry, a DNS label.
    requests
        At least one request.
    containers
        Container name and the requests it gets; a container that is not named gets none.
    """

    name: str
    requests: tuple[DeviceRequest, ...]
    containers: tuple[tuple[str, tuple[str, ...]], ...]


def parse_device_claims(value: object, path: str = "device_claims") -> tuple[DeviceClaim, ...]:
    """Parse and validate ``device_claims``.

    Parameters
    ----------
    value
        The trait's value: claim name -> claim in short form (one request) or long form (``requests``).
    path
        Where the value stands, for messages.

    Raises
    ------
    ProfileError
        With every problem found.
    """
    parser = _Parser()
    claims = parser.claims(value, path)
    if parser.problems:
        raise ProfileError(parser.problems)
    return claims


class _Parser:
    """Walks the value once and notes problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def refuse(self, path: str, found: object, allowed: str) -> None:
        self.problems.append(Problem(path, shown(found), allowed))

    def missing(self, path: str, allowed: str) -> None:
        self.problems.append(Problem(path, "", allowed))

    def mapping(self, value: object, path: str, allowed: str) -> Mapping[str, object] | None:
        if not isinstance(value, Mapping):
            self.refuse(path, value, allowed)
            return None
        for key in value:
            if not isinstance(key, str):
                self.refuse(f"{path}.{key}", key, "a key that is text")
                return None
        return value

    def named(
        self,
        value: object,
        path: str,
        what: str,
        most: int,
        parse: Callable[[str, object, str], _Value | None],
    ) -> tuple[_Value, ...]:
        """Parse a mapping of DNS label -> item."""
        entries = self.mapping(value, path, f"a mapping of a name to {what}")
        if entries is None:
            return ()
        if len(entries) > most:
            self.refuse(path, f"{len(entries)} entries", f"at most {most}")
        items = []
        for name, entry in entries.items():
            if not _LABEL.fullmatch(name):
                self.refuse(
                    f"{path}.{name}",
                    name,
                    "a name of at most 63 lower-case letters, digits and inner hyphens",
                )
            item = parse(name, entry, f"{path}.{name}")
            if item is not None:
                items.append(item)
        return tuple(items)

    def claims(self, value: object, path: str) -> tuple[DeviceClaim, ...]:
        return self.named(value, path, "a claim", MAX_CLAIMS, self.claim)

    def claim(self, name: str, value: object, path: str) -> DeviceClaim | None:
        entry = self.mapping(
            value, path, "a mapping, for example {device_class: gpu.example.com, capacity: {memory: 10Gi}}"
        )
        if entry is None:
            return None
        if "requests" not in entry:
            if "containers" in entry:
                self.refuse(
                    f"{path}.containers",
                    entry["containers"],
                    "containers beside requests (the long form) only",
                )
                return None
            request = self.request(name, entry, path)
            if request is None:
                return None
            return DeviceClaim(name, (request,), ((NOTEBOOK, (name,)),))
        self.known_keys(entry, path, _CLAIM_KEYS, "keys of a claim in long form")
        requests_path = f"{path}.requests"
        requests = self.named(entry["requests"], requests_path, "a request", MAX_REQUESTS, self.request)
        if isinstance(entry["requests"], Mapping) and not entry["requests"]:
            self.missing(requests_path, "at least one request")
        devices = sum(request.count for request in requests)
        if devices > MAX_DEVICES_PER_CLAIM:
            self.refuse(
                requests_path,
                f"{devices} devices in all",
                f"at most {MAX_DEVICES_PER_CLAIM} devices in one claim",
            )
        names = [str(request) for request in entry["requests"]] if isinstance(entry["requests"], Mapping) else []
        containers = self.containers(entry.get("containers"), f"{path}.containers", names)
        return DeviceClaim(name, requests, containers)

    def containers(self, value: object, path: str, requests: list[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        if value is None:
            return ((NOTEBOOK, tuple(requests)),)

        def container(name: str, wanted: object, where: str) -> tuple[str, tuple[str, ...]] | None:
            if not isinstance(wanted, list | tuple):
                self.refuse(where, wanted, f"a list of requests out of {', '.join(requests)}")
                return None
            for index, request in enumerate(wanted):
                if request not in requests:
                    self.refuse(f"{where}[{index}]", request, f"one of the claim's requests: {', '.join(requests)}")
                    return None
            return (name, tuple(dict.fromkeys(wanted)))

        return self.named(value, path, "a list of requests", MAX_CLAIMS, container)

    def request(self, name: str, value: object, path: str) -> DeviceRequest | None:
        entry = self.mapping(value, path, "a mapping with at least device_class")
        if entry is None:
            return None
        self.known_keys(entry, path, _REQUEST_KEYS, "keys of a request")
        device_class = entry.get("device_class")
        if device_class is None:
            self.missing(f"{path}.device_class", "the name of a DeviceClass of the cluster")
        elif not isinstance(device_class, str) or not _SUBDOMAIN.fullmatch(device_class):
            self.refuse(f"{path}.device_class", device_class, "the name of a DeviceClass, such as gpu.example.com")
        return DeviceRequest(
            name=name,
            device_class=device_class if isinstance(device_class, str) else "",
            count=self.count(entry.get("count", 1), f"{path}.count"),
            product=self.product(entry.get("product"), f"{path}.product"),
            capacity=self.capacity(entry.get("capacity"), f"{path}.capacity"),
            where=self.where(entry.get("where"), f"{path}.where", has_product=entry.get("product") is not None),
        )

    def known_keys(self, entry: Mapping[str, object], path: str, known: tuple[str, ...], what: str) -> None:
        for key in entry:
            if key not in known:
                self.refuse(f"{path}.{key}", key, f"the {what}: {', '.join(known)}")

    def count(self, value: object, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_DEVICES_PER_CLAIM:
            self.refuse(path, value, f"a whole number from 1 to {MAX_DEVICES_PER_CLAIM}")
            return 1
        return value

    def product(self, value: object, path: str) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or len(value) > 64 or not value.isprintable():
            self.refuse(path, value, 'a product\'s name of at most 64 characters, * for any text, such as "A100*"')
            return None
        return value

    def capacity(self, value: object, path: str) -> tuple[tuple[str, str], ...]:
        if value is None:
            return ()
        entries = self.mapping(value, path, "a mapping of a capacity's name to a quantity, such as {memory: 10Gi}")
        amounts = []
        for name, amount in (entries or {}).items():
            where = f"{path}.{name}"
            if not _CAPACITY_NAME.fullmatch(name):
                self.refuse(where, name, "a capacity's name exactly as the driver publishes it, such as memory")
                continue
            quantity = self.quantity(amount, where)
            if quantity is not None:
                amounts.append((name, str(quantity)))
        return tuple(amounts)

    def quantity(self, value: object, path: str) -> Quantity | None:
        allowed = "a quantity above zero, such as 10Gi or 500m"
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.refuse(path, value, allowed)
            return None
        try:
            quantity = Quantity.parse(value)
        except QuantityError:
            self.refuse(path, value, allowed)
            return None
        if quantity.nano <= 0:
            self.refuse(path, value, allowed)
            return None
        return quantity

    def where(self, value: object, path: str, *, has_product: bool) -> tuple[str, ...]:
        if value is None:
            return ()
        if isinstance(value, str):
            expressions = [(path, value)]
        elif isinstance(value, list | tuple):
            expressions = [(f"{path}[{index}]", expression) for index, expression in enumerate(value)]
        else:
            self.refuse(path, value, "a CEL expression or a list of them")
            return ()
        if len(expressions) + has_product > MAX_SELECTORS:
            self.refuse(path, f"{len(expressions)} expressions", f"at most {MAX_SELECTORS} with product")
        for where, expression in expressions:
            self.expression(expression, where)
        return tuple(expression for _, expression in expressions)

    def expression(self, value: object, path: str) -> None:
        if not isinstance(value, str):
            self.refuse(path, value, "a CEL expression as text")
            return
        try:
            compile_selector(value)
        except CelCompileError as error:
            self.refuse(path, value, f"a CEL expression that compiles (column {error.column}: {error.message})")
