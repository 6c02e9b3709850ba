"""A KubeSpawner ``profile_list`` as this project sees it: which ``device_claims`` can come out of it.

KubeSpawner merges a profile's ``kubespawner_override`` and those of the chosen options into the spawner's traits.
The same merge is done here beforehand, so that every choice is checked when the hub starts and not when a
user meets it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from dra_spawner.profiles.choices import TRAIT, ListedChoice, list_choices, profiles_of
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.profile_names import profile_name_problems
from dra_spawner.profiles.server_limits import limit_problems
from dra_spawner.profiles.syntax.problems import Problem, shown
from dra_spawner.profiles.user_form.form import form_problems, form_profiles
from dra_spawner.profiles.user_form.offers import DeviceCatalog

#: Traits of ours that a profile sets; KubeSpawner passes over a misspelt one without a word.
_OWN_TRAITS = (TRAIT, "intel_gas", "vlans")
_ALIKE = 0.75

_FREE_TEXT = re.compile(r"[{}]")
#: Below device_claims, free text may stand only where it is parsed (a quantity) or quoted (a product's pattern).
_FREE_TEXT_ALLOWED = re.compile(
    r"\.[^.]+(\.requests\.[^.]+)?(\.first_available(\.[^.]+|\[\d+\]))?\.(capacity\..+|product|min_memory)"
)


def profile_list_problems(
    profile_list: object, device_claims: object = None, known_traits: Container[str] = ()
) -> list[Problem]:
    """Everything in a static profile list that could never become a claim.

    Parameters
    ----------
    profile_list
        ``KubeSpawner.profile_list``: a list, or a dict whose values are sorted by key. A callable is checked when it
        is called, at each spawn.
    device_claims
        The spawner's own ``device_claims``, into which the profiles' are merged.
    known_traits
        Names a ``kubespawner_override`` may set; a misspelt ``device_claims`` is recognised by them.

    Notes
    -----
    Each choice of each option is merged with the profile and the defaults of its other options, see `list_choices`; not
    every combination. The one that a user really picks is checked again before the first API call.
    """
    problems = _problems_of(list_choices(None, {TRAIT: device_claims or {}}))
    if problems or not profile_list or callable(profile_list):
        return problems
    settings = {TRAIT: device_claims or {}}
    problems += problems_around_claims(profile_list, settings, known_traits)
    # Generated choices count as those that are offered while the devices are unknown.
    offered = offered_profiles(profile_list, settings, ClusterFacts())
    problems += _problems_of(list_choices(offered, settings))
    return list(dict.fromkeys(problems))


def offered_profiles(profile_list: object, settings: Mapping[str, Any], facts: ClusterFacts) -> object:
    """The list with generated choices; any other value is returned unchanged."""
    if not isinstance(profile_list, Mapping | list | tuple):
        return profile_list
    return form_profiles(profile_list, DeviceCatalog(facts), settings)


def problems_around_claims(
    profile_list: object,
    settings: Mapping[str, Any],
    known_traits: Container[str] = (),
    path: str = "profile_list",
) -> list[Problem]:
    """What is wrong in a static list of profiles, the claims themselves apart.

    Parameters
    ----------
    settings
        The spawner's own traits as configured.
    path
        Where the list stands, for messages.
    """
    if not profile_list or callable(profile_list):
        return []
    if not isinstance(profile_list, Mapping | list | tuple):
        return [Problem(path, shown(profile_list), "a list of profiles, or a function that gives one")]
    problems = [
        Problem(each.path.replace("profile_list", path, 1), each.found, each.allowed)
        for each in form_problems(profile_list, settings)
    ]
    for where, profile in profiles_of(offered_profiles(profile_list, settings, ClusterFacts()), path):
        if isinstance(profile, Mapping):
            problems += _profile_problems(profile, where, known_traits)
        else:
            problems.append(Problem(where, shown(profile), "a profile, which is a mapping"))
    # Imported here, as only checks of whole lists need it.
    from dra_spawner.profiles.instead import instead_problems

    return [*problems, *profile_name_problems(profile_list, path), *instead_problems(profile_list, path)]


def free_texts(profile_list: object, path: str = "profile_list") -> Iterator[str]:
    """Paths of options in which users may type any text, so that their results cannot be listed."""
    for where, profile in profiles_of(profile_list, path):
        options = profile.get("profile_options") if isinstance(profile, Mapping) else None
        for name, option in options.items() if isinstance(options, Mapping) else ():
            unlisted = option.get("unlisted_choice") if isinstance(option, Mapping) else None
            if isinstance(unlisted, Mapping) and unlisted.get("enabled"):
                yield f"{where}.profile_options.{name}.unlisted_choice"


def _problems_of(choices: Iterable[ListedChoice]) -> list[Problem]:
    return list(dict.fromkeys(problem for choice in choices for problem in choice.problems))


def free_text_problems(profile: Mapping[str, Any], path: str = "profile") -> list[Problem]:
    """Where a user's free text could reach a claim otherwise than parsed or quoted; checked at each spawn, too."""
    problems: list[Problem] = []
    options = _mapping(profile.get("profile_options"), f"{path}.profile_options", problems)
    for name, option in options.items():
        option_path = f"{path}.profile_options.{name}"
        entry = _mapping(option, option_path, problems)
        unlisted_path = f"{option_path}.unlisted_choice"
        problems += _free_text_problems(
            _mapping(entry.get("unlisted_choice"), unlisted_path, problems), unlisted_path, problems
        )
    return list(dict.fromkeys(problems))


def _mapping(value: object, path: str, problems: list[Problem]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if value is not None:
        problems.append(Problem(path, shown(value), "a mapping"))
    return {}


def _profile_problems(profile: Mapping[str, Any], path: str, known_traits: Container[str]) -> list[Problem]:
    """What is wrong around the claims."""
    problems = _entry_problems(profile, path, known_traits)
    if not isinstance(profile.get("display_name"), str):
        problems.append(Problem(f"{path}.display_name", "", "the profile's name in the form"))
    options = _mapping(profile.get("profile_options"), f"{path}.profile_options", problems)
    for name, option in options.items():
        option_path = f"{path}.profile_options.{name}"
        entry = _mapping(option, option_path, problems)
        choices = _mapping(entry.get("choices"), f"{option_path}.choices", problems)
        for key, value in choices.items():
            choice_path = f"{option_path}.choices.{key}"
            problems += _entry_problems(_mapping(value, choice_path, problems), choice_path, known_traits)
    return problems + free_text_problems(profile, path)


def _entry_problems(entry: Mapping[str, Any], path: str, known_traits: Container[str]) -> list[Problem]:
    """What is wrong in a profile's or a choice's override, the claims apart."""
    problems: list[Problem] = []
    if TRAIT in entry:
        problems.append(
            Problem(f"{path}.{TRAIT}", shown(TRAIT), f"{TRAIT} within kubespawner_override; here it has no effect")
        )
    override = _mapping(entry.get("kubespawner_override"), f"{path}.kubespawner_override", problems)
    for key in override:
        if not isinstance(key, str) or key in _OWN_TRAITS:
            continue
        meant = [TRAIT] if "claim" in key else get_close_matches(key, _OWN_TRAITS, 1, _ALIKE)
        if meant and key not in known_traits:
            where = f"{path}.kubespawner_override.{key}"
            problems.append(Problem(where, shown(key), f"{meant[0]}, or another trait of the spawner"))
    return [*problems, *limit_problems(override, f"{path}.kubespawner_override")]


def _free_text_problems(unlisted: Mapping[str, Any], path: str, noted: list[Problem]) -> list[Problem]:
    """Free text may reach a claim only where it is parsed or quoted, and only if a pattern bounds it."""
    claims = _mapping(unlisted.get("kubespawner_override"), f"{path}.kubespawner_override", noted).get(TRAIT)
    if not unlisted.get("enabled") or not claims:
        return []
    place = f"{path}.kubespawner_override.{TRAIT}"
    problems = [
        Problem(
            where, shown(text), "{value} within capacity, product or min_memory only; elsewhere offer listed choices"
        )
        for where, text in _texts(claims, place)
        if _FREE_TEXT.search(text) and not _FREE_TEXT_ALLOWED.fullmatch(where.removeprefix(place))
    ]
    regex = unlisted.get("validation_regex")
    try:
        bounded = isinstance(regex, str) and bool(re.compile(regex))
    except re.error:
        bounded = False
    if not bounded:
        allowed = "a regular expression that the whole of the user's text must match"
        problems.append(Problem(f"{path}.validation_regex", shown(regex) if regex else "", allowed))
    return problems


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield f"{path} (a key)", str(key)
            yield from _texts(entry, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _texts(entry, f"{path}[{index}]")
