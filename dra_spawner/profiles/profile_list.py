"""A KubeSpawner ``profile_list`` as this project sees it: which ``device_claims`` can come out of it.

KubeSpawner merges a profile's ``kubespawner_override`` and those of the chosen options into the spawner's traits.
The same merge is done here beforehand, so that every choice is checked when the hub starts and not when a
user meets it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dra_spawner.profiles.claim_plan import compile_device_claims
from dra_spawner.profiles.problems import Problem, ProfileError, shown

_TRAIT = "device_claims"
_FREE_TEXT = re.compile(r"[{}]")
#: Below device_claims, free text may stand only where it is parsed (a quantity) or quoted (a product's pattern).
_FREE_TEXT_ALLOWED = re.compile(
    r"device_claims\.[^.]+(\.requests\.[^.]+)?(\.first_available(\.[^.]+|\[\d+\]))?\.(capacity\..+|product|min_memory)$"
)


def merge_overrides(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge as KubeSpawner does: dicts recursively, ``None`` removes a key, everything else replaces."""
    merged = dict(base)
    for key, value in override.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge_overrides(merged[key], value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def profile_list_problems(
    profile_list: object, device_claims: object = None, known_traits: Collection[str] = ()
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
    Each choice of each option is merged with the profile alone, not with every combination of the other options.
    The combination a user really picks is checked again before the first API call.
    """
    problems = _claims_problems(device_claims or {}, _TRAIT)
    if problems or not profile_list or callable(profile_list):
        return problems
    for path, profile in _profiles(profile_list):
        if not isinstance(profile, Mapping):
            problems.append(Problem(path, shown(profile), "a profile, which is a mapping"))
            continue
        problems += _profile_problems(profile, path, device_claims or {}, known_traits)
    return list(dict.fromkeys(problems))


def user_options_problem(profile_list: list[dict[str, Any]], user_options: object) -> str | None:
    """Why these options cannot be what a user picked in the form, or ``None``.

    The form sends text; the REST API sends any JSON. Nothing but listed profiles, listed choices and free
    text that an option allows may come through.

    Parameters
    ----------
    profile_list
        As initialised by KubeSpawner (with ``slug`` and ``unlisted_choice``).
    user_options
        What the user sent.
    """
    if not user_options:
        return None
    if not isinstance(user_options, Mapping):
        return "the options of a server must be a JSON object"
    if not profile_list:
        return None
    slugs = [profile["slug"] for profile in profile_list]
    slug = user_options.get("profile")
    if slug and slug not in slugs:
        return f"there is no profile {shown(slug)}; there are: {', '.join(slugs)}"
    profile = next(p for p in profile_list if (p["slug"] == slug if slug else p.get("default")))
    for name, option in profile.get("profile_options", {}).items():
        problem = _option_problem(name, option, user_options)
        if problem:
            return problem
    return None


def _option_problem(name: str, option: Mapping[str, Any], user_options: Mapping[str, Any]) -> str | None:
    choice = user_options.get(name)
    choices = option.get("choices") or {}
    text = user_options.get(f"{name}--unlisted-choice")
    if text:
        unlisted = option.get("unlisted_choice") or {}
        if not unlisted.get("enabled"):
            return f"option {name} takes no free text"
        regex = unlisted.get("validation_regex")
        if not isinstance(text, str) or (regex and not re.fullmatch(regex, text)):
            return unlisted.get("validation_message") or f"{shown(text)} is not a valid value of option {name}"
    elif choice and (not isinstance(choice, str) or choice not in choices):
        return f"option {name} has no choice {shown(choice)}; there are: {', '.join(choices)}"
    return None


def _profiles(profile_list: object) -> Iterator[tuple[str, object]]:
    if isinstance(profile_list, Mapping):
        for key in sorted(profile_list):
            yield f"profile_list.{key}", profile_list[key]
    elif isinstance(profile_list, list | tuple):
        for index, profile in enumerate(profile_list):
            yield f"profile_list[{index}]", profile


def _profile_problems(
    profile: Mapping[str, Any], path: str, device_claims: object, known_traits: Collection[str]
) -> list[Problem]:
    own_path = f"{path}.kubespawner_override"
    own, problems = _override_claims(profile.get("kubespawner_override"), own_path, device_claims, known_traits)
    options = profile.get("profile_options") or {}
    if not options:
        return problems + _claims_problems(own, f"{own_path}.{_TRAIT}")
    for name, option in options.items() if isinstance(options, Mapping) else ():
        option_path = f"{path}.profile_options.{name}"
        for choice, entry in (option.get("choices") or {}).items():
            choice_path = f"{option_path}.choices.{choice}.kubespawner_override"
            merged, found = _override_claims(entry.get("kubespawner_override"), choice_path, own, known_traits)
            problems += found
            if not found and merged != own:
                problems += _claims_problems(merged, f"{choice_path}.{_TRAIT}")
        problems += _free_text_problems(option.get("unlisted_choice") or {}, f"{option_path}.unlisted_choice")
    if not problems:
        problems += _default_problems(own, options, path, own_path)
    return problems


def _default_problems(own: object, options: Mapping[str, Any], path: str, own_path: str) -> list[Problem]:
    """Check what a user gets who touches no option: the profile with every option's default choice."""
    merged, touched = own, False
    for option in options.values():
        choices = option.get("choices") or {}
        chosen: Mapping[str, Any] = next(
            (c for c in choices.values() if c.get("default")), next(iter(choices.values()), {})
        )
        override = chosen.get("kubespawner_override")
        if isinstance(override, Mapping) and isinstance(override.get(_TRAIT), Mapping):
            touched = True
            merged = merge_overrides({_TRAIT: merged}, {_TRAIT: override[_TRAIT]})[_TRAIT]
    return _claims_problems(merged, f"{path} with its default choices, {_TRAIT}" if touched else f"{own_path}.{_TRAIT}")


def _override_claims(
    override: object, path: str, base: object, known_traits: Collection[str]
) -> tuple[object, list[Problem]]:
    """The claims after an override, and what is wrong with the override itself."""
    if override is None:
        return base, []
    if not isinstance(override, Mapping):
        return base, [Problem(path, shown(override), "a mapping of the spawner's traits")]
    problems = [
        Problem(f"{path}.{key}", shown(key), f"{_TRAIT}, or another trait of the spawner")
        for key in override
        if isinstance(key, str) and "claim" in key and key != _TRAIT and key not in known_traits
    ]
    claims = override.get(_TRAIT)
    if claims is None or callable(claims):
        return base, problems
    if not isinstance(claims, Mapping):
        problems.append(Problem(f"{path}.{_TRAIT}", shown(claims), "a mapping of a name to a claim"))
        return base, problems
    return merge_overrides({_TRAIT: base}, {_TRAIT: claims})[_TRAIT], problems


def _free_text_problems(unlisted: Mapping[str, Any], path: str) -> list[Problem]:
    """Free text may reach a claim only where it is parsed or quoted, and only if a pattern bounds it."""
    claims = (unlisted.get("kubespawner_override") or {}).get(_TRAIT)
    if not unlisted.get("enabled") or not claims:
        return []
    problems = [
        Problem(
            where, shown(text), "{value} within capacity, product or min_memory only; elsewhere offer listed choices"
        )
        for where, text in _texts(claims, f"{path}.kubespawner_override.{_TRAIT}")
        if _FREE_TEXT.search(text) and not _FREE_TEXT_ALLOWED.search(where)
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


def _claims_problems(claims: object, path: str) -> list[Problem]:
    try:
        # Whether the user is an administrator shows at the spawn.
        compile_device_claims(claims, path, admin_access=True)
    except ProfileError as error:
        return list(error.problems)
    return []
