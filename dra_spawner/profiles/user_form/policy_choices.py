"""``choices: from_policy``: choices of a profile option, generated from the devices' sizes of a capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner.dra.quantity import Quantity, amount_text
from dra_spawner.profiles.compiler.claims import DeviceClaim, DeviceRequest
from dra_spawner.profiles.syntax import rules
from dra_spawner.profiles.syntax.keys import Key, Keys
from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.reading import ValueReader
from dra_spawner.profiles.user_form.offers import DeviceCatalog, Offer
from dra_spawner.profiles.user_form.sizes import pick_sizes, smallest_size

FROM_POLICY: Final = "from_policy"
#: Key of a choice that is not available now; the value tells the user why.
UNAVAILABLE: Final = "unavailable"

_AT_MAX: Final = 8
_LONGEST_SLUG: Final = 32
_NOT_KNOWN: Final = "The sizes are not known at the moment; please reload this page later"

_MANY = rules.whole_number("a whole number from 2 to 32", 2, 32)

#: What may stand below ``from_policy``; all of it may be left out where the profile says it.
POLICY_KEYS: Keys = {
    "claim": Key("the claim of device_claims; left out where there is only one", rules.NAME.schema),
    "request": Key("the request, or request/alternative; left out where there is only one", rules.NAME.schema),
    "capacity": Key("the capacity; left out where the request asks for only one", rules.CAPACITY_NAME.schema),
    "at_most": Key("how many sizes to offer; 8 where left out", _MANY.schema),
    "smallest": Key("nothing below this is offered", rules.QUANTITY.schema),
    "largest": Key("nothing of which more than this is reserved is offered", rules.QUANTITY.schema),
    "default": Key("the size that is chosen beforehand", rules.QUANTITY.schema),
    "fallback": Key("the sizes while nothing is known of the devices", {"type": "array"}),
}

Claims = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyChoices:
    """What ``from_policy`` refers to, and its limits.

    Attributes
    ----------
    claim, request, capacity
        The amount that is chosen; ``request`` is as constraints name it, of a claim in short form it is the claim's
        name.
    override
        Keys of ``device_claims`` that lead to the request.
    at_most
        How many sizes to offer.
    smallest, largest
        Limits besides those of the devices, of what is reserved.
    default
        What is chosen beforehand.
    fallback
        Sizes while nothing is known of the devices.
    """

    claim: str
    request: str
    capacity: str
    override: tuple[str, ...]
    at_most: int = _AT_MAX
    smallest: Quantity | None = None
    largest: Quantity | None = None
    default: Quantity | None = None
    fallback: tuple[Quantity, ...] = ()

    def overriding(self, size: str) -> dict[str, Any]:
        """``kubespawner_override`` of a size."""
        value: dict[str, Any] = {"capacity": {self.capacity: size}}
        for key in reversed(self.override):
            value = {key: value}
        return {"device_claims": value}

    def request_in(self, claims: Iterable[DeviceClaim]) -> DeviceRequest | None:
        """The request (or alternative) that is meant, among parsed claims."""
        name, _, alternative = self.request.partition("/")
        for claim in claims:
            for request in claim.requests:
                if claim.name == self.claim and request.name == name:
                    return next((each for each in request.first_available if each.name == alternative), request)
        return None

    def allows(self, size: Quantity, offers: Iterable[Offer] = ()) -> bool:
        """Whether a size keeps the limits, whichever device gives it.

        What counts is what is reserved: 12Gi in steps of 5Gi are 15Gi. A device that cannot be shared is taken as a
        whole; of it, and while nothing is known, the size counts.
        """
        given = [
            reserved if offer.is_shareable else size
            for offer in offers
            if (reserved := offer.reserved(size)) is not None
        ]
        return all(map(self._within_limits, given or [size]))

    def _within_limits(self, amount: Quantity) -> bool:
        return (self.smallest is None or amount >= self.smallest) and (self.largest is None or amount <= self.largest)


def is_from_policy(choices: object) -> bool:
    """Whether ``choices`` of a profile option are to be made; a choice of that name that is a choice does not count."""
    if isinstance(choices, Mapping):
        value = choices.get(FROM_POLICY, "")
        return value is None or (isinstance(value, Mapping) and "display_name" not in value)
    return choices == FROM_POLICY


def read_policy_choices(choices: object, claims: object, path: str) -> tuple[PolicyChoices | None, list[Problem]]:
    """Find the request and the capacity of ``choices: from_policy``.

    Parameters
    ----------
    choices
        ``from_policy``, or a mapping with that key.
    claims
        The profile's ``device_claims``, as merged.
    """
    reader = _PolicyReader()
    value = choices.get(FROM_POLICY) if isinstance(choices, Mapping) else None
    where = f"{path}.{FROM_POLICY}" if isinstance(choices, Mapping) else path
    found = reader.policy(value or {}, claims if isinstance(claims, Mapping) else {}, where)
    return (None if reader.problems else found), reader.problems


def generated_choices(
    policy: PolicyChoices,
    requests: Sequence[DeviceRequest],
    catalog: DeviceCatalog,
    picked: object = None,
    *,
    mark_default: bool = True,
) -> dict[str, dict[str, Any]]:
    """The choices by their slug, which is the size as Kubernetes writes it.

    Parameters
    ----------
    requests
        What the request may be, given the profile's other options.
    picked
        What the user picked before. A size that is not among the regular ones, but legal, is offered too: the choice
        of regular sizes changes with the devices, and an earlier pick must stay valid.
    mark_default
        Whether one of them is chosen beforehand.
    """
    offers = tuple(dict.fromkeys(offer for request in requests for offer in catalog.offers(request, policy.capacity)))
    sizes = _offered_sizes(policy, requests, offers)
    wanted = _picked_size(policy, offers, picked)
    if not sizes and wanted is None:
        return {"unknown": {"display_name": _NOT_KNOWN, UNAVAILABLE: _NOT_KNOWN}}
    default = _default_size(policy, requests, offers, sizes)
    if default is None:
        default = wanted
    every = sorted({size for size in (*sizes, wanted) if size is not None})
    return {
        size.canonical(): {
            "display_name": amount_text(size, policy.capacity),
            "kubespawner_override": policy.overriding(size.canonical()),
            **({"default": True} if mark_default and size == default else {}),
        }
        for size in every
    }


def _offered_sizes(policy: PolicyChoices, requests: Sequence[DeviceRequest], offers: Sequence[Offer]) -> list[Quantity]:
    sizes = pick_sizes(offers, policy.at_most, policy.smallest, policy.largest)
    sizes = [size for size in sizes if policy.allows(size, offers)]
    if sizes:
        given = policy.default
        if given is not None and given not in sizes and policy.allows(given, offers) and _is_given(given, offers):
            # Rather this one than the smallest.
            sizes = [*sizes[len(sizes) >= policy.at_most :], given]
        return sorted(sizes)
    # The devices are unknown or missing now; a node may be added first.
    return [size for size in (policy.fallback or _own_sizes(policy, requests)) if policy.allows(size, offers)]


def _is_given(size: Quantity, offers: Iterable[Offer]) -> bool:
    """Whether some device gives just that."""
    return any(offer.reserved(size) == size for offer in offers)


def _own_sizes(policy: PolicyChoices, requests: Sequence[DeviceRequest]) -> list[Quantity]:
    """What the profile itself asks for."""
    own = (dict(request.capacity).get(policy.capacity) for request in requests)
    return sorted({Quantity.parse(size) for size in own if size is not None})


def _default_size(
    policy: PolicyChoices, requests: Sequence[DeviceRequest], offers: Sequence[Offer], sizes: Sequence[Quantity]
) -> Quantity | None:
    """The administrator's word, else the profile's own amount, else the devices' default, else the smallest size.

    A device's default is often its whole capacity, which a form should not suggest.
    """
    candidates = [policy.default, *_own_sizes(policy, requests)[:1]]
    for offer in offers:
        device_policy = offer.capacity.policy
        if device_policy is not None and device_policy.default is not None and device_policy.default < offer.largest:
            candidates.append(device_policy.default)
    for candidate in candidates:
        if candidate is not None:
            return next((size for size in sizes if size >= candidate), sizes[-1] if sizes else None)
    return sizes[0] if sizes else None


def _picked_size(policy: PolicyChoices, offers: Sequence[Offer], picked: object) -> Quantity | None:
    if not isinstance(picked, str) or len(picked) > _LONGEST_SLUG or not rules.QUANTITY.accepts(picked):
        return None
    size = Quantity.parse(picked)
    if size.canonical() != picked or not policy.allows(size, offers):
        return None
    # A form never offered less than the smallest share, nor a tiny fraction of a device without such a limit.
    is_given = any(
        offer.reserved(size) is not None and not (offer.is_shareable and size < smallest_size(offer))
        for offer in offers
    )
    return size if not offers or is_given else None


class _PolicyReader(ValueReader):
    """Reads the mapping of ``from_policy``."""

    def policy(self, value: object, claims: Claims, path: str) -> PolicyChoices | None:
        entry = self.keyed(value, path, POLICY_KEYS, "keys of from_policy", "a mapping such as {capacity: memory}")
        if entry is None:
            return None
        claim = self._one_of(entry, "claim", claims, path, "the profile's device_claims")
        if claim is None:
            return None
        found = self._request(entry, claim, claims[claim], path)
        if found is None:
            return None
        request, override, below = found
        asked = below.get("capacity")
        asked = asked if isinstance(asked, Mapping) else {}
        capacity = entry.get("capacity")
        if capacity is None and len(asked) == 1:
            (capacity,) = asked
        if capacity is None:
            self.missing(f"{path}.capacity", "which capacity is chosen, exactly as the driver publishes it")
            return None
        most = entry.get("at_most")
        if most is not None:
            self.follows(_MANY, most, f"{path}.at_most")
        return PolicyChoices(
            claim,
            request,
            self.text(rules.CAPACITY_NAME, capacity, f"{path}.capacity"),
            override,
            at_most=most if isinstance(most, int) else _AT_MAX,
            smallest=self._quantity(entry.get("smallest"), f"{path}.smallest"),
            largest=self._quantity(entry.get("largest"), f"{path}.largest"),
            default=self._quantity(entry.get("default"), f"{path}.default"),
            fallback=tuple(sorted(self.listed(entry.get("fallback"), f"{path}.fallback", "sizes", 32, self._quantity))),
        )

    def _one_of(
        self, entry: Mapping[str, object], key: str, known: Mapping[str, Any], path: str, what: str
    ) -> str | None:
        """The value that the key names, or the only value."""
        name = entry.get(key)
        names = ", ".join(map(str, known)) or "none"
        if name is None and len(known) == 1:
            return str(next(iter(known)))
        if name is None:
            self.missing(f"{path}.{key}", f"which of {what} is meant: {names}")
        elif not isinstance(name, str) or name not in known:
            self.refuse(f"{path}.{key}", name, f"one of {what}: {names}")
        else:
            return name
        return None

    def _request(
        self, entry: Mapping[str, object], claim: str, value: object, path: str
    ) -> tuple[str, tuple[str, ...], Mapping[str, Any]] | None:
        """The request's name, the keys of its path, and its value."""
        wanted = entry.get("request")
        below: object = value
        keys: tuple[str, ...] = (claim,)
        name, _, alternative = wanted.partition("/") if isinstance(wanted, str) else ("", "", "")
        if not isinstance(below, Mapping) or any(below.get(form) for form in ("template", "claim", "spec")):
            self.refuse(f"{path}.claim", claim, "a claim with requests")
            return None
        if isinstance(below.get("requests"), Mapping):
            requests = below["requests"]
            name = self._one_of({"request": name or None}, "request", requests, path, "the claim's requests") or ""
            if not name:
                return None
            below, keys = requests[name], (claim, "requests", name)
        elif name not in ("", claim):
            self.refuse(f"{path}.request", wanted, f"{claim}, as the claim is in short form")
            return None
        else:
            name = claim
        if not isinstance(below, Mapping):
            return name, keys, {}
        alternatives = below.get("first_available")
        if alternatives is None:
            return name, keys, below
        if not isinstance(alternatives, Mapping):
            self.refuse(f"{path}.request", name, "a request whose alternatives are a mapping: a list cannot be merged")
            return None
        chosen = self._one_of({"request": alternative or None}, "request", alternatives, path, f"{name}'s alternatives")
        if chosen is None:
            return None
        found = alternatives[chosen]
        return f"{name}/{chosen}", (*keys, "first_available", chosen), found if isinstance(found, Mapping) else {}

    def _quantity(self, value: object, path: str) -> Quantity | None:
        if value is None or not self.follows(rules.QUANTITY, value, path):
            return None
        return Quantity.parse(value) if isinstance(value, str | int) else None
