"""The profile list of the spawn form: generated choices, reserved amounts, enforcement of shares.

Nothing here can fail on account of what devices publish or of what stands in a profile: what is not understood is left
as it is, for the checks to tell. KubeSpawner puts descriptions and names into the page as they stand, since they are
the administrator's HTML; whatever is added to them here is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dra_spawner.profiles.choices import TRAIT, default_choice, list_choices, profile_slug, profiles_of
from dra_spawner.profiles.compiler.claims import DeviceRequest
from dra_spawner.profiles.syntax.layers import MergeConflict, merge_overrides, override_of
from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.user_form.form_texts import FormTexts, with_texts
from dra_spawner.profiles.user_form.offers import DeviceCatalog
from dra_spawner.profiles.user_form.policy_choices import (
    FROM_POLICY,
    UNAVAILABLE,
    PolicyChoices,
    generated_choices,
    is_from_policy,
    read_policy_choices,
)

__all__ = ["FormTexts", "form_problems", "form_profiles", "has_policy_choices", "unavailable_choice"]

Profile = Mapping[str, Any]


def form_profiles(
    profile_list: Any,
    catalog: DeviceCatalog,
    settings: Mapping[str, Any],
    *,
    picked: object = None,
    texts: FormTexts | None = None,
) -> Any:
    """The profiles with all choices generated, and with texts about shares.

    Parameters
    ----------
    profile_list
        As KubeSpawner has it, a list or a mapping; it is not changed.
    catalog
        The cluster's devices.
    settings
        The spawner's own traits as configured, ``device_claims`` among them.
    picked
        The user's options; a size that was picked before is kept among the generated ones.
    texts
        What to add to names and descriptions; nothing if left out.

    Returns
    -------
    list or dict
        As ``profile_list``; with nothing but plain choices, which KubeSpawner understands.
    """
    options = picked if isinstance(picked, Mapping) else {}

    def shown(profile: object) -> object:
        if not isinstance(profile, Mapping):
            return profile
        own = options if options.get("profile") in (None, "", profile_slug(profile)) else {}
        made = _with_choices(profile, catalog, settings, own)
        return with_texts(made, catalog, settings, texts) if texts is not None else made

    if isinstance(profile_list, Mapping):
        return {key: shown(profile) for key, profile in profile_list.items()}
    if isinstance(profile_list, list | tuple):
        return [shown(profile) for profile in profile_list]
    return profile_list


def form_problems(profile_list: object, settings: Mapping[str, Any]) -> list[Problem]:
    """What is wrong in ``choices: from_policy`` of a static profile list."""
    problems: list[Problem] = []
    for path, profile in profiles_of(profile_list):
        if isinstance(profile, Mapping):
            for name, option in _policy_options(profile):
                where = f"{path}.profile_options.{name}.choices"
                problems += read_policy_choices(option["choices"], _default_claims(profile, settings), where)[1]
    return problems


def has_policy_choices(profile_list: object) -> bool:
    """Whether choices of a static profile list are generated from devices."""
    profiles = (profile for _, profile in profiles_of(profile_list) if isinstance(profile, Mapping))
    return any(True for profile in profiles for _ in _policy_options(profile))


def unavailable_choice(profile: Profile, user_options: Mapping[str, Any]) -> str:
    """Why a user's choice is not available at the moment; empty if no reason is known."""
    for name, option in _options(profile):
        choices = option.get("choices")
        if not isinstance(choices, Mapping) or user_options.get(f"{name}--unlisted-choice"):
            continue
        chosen = choices.get(user_options.get(name) or default_choice(choices))
        if isinstance(chosen, Mapping) and chosen.get(UNAVAILABLE):
            return str(chosen[UNAVAILABLE])
    return ""


def _with_choices(
    profile: Profile, catalog: DeviceCatalog, settings: Mapping[str, Any], picked: Mapping[str, Any]
) -> Profile:
    wanted = dict(_policy_options(profile))
    if not wanted:
        return profile
    claims = _default_claims(profile, settings)
    plain = {name: option for name, option in profile["profile_options"].items() if name not in wanted}
    variants = list(list_choices([{**profile, "profile_options": plain}], settings))
    options = dict(profile["profile_options"])
    for name, option in wanted.items():
        policy, _ = read_policy_choices(option["choices"], claims, "")
        made: dict[str, Any] = {}
        if policy is not None:
            requests = [
                request
                for variant in variants
                if variant.choice is not None and (request := policy.request_in(variant.choice.claims)) is not None
            ]
            made = _placed(option["choices"], policy, requests, catalog, picked.get(name))
        options[name] = {**option, "choices": made}
    return {**profile, "profile_options": options}


def _placed(
    choices: object, policy: PolicyChoices, requests: list[DeviceRequest], catalog: DeviceCatalog, picked: object
) -> dict[str, Any]:
    """The choices of an option with generated ones in place of ``from_policy``."""
    beside = choices if isinstance(choices, Mapping) else {FROM_POLICY: None}
    marked = any(
        isinstance(choice, Mapping) and choice.get("default") for name, choice in beside.items() if name != FROM_POLICY
    )
    placed: dict[str, Any] = {}
    for name, choice in beside.items():
        if name == FROM_POLICY:
            placed |= generated_choices(policy, requests, catalog, picked, mark_default=not marked)
        else:
            placed[name] = choice
    return placed


def _options(profile: Profile) -> Iterator[tuple[str, Mapping[str, Any]]]:
    options = profile.get("profile_options")
    for name, option in options.items() if isinstance(options, Mapping) else ():
        if isinstance(option, Mapping):
            yield name, option


def _policy_options(profile: Profile) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((name, option) for name, option in _options(profile) if is_from_policy(option.get("choices")))


def _default_claims(profile: Profile, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """``device_claims`` of a profile with its default choices, as far as they merge."""
    overrides: list[Mapping[str, Any]] = [settings, override_of(profile)]
    for _, option in _options(profile):
        choices = option.get("choices")
        if isinstance(choices, Mapping) and not is_from_policy(choices):
            overrides.append(override_of(choices.get(default_choice(choices))))
    claims: dict[str, Any] = {}
    for override in overrides:
        value = override.get(TRAIT)
        try:
            claims = merge_overrides(claims, value) if isinstance(value, Mapping) else claims
        except MergeConflict:
            continue
    return claims
