"""What a user can pick in the spawn form, as the spawner would carry it out: the one list that all checks go over.

KubeSpawner merges the ``kubespawner_override`` of a profile and of the chosen choices, in the order of the options,
into the spawner's own traits. The same merge is done here beforehand: once for each profile with the default choices
of its options, and once for every other choice of every option beside the others' defaults. Combinations of several
choices that are no defaults are not gone over; there may be any number of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_spawner.profiles.claim_plan import ClaimPlan, compile_claims
from dra_spawner.profiles.claim_templates import expand_claims
from dra_spawner.profiles.claims import DeviceClaim
from dra_spawner.profiles.language import parse_device_claims
from dra_spawner.profiles.merging import MergeConflict, merge_overrides
from dra_spawner.profiles.problems import Problem, ProfileError, shown
from dra_spawner.profiles.templates import SAMPLE_VALUES, Values

__all__ = [
    "TRAIT",
    "Choice",
    "Layer",
    "ListedChoice",
    "default_choice",
    "list_choices",
    "pick_choice",
    "profile_slug",
    "profiles_of",
]

#: The spawner's trait that holds claims.
TRAIT = "device_claims"

_PLAIN_KEY = re.compile(r"\.([^.\[ ]+)(?=[.\[ ]|$)")
_INDEX = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings that were merged, and where they stand.

    Attributes
    ----------
    path
        Such as ``profile_list[1].kubespawner_override``; empty for the spawner's own traits.
    settings
        Values of traits by name.
    """

    path: str
    settings: Mapping[str, Any]

    def path_to(self, trait: str) -> str:
        """Where a trait stands in this layer."""
        return f"{self.path}.{trait}" if self.path else trait


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile with one choice of its options.

    Attributes
    ----------
    path
        Where it stands, such as ``profile_list[1].profile_options.memory.choices.large``; ``device_claims`` for the
        spawner's own configuration.
    claims_path
        Where its claims stand, for findings, such as ``profile_list[1].kubespawner_override.device_claims``.
    profile
        Slug of the profile; empty for the spawner's own configuration.
    picks
        Option and choice that differ from the profile's defaults.
    settings
        The spawner's traits as merged (``environment``, ``tolerations``, ``privileged``, ``extra_resource_limits`` …);
        only those that are set.
    claims
        ``device_claims``, parsed.
    plan
        The same, compiled.
    layers
        What was merged, the later over the earlier.
    """

    path: str
    claims_path: str
    profile: str
    picks: Mapping[str, str]
    settings: Mapping[str, Any]
    claims: tuple[DeviceClaim, ...]
    plan: ClaimPlan
    layers: tuple[Layer, ...] = ()

    def path_of(self, below: str) -> str:
        """Where something of the claims was written: in the profile, in the choice, or in the spawner's own traits.

        Parameters
        ----------
        below
            Where it stands below ``device_claims``, such as ``.gpu.capacity.memory``.
        """
        return origin(self.layers, below) if self.layers else f"{self.claims_path}{below}"

    def path_of_setting(self, where: str) -> str:
        """Where another trait was set last; if it is not, where the profile could set it, whatever is picked in it.

        Parameters
        ----------
        where
            The trait, or a place in it, such as ``tolerations`` or ``environment.NVIDIA_VISIBLE_DEVICES``.
        """
        trait = re.split(r"[.\[]", where, maxsplit=1)[0]
        having = [layer for layer in self.layers if trait in layer.settings]
        layers = having[-1:] or self.layers[1:2] or self.layers[:1]
        return layers[0].path_to(where) if layers else f"{self.path}.{where}"


@dataclass(frozen=True, slots=True)
class ListedChoice:
    """A choice of the list, or why it is none.

    Attributes
    ----------
    path, profile, picks
        See `Choice`.
    problems
        What the language refuses, each at the place where it was written.
    choice
        ``None`` if there are problems.
    """

    path: str
    profile: str
    picks: Mapping[str, str]
    problems: tuple[Problem, ...]
    choice: Choice | None


@dataclass(frozen=True, slots=True)
class _Option:
    """One option of a profile: where each of its choices stands, and what it overrides."""

    name: str
    choices: Mapping[str, Layer]
    default: str


def list_choices(
    profile_list: object,
    settings: Mapping[str, Any],
    *,
    path: str = "profile_list",
    settings_path: str = "",
) -> Iterator[ListedChoice]:
    """Each choice of a static profile list, merged as KubeSpawner would; without profiles, the spawner's own claims.

    Parameters
    ----------
    profile_list
        ``KubeSpawner.profile_list``: a list, or a dict whose values are sorted by key. Of a function, which can only be
        asked for a user, nothing is listed.
    settings
        The spawner's own traits as configured, ``device_claims`` among them.
    path, settings_path
        Where the two stand, for messages.
    """
    base = Layer(settings_path, {name: value for name, value in settings.items() if name != "profile_list"})
    if not profile_list:
        yield _listed(base.path_to(TRAIT), "", {}, (base,))
        return
    for profile_path, profile in profiles_of(profile_list, path):
        if isinstance(profile, Mapping):
            yield from _choices_of(profile, profile_path, base)


def pick_choice(
    profile_list: object,
    settings: Mapping[str, Any],
    profile: str = "",
    picks: Mapping[str, str] | None = None,
    *,
    path: str = "profile_list",
    settings_path: str = "",
    values: Values = SAMPLE_VALUES,
) -> ListedChoice:
    """The one choice that these options make, of options that are not named the default.

    Parameters
    ----------
    profile
        Slug; empty for the default profile.
    picks
        Choice by option.
    values
        For placeholders.

    Raises
    ------
    LookupError
        When there is no such profile, option or choice; the message says which there are.
    """
    picks = picks or {}
    base = Layer(settings_path, {name: value for name, value in settings.items() if name != "profile_list"})
    profiles = [(where, each) for where, each in profiles_of(profile_list, path) if isinstance(each, Mapping)]
    if not profiles:
        if profile or picks:
            raise LookupError("there are no profiles to pick from")
        return _listed(base.path_to(TRAIT), "", {}, (base,), values)
    by_slug = {profile_slug(each): (where, each) for where, each in profiles}
    if profile and profile not in by_slug:
        raise LookupError(f"there is no profile {profile}; there are: {', '.join(by_slug)}")
    default = next((each for _, each in profiles if each.get("default")), profiles[0][1])
    where, chosen = by_slug[profile or profile_slug(default)]
    options = {option.name: option for option in _options(chosen, where)}
    for name, choice in picks.items():
        if name not in options:
            there = f"; there are: {', '.join(options)}" if options else ""
            raise LookupError(f"profile {profile_slug(chosen)} has no option {name}{there}")
        if choice not in options[name].choices:
            raise LookupError(f"option {name} has no choice {choice}; there are: {', '.join(options[name].choices)}")
    layers = [option.choices[picks.get(name, option.default)] for name, option in options.items()]
    return _listed(where, profile_slug(chosen), picks, (base, _layer(chosen, where), *layers), values)


def profiles_of(profile_list: object, path: str = "profile_list") -> Iterator[tuple[str, object]]:
    """The profiles of a list, each with its path."""
    if isinstance(profile_list, Mapping):
        for key in sorted(profile_list):
            yield f"{path}.{key}", profile_list[key]
    elif isinstance(profile_list, list | tuple):
        for index, profile in enumerate(profile_list):
            yield f"{path}[{index}]", profile


def default_choice(choices: Mapping[str, Any]) -> str:
    """Name of the choice that KubeSpawner takes if the user touches nothing; empty if there is none."""
    marked = (name for name, choice in choices.items() if isinstance(choice, Mapping) and choice.get("default"))
    return next(marked, next(iter(choices), ""))


def profile_slug(profile: Mapping[str, Any]) -> str:
    """The profile's name in options; as KubeSpawner makes one of the display name, for plain names at least."""
    slug = profile.get("slug")
    if isinstance(slug, str) and slug:
        return slug
    return re.sub(r"[^a-z0-9]+", "-", str(profile.get("display_name") or "").lower().replace("'", "")).strip("-")


def _choices_of(profile: Mapping[str, Any], path: str, base: Layer) -> Iterator[ListedChoice]:
    slug = profile_slug(profile)
    own = _layer(profile, path)
    options = tuple(_options(profile, path))
    defaults = {option.name: option.choices[option.default] for option in options}
    layers = (base, own)
    yield _listed(path, slug, {}, (*layers, *defaults.values()))
    for option in options:
        for name, layer in option.choices.items():
            if name != option.default:
                chosen = {**defaults, option.name: layer}
                picks = {option.name: name}
                choice_path = f"{path}.profile_options.{option.name}.choices.{name}"
                yield _listed(choice_path, slug, picks, (*layers, *chosen.values()))


def _options(profile: Mapping[str, Any], path: str) -> Iterator[_Option]:
    options = profile.get("profile_options")
    for name, option in options.items() if isinstance(options, Mapping) else ():
        choices = option.get("choices") if isinstance(option, Mapping) else None
        if not isinstance(choices, Mapping) or not choices:
            continue  # free text alone: there is nothing to list
        layers = {
            key: _layer(choice if isinstance(choice, Mapping) else {}, f"{path}.profile_options.{name}.choices.{key}")
            for key, choice in choices.items()
        }
        yield _Option(name, layers, default_choice(choices))


def _layer(entry: Mapping[str, Any], path: str) -> Layer:
    override = entry.get("kubespawner_override")
    return Layer(f"{path}.kubespawner_override", override if isinstance(override, Mapping) else {})


def _listed(
    path: str, profile: str, picks: Mapping[str, str], layers: tuple[Layer, ...], values: Values = SAMPLE_VALUES
) -> ListedChoice:
    """Merge and compile, with values for placeholders as they might be for some user."""
    settings: dict[str, Any] = {}
    problems: list[Problem] = []
    for layer in layers:
        for name, value in layer.settings.items():
            problem = _apply(settings, name, value, layer)
            if problem is not None:
                problems.append(problem)
    claims = settings.get(TRAIT) or {}
    try:
        # Whether the user is an administrator shows at the spawn.
        parsed = expand_claims(parse_device_claims(claims, "", admin_access=True), values, "")
    except ProfileError as error:
        problems += [Problem(origin(layers, each.path), each.found, each.allowed) for each in error.problems]
    if problems:
        return ListedChoice(path, profile, picks, tuple(problems), None)
    with_claims = [layer for layer in layers if TRAIT in layer.settings]
    claims_path = (with_claims[-1] if with_claims else layers[-1]).path_to(TRAIT)
    choice = Choice(path, claims_path, profile, picks, settings, parsed, compile_claims(parsed, settings), layers)
    return ListedChoice(path, profile, picks, (), choice)


def _apply(settings: dict[str, Any], name: str, value: object, layer: Layer) -> Problem | None:
    """What KubeSpawner does with one override; functions are called at each spawn only."""
    if callable(value):
        return None
    before = settings.get(name)
    if name == TRAIT and not isinstance(value, Mapping):
        return Problem(layer.path_to(name), shown(value), "a mapping of a name to a claim")
    if not isinstance(value, Mapping) or not (isinstance(before, Mapping) or name == TRAIT):
        settings[name] = value
        return None
    try:
        settings[name] = merge_overrides(before or {}, value)
    except MergeConflict as conflict:
        if name != TRAIT:
            return None  # KubeSpawner's own to tell
        found = f"a mapping over {shown(conflict.found)}"
        return Problem(f"{layer.path_to(name)}{conflict.path}", found, "what merges with the profile's own value")
    return None


def origin(layers: Sequence[Layer], below: str) -> str:
    """Path of what stands ``below`` the claims.

    A single value is told in the last layer that says it; a mapping, which later layers only add to, and what is not
    there at all, in the first layer that says most of the way.
    """
    best, most = next((each for each in layers if each.settings.get(TRAIT)), layers[-1]), 0
    for layer in layers:
        known, value = _known(layer.settings.get(TRAIT), below)
        if known > most or (known == most == len(below) and not isinstance(value, Mapping)):
            best, most = layer, known
    return f"{best.path_to(TRAIT)}{below}"


def _known(value: object, path: str) -> tuple[int, object]:
    """How many characters of a path lead to something in a value, and to what."""
    position = 0
    while position < len(path):
        plain = _PLAIN_KEY.match(path, position)
        if plain is not None and isinstance(value, dict) and plain[1] in value:
            value, position = value[plain[1]], plain.end()
            continue
        rest = path[position:]
        index = _INDEX.match(rest)
        if isinstance(value, Mapping):
            # Keys may have dots of their own.
            keys = [key for key in value if isinstance(key, str) and _leads(rest, key)]
            if not keys:
                break
            key = max(keys, key=len)
            value, position = value[key], position + 1 + len(key)
        elif isinstance(value, list | tuple) and index and int(index[1]) < len(value):
            value, position = value[int(index[1])], position + index.end()
        else:
            break
    return position, value


def _leads(path: str, key: str) -> bool:
    return path.startswith(f".{key}") and path[len(key) + 1 : len(key) + 2] in ("", ".", "[", " ")
