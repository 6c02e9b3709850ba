"""What a user can pick in the spawn form, as the spawner would carry it out: the one list that all checks go over.

KubeSpawner merges the ``kubespawner_override`` of a profile and of the chosen choices, in the order of the options,
into the spawner's own traits. The same merge is done here beforehand: once for each profile with the default choices
of its options, and once for every other choice of every option beside the others' defaults. Combinations of several
choices that are no defaults are not gone over; there may be any number of them.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner.profiles.compiler.claim_plan import ClaimPlan, compile_claims, with_extended_resources
from dra_spawner.profiles.compiler.claim_templates import expand_claims
from dra_spawner.profiles.compiler.claims import DeviceClaim
from dra_spawner.profiles.compiler.language import parse_device_claims
from dra_spawner.profiles.syntax.layers import TRAIT, Layer, Merged, origin, override_of
from dra_spawner.profiles.syntax.problems import Problem, ProfileError
from dra_spawner.profiles.syntax.properties import may_be_lists
from dra_spawner.profiles.syntax.templates import SAMPLE_VALUES, Values

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

#: Names of which a slug is made without tables of other letters, numbers and entities.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9 _.()+/-]*")


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
    """One option of a profile: the path and the override of each of its choices."""

    name: str
    choices: Mapping[str, Layer]
    default: str


def list_choices(
    profile_list: object,
    settings: Mapping[str, Any],
    *,
    path: str = "profile_list",
    settings_path: str = "",
    values: Values = SAMPLE_VALUES,
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
    values
        For placeholders.
    """
    base = _own_settings(settings, settings_path)
    merged, compiler = Merged().under(base), _Compiler(values, settings)
    if not profile_list:
        yield _listed(base.path_to(TRAIT), "", {}, merged, compiler)
        return
    for profile_path, profile in profiles_of(profile_list, path):
        if isinstance(profile, Mapping):
            yield from _choices_of(profile, profile_path, merged, compiler)


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
    base, compiler = _own_settings(settings, settings_path), _Compiler(values, settings)
    profiles = [(where, each) for where, each in profiles_of(profile_list, path) if isinstance(each, Mapping)]
    if not profiles:
        if profile or picks:
            raise LookupError("there are no profiles to pick from")
        return _listed(base.path_to(TRAIT), "", {}, Merged().under(base), compiler)
    by_slug = {profile_slug(each): (where, each) for where, each in profiles}
    if profile and profile not in by_slug:
        # Imported here: the hub imports this module, and has no use for it.
        from dra_spawner.common.close_names import did_you_mean

        hint = did_you_mean(profile, by_slug)
        raise LookupError(f"there is no profile {profile}; there are: {', '.join(by_slug)}{hint and '.' + hint}")
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
    merged = Merged().under(base, _layer(chosen, where), *layers)
    return _listed(where, profile_slug(chosen), picks, merged, compiler)


def profiles_of(profile_list: object, path: str = "profile_list") -> Iterator[tuple[str, object]]:
    if isinstance(profile_list, Mapping):
        for key in sorted(profile_list):
            yield f"{path}.{key}", profile_list[key]
    elif isinstance(profile_list, list | tuple):
        for index, profile in enumerate(profile_list):
            yield f"{path}[{index}]", profile


def default_choice(choices: Mapping[str, Any]) -> str:
    """Name of the choice that KubeSpawner preselects; empty if there is none."""
    marked = (name for name, choice in choices.items() if isinstance(choice, Mapping) and choice.get("default"))
    return next(marked, next(iter(choices), ""))


def profile_slug(profile: Mapping[str, Any]) -> str:
    """The profile's name in options; without one, what KubeSpawner makes of the display name."""
    slug = profile.get("slug")
    if isinstance(slug, str) and slug:
        return slug
    name = str(profile.get("display_name") or "")
    if _PLAIN_NAME.fullmatch(name):
        return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    # Imported here: its tables of letters take a tenth of a second.
    from slugify import slugify

    return slugify(name)


def _choices_of(profile: Mapping[str, Any], path: str, base: Merged, compiler: _Compiler) -> Iterator[ListedChoice]:
    slug = profile_slug(profile)
    own = base.under(_layer(profile, path))
    options = tuple(_options(profile, path))
    defaults = {option.name: option.choices[option.default] for option in options}
    yield _listed(path, slug, {}, own.under(*defaults.values()), compiler)
    for option in options:
        for name, layer in option.choices.items():
            if name != option.default:
                chosen = {**defaults, option.name: layer}
                picks = {option.name: name}
                choice_path = f"{path}.profile_options.{option.name}.choices.{name}"
                yield _listed(choice_path, slug, picks, own.under(*chosen.values()), compiler)


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


def _own_settings(settings: Mapping[str, Any], path: str) -> Layer:
    return Layer(path, {name: value for name, value in settings.items() if name != "profile_list"})


def _layer(entry: Mapping[str, Any], path: str) -> Layer:
    return Layer(f"{path}.kubespawner_override", override_of(entry))


class _Compiler:
    """Parses and compiles ``device_claims``, equal ones once: most choices differ in other things.

    Parameters
    ----------
    values
        For placeholders.
    settings
        The spawner's own traits.
    """

    def __init__(self, values: Values, settings: Mapping[str, Any]) -> None:
        self._values = values
        self._list_attributes = may_be_lists(settings)
        self._known: dict[bytes, tuple[tuple[DeviceClaim, ...], ClaimPlan]] = {}

    def compiled(self, value: object) -> tuple[tuple[DeviceClaim, ...], ClaimPlan]:
        """The claims parsed, and compiled.

        Raises
        ------
        ProfileError
            See `parse_device_claims`.
        """
        try:
            # The one quick text that tells all types apart; the version without references is equal for equal values.
            key = marshal.dumps(value, 2)  # type: ignore[arg-type]
        except ValueError:
            return self._compile(value)  # has other types than JSON has
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._compile(value)
        return known

    def _compile(self, value: object) -> tuple[tuple[DeviceClaim, ...], ClaimPlan]:
        # Whether the user is an administrator shows at the spawn.
        parsed = parse_device_claims(value, "", admin_access=True, list_attributes=self._list_attributes)
        claims = expand_claims(parsed, self._values, "")
        return claims, compile_claims(claims)


def _listed(path: str, profile: str, picks: Mapping[str, str], merged: Merged, compiler: _Compiler) -> ListedChoice:
    layers, settings = merged.layers, merged.settings
    problems = list(merged.problems)
    try:
        claims, plan = compiler.compiled(settings.get(TRAIT) or {})
    except ProfileError as error:
        problems += [Problem(origin(layers, each.path), each.found, each.allowed) for each in error.problems]
    if problems:
        return ListedChoice(path, profile, picks, tuple(problems), None)
    with_claims = [layer for layer in layers if TRAIT in layer.settings]
    claims_path = (with_claims[-1] if with_claims else layers[-1]).path_to(TRAIT)
    plan = with_extended_resources(plan, settings)
    choice = Choice(path, claims_path, profile, picks, settings, claims, plan, layers)
    return ListedChoice(path, profile, picks, (), choice)
