"""What CEL reads, and whether that is there."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterator
from typing import Final

from dra_spawner.dra.allocation.selectors import SelectorFailure
from dra_spawner.dra.cel.syntax.references import Collection, Reference, qualified_keys, referenced_attributes
from dra_spawner.dra.errors import FatalReason
from dra_spawner.dra.model.devices import Device
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want

#: Releases whose API server accepts ``includes``: with this gate, and without it.
_INCLUDES_BY_GATE: Final = (1, 36)
_INCLUDES_ALWAYS: Final = (1, 38)
_LISTS: Final = "DRAListTypeAttributes"


def selector_findings(want: Want, inventory: Inventory) -> Iterator[Finding]:
    """Findings about the selectors of one request; those of its class are asked before them."""
    for position, expression in enumerate(want.selectors):
        for collection, key in qualified_keys(expression):
            domain, _, name = key.partition("/")
            yield rules.QUALIFIED_KEY.finding(
                want.selector_path(position),
                f'there is no device.{collection}["{key}"]: the domain comes first, '
                f'device.{collection}["{domain}"].{name}',
            )
    yield from _refused(want, inventory)
    if not inventory.is_known:
        yield from _unguarded(want)
    elif inventory.device_class(want.devices.device_class_name) is not None:
        failing = dict(_failing(want, inventory))
        yield from failing.values()
        yield from _unpublished(want, inventory, failing)


def _refused(want: Want, inventory: Inventory) -> Iterator[Finding]:
    """CEL with a function that the API server may not have."""
    version, facts = inventory.facts.kubernetes_version, inventory.facts
    if version is None or version >= _INCLUDES_ALWAYS or (facts.gates.get(_LISTS) and version >= _INCLUDES_BY_GATE):
        return
    unless = f", unless its feature gate {_LISTS} is on: kubernetes_feature_gates says so"
    is_sure = version < _INCLUDES_BY_GATE
    for position, expression in enumerate(want.selectors):
        if ".includes(" in expression:
            yield rules.SELECTOR_FAILS.finding(
                want.selector_path(position),
                f"Kubernetes {'.'.join(map(str, version))} refuses includes() in CEL{'' if is_sure else unless}",
                Level.ERROR if is_sure else Level.WARNING,
            )


def _unguarded(want: Want) -> Iterator[Finding]:
    for position, expression in enumerate(want.selectors):
        names = [_shown(each) for each in referenced_attributes(expression) if not each.guarded]
        if names:
            yield rules.UNGUARDED.finding(
                want.selector_path(position),
                f"reads {', '.join(names)} without looking first whether it is there; a device of the class without "
                "it would stop the scheduler for the pod",
            )


def _failing(want: Want, inventory: Inventory) -> Iterator[tuple[int, Finding]]:
    """Selectors that fail on some device, by their position in the request; those of the class are negative."""
    expressions = inventory.expressions(want.devices.device_class_name, want.selectors)
    of_class = len(expressions) - len(want.selectors)
    told: set[int] = set()
    for device, failure in inventory.candidates(expressions).failures:
        if failure.reason is FatalReason.SELECTOR_UNSUPPORTED or failure.position in told:
            continue
        told.add(failure.position)
        expression = expressions[failure.position]
        if failure.position < of_class:
            path, what = want.path_of("device_class"), f"the CEL of class {want.devices.device_class_name}"
        else:
            path, what = want.selector_path(failure.position - of_class), "this CEL"
        finding = rules.SELECTOR_FAILS.finding(path, _failure(what, expression, device, failure))
        yield failure.position - of_class, finding


def _failure(what: str, expression: str, device: Device, failure: SelectorFailure) -> str:
    missing = [each for each in referenced_attributes(expression) if not each.guarded and not _has(device, each)]
    fatal = "the scheduler gives up on the pod, on every node"
    if not missing:
        return f"{what} fails on device {device.id} ({failure.message}), and then {fatal}"
    reference = missing[0]
    domain = "device.driver" if reference.domain is None else f'"{reference.domain}"'
    return (
        f"{what} reads {_shown(reference)}, which device {device.id} does not publish, and then {fatal}; put "
        f"has(device.{reference.collection}[{domain}].{reference.name}) && before it"
    )


def _has(device: Device, reference: Reference) -> bool:
    domain = device.id.driver if reference.domain is None else reference.domain
    names = {f"{domain}/{reference.name}"} | ({reference.name} if domain == device.id.driver else set())
    description = device.description
    published = description.attributes if reference.collection is Collection.ATTRIBUTES else description.capacity
    return not names.isdisjoint(published)


def _unpublished(want: Want, inventory: Inventory, told: Container[int]) -> Iterator[Finding]:
    """An unpublished name in a known domain, which is probably misspelt."""
    published = inventory.all_published
    for position, expression in enumerate(want.selectors):
        if position in told:
            continue
        for reference in referenced_attributes(expression):
            prefix = f"{reference.collection}/{reference.domain}/"
            if reference.domain is None or f"{prefix}{reference.name}" in published:
                continue
            path = want.selector_path(position)
            if path == want.path:
                continue  # a word of the language, which looks for several names
            there = sorted(name.removeprefix(prefix) for name in published if name.startswith(prefix))
            if there:
                near = difflib.get_close_matches(reference.name, there, 3, 0.5) or there[:8]
                yield rules.UNPUBLISHED.finding(
                    path, f"no device publishes {_shown(reference)}; in that domain there are {', '.join(near)}"
                )


def _shown(reference: Reference) -> str:
    kind = "attribute" if reference.collection is Collection.ATTRIBUTES else "capacity"
    return f"{kind} {reference.domain}/{reference.name}" if reference.domain else f"{kind} {reference.name}"
