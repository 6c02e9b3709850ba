"""The shapes of all choices, as the hub publishes them, and the policy for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.names import PUBLISHER, SHAPES_CONFIG_MAP
from dra_spawner.placeholders.planner.targets.choice_names import (
    find_choice,
    is_combination,
    profile_of,
    without_defaults,
)
from dra_spawner.placeholders.planner.targets.limits import resolved_limits
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shape_definition import DefinitionError, shape_from
from dra_spawner.placeholders.planner.targets.shapes import Shape

_KEY: Final = "shapes.json"
_FORMAT: Final = 2
#: An object may have 1 MiB, including what the API server adds.
_MAX_BYTES: Final = 900_000
_PREPARED_FOR: Final = tuple(map(str, PreparedFor))
_LONGEST_START: Final = 10**6
_MAX_SHOWN: Final = 500
"""Characters of a problem; a hostile ConfigMap may have a megabyte where a number is expected."""
#: Limits of what is told of choices that cannot work.
_MAX_REFUSED: Final = 200
_MAX_MESSAGE: Final = 600
#: Limits of the names of choices in the form.
_MAX_TITLES: Final = 500
_MAX_TITLE: Final = 150


@dataclass(frozen=True, slots=True)
class RefusedChoice:
    """Why the hub refuses every server of a choice.

    Attributes
    ----------
    path
        Key of the configuration.
    message
        What is wrong there, as a sentence without its full stop.
    """

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class PublishedShapes:
    """The content of the hub's ConfigMap.

    Attributes
    ----------
    shapes
        By name of the choice (`choice_names`).
    skipped
        Reasons by choice without a shape.
    problem
        Why the ConfigMap cannot be read; empty if it can.
    defaults
        Default choice by option, by slug of the profile.
    drivers_prepare_for
        What drivers prepare claims for, by name of the driver, as the hub knows it.
    start_seconds
        The hub's ``start_timeout``: a start that takes longer fails. 0 if it is not known.
    refused
        Choices that cannot work on this cluster.
    titles
        What the spawn form calls some choices, plain text.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    defaults: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    drivers_prepare_for: Mapping[str, PreparedFor] = field(default_factory=dict)
    start_seconds: int = 0
    refused: Mapping[str, RefusedChoice] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        """The published name of a choice, which may spell out default options; None if there is none."""
        found = find_choice(name, self.shapes)
        if found is None and (defaults := self.defaults.get(profile_of(name))):
            found = find_choice(without_defaults(name, defaults), self.shapes)
        return found


def _refused(found: object) -> dict[str, RefusedChoice]:
    """Choices that cannot work; a hub of an older version publishes none."""
    if not isinstance(found, Mapping):
        return {}
    return {
        str(name)[:_MAX_SHOWN]: RefusedChoice(str(each["path"])[:_MAX_SHOWN], str(each["message"])[:_MAX_MESSAGE])
        for name, each in [*found.items()][:_MAX_REFUSED]
        if isinstance(each, Mapping) and {"path", "message"} <= each.keys()
    }


def _titles(found: object) -> dict[str, str]:
    """Names in the form; a hub of an older version publishes none."""
    if not isinstance(found, Mapping):
        return {}
    given = [(name, each) for name, each in found.items() if isinstance(each, str)][:_MAX_TITLES]
    return {str(name)[:_MAX_SHOWN]: "".join(filter(str.isprintable, each))[:_MAX_TITLE] for name, each in given}


def published_config_map(
    published: PublishedShapes,
    namespace: str,
    labels: Mapping[str, str],
    name: str = SHAPES_CONFIG_MAP,
    publisher: str = "",
) -> dict[str, Any]:
    """The ConfigMap with the shapes of all choices.

    Parameters
    ----------
    publisher
        Identity of the writing hub; see `publisher_of`.
    """
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, **({"annotations": {PUBLISHER: publisher}} if publisher else {})},
        "data": {_KEY: _content(published)},
    }


def _content(published: PublishedShapes) -> str:
    """The content as JSON; a shape that several choices share is written once."""
    shapes = {
        shape.id: {
            "claims": dict(shape.claims),
            "containers": list(shape.containers),
            "node_fields": dict(shape.node_fields),
        }
        for shape in published.shapes.values()
    }
    choices = {name: {"shape": shape.id, "images": sorted(shape.images)} for name, shape in published.shapes.items()}
    content = {
        "format": _FORMAT,
        "shapes": shapes,
        "choices": choices,
        "skipped": dict(published.skipped),
        "defaults": {slug: dict(each) for slug, each in published.defaults.items()},
        "drivers_prepare_for": dict(published.drivers_prepare_for),
        "start_seconds": published.start_seconds,
        "refused": {
            name: {"path": each.path, "message": each.message}
            for name, each in [*published.refused.items()][:_MAX_REFUSED]
        },
        "titles": dict([*published.titles.items()][:_MAX_TITLES]),
    }
    return json.dumps(content, sort_keys=True, indent=1)


def within_bounds(published: PublishedShapes) -> PublishedShapes:
    """The part that fits into one object: all combinations of a profile are left out together, most first."""
    while len(_content(published).encode()) > _MAX_BYTES:
        counts = Counter(profile_of(name) for name in published.shapes if is_combination(name))
        if not counts:
            break
        (slug, count), *_ = counts.most_common(1)
        shapes = {
            name: shape
            for name, shape in published.shapes.items()
            if not (is_combination(name) and profile_of(name) == slug)
        }
        skipped = {**published.skipped, **skipped_combinations(slug, count)}
        published = replace(published, shapes=shapes, skipped=skipped)
    return published


def skipped_combinations(slug: str, count: int) -> dict[str, str]:
    """The entry for a profile whose combinations of options are not published."""
    why = "too many to publish; their servers start, but they have no placeholders"
    return {f"{slug}/*": f"{count} combinations of several options are {why}"}


def publisher_of(obj: Mapping[str, Any]) -> str:
    """The identity of the hub that wrote a ConfigMap."""
    return str(((obj.get("metadata") or {}).get("annotations") or {}).get(PUBLISHER, ""))


def read_config_map(obj: Mapping[str, Any] | None, name: str = SHAPES_CONFIG_MAP) -> PublishedShapes:
    """The content of a hub's ConfigMap; without shapes, but with a problem, if it is invalid.

    A choice with an invalid shape is skipped.
    """
    if obj is None:
        return PublishedShapes(problem=f"the hub has not published its profiles yet (ConfigMap {name})")
    try:
        content = json.loads(obj["data"][_KEY])
        # Half of a surrogate pair is valid JSON, but cannot be logged or shown.
        json.dumps(content, ensure_ascii=False).encode()
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r:.100} is not known")
        skipped = {str(choice): str(why) for choice, why in content["skipped"].items()}
        known = {str(shape): _shape(str(shape), value) for shape, value in content["shapes"].items()}
        shapes: dict[str, Shape] = {}
        for choice, value in content["choices"].items():
            found = _of_choice(value, known)
            if isinstance(found, Shape):
                shapes[str(choice)] = found
            else:
                skipped[str(choice)] = found
        # A hub of an older version publishes no defaults.
        defaults = {
            str(slug): {str(option): str(choice) for option, choice in each.items()}
            for slug, each in content.get("defaults", {}).items()
        }
        # Of a driver that an older hub or a wrong entry leaves out, nothing is known.
        prepare = {
            str(driver): PreparedFor(word)
            for driver, word in content.get("drivers_prepare_for", {}).items()
            if word in _PREPARED_FOR
        }
        seconds = content.get("start_seconds", 0)
        known_seconds = seconds if type(seconds) is int and 0 < seconds < _LONGEST_START else 0
        return PublishedShapes(
            shapes,
            skipped,
            defaults=defaults,
            drivers_prepare_for=prepare,
            start_seconds=known_seconds,
            refused=_refused(content.get("refused")),
            titles=_titles(content.get("titles")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {str(error)[:_MAX_SHOWN]}"
        return PublishedShapes(problem=f"ConfigMap {name} is invalid: {what}")


def _of_choice(value: object, known: Mapping[str, Shape | str]) -> Shape | str:
    """A choice's shape, or why it has none; the other choices stay usable."""
    identity = value.get("shape") if isinstance(value, dict) else None
    found = known.get(identity) if isinstance(identity, str) else None
    images = value.get("images") if isinstance(value, dict) else None
    if found is None or not isinstance(images, list):
        return "its published entry is invalid"
    return found if isinstance(found, str) else replace(found, images=frozenset(map(str, images)))


def _shape(identity: str, value: object) -> Shape | str:
    """A shape, or why it is invalid."""
    try:
        return shape_from(value, identity)
    except DefinitionError as error:
        return f"its published shape is invalid: {error}"


def policy_with(
    policy: Policy, published: PublishedShapes, replicas: Mapping[str, ReplicaRange]
) -> tuple[Policy, list[str]]:
    """A policy for the published shapes, and problems of settings that name no choice.

    Choices with one shape share their placeholders: their targets are added, and limits of each count all of them.
    """
    shapes: dict[str, Shape] = {}
    for shape in published.shapes.values():
        known = shapes.get(shape.id)
        shapes[shape.id] = replace(shape, images=shape.images | known.images) if known is not None else shape
    wanted: dict[str, ReplicaRange] = {}
    problems = []
    for name, each in replicas.items():
        choice = find_choice(name, published.shapes)
        if choice is None:
            problems.append(_unknown(name, published))
            continue
        named = published.shapes[choice]
        before = wanted.get(named.id)
        wanted[named.id] = _added((before, each)) if before is not None else each
    limits, unknown = resolved_limits(policy.limits, {name: each.id for name, each in published.shapes.items()})
    # Only what the hub knows, too: it refuses claims of drivers that it does not know.
    prepare = published.drivers_prepare_for or policy.drivers_prepare_for
    found = replace(policy, shapes=shapes, replicas=wanted, limits=limits, drivers_prepare_for=prepare)
    return found, [*problems, *unknown]


def _added(each: Iterable[ReplicaRange]) -> ReplicaRange:
    parts = list(each)
    floors = [part.floor for part in parts]
    floor = sum(value for value in floors if value is not None) if any(v is not None for v in floors) else None
    return ReplicaRange(sum(part.min for part in parts), sum(part.max for part in parts), floor)


def _unknown(name: str, published: PublishedShapes) -> str:
    skipped = find_choice(name, published.skipped)
    if skipped is None and is_combination(name) and f"{profile_of(name)}/*" in published.skipped:
        skipped = f"{profile_of(name)}/*"
    if skipped is not None:
        return f"placeholders of {name}: this choice is left out: {published.skipped[skipped]}"
    names = sorted(each for each in published.shapes if not is_combination(each))
    more = len(published.shapes) - len(names)
    found = ", ".join(names) or "none"
    combinations = f" and {more} combinations of several options" if more else ""
    # Imported here: the hub imports this module, and has no use for it.
    from dra_spawner.common.close_names import did_you_mean

    hint = did_you_mean(name, names)
    return f"placeholders of {name}: there is no such choice; there are: {found}{combinations}{hint and '.' + hint}"
