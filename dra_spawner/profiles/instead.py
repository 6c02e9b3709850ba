"""Choices that a user may have in place of another one: the trait ``instead`` of a profile or a choice.

They are named as everywhere in this project: ``slug`` of a profile, or ``slug/option=choice``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from markupsafe import Markup

from dra_spawner.dra.quantity import Quantity, QuantityError, amount_text
from dra_spawner.profiles.choices import default_choice, profile_slug, profiles_of
from dra_spawner.profiles.syntax.layers import override_of
from dra_spawner.profiles.syntax.problems import Problem, shown

INSTEAD: Final = "instead"
TAKE_INSTEAD: Final = "take_instead"
#: Most choices that one names.
MOST_INSTEAD: Final = 8
#: Ends a choice where the name of an option follows; a choice's own name may have commas.
_NEXT: Final = re.compile(r",(?=[^,=]+=)")

#: Choices by option by profile; None for an option of free text, or of sizes that devices decide.
_Known = Mapping[str, Mapping[str, Mapping[str, Any] | None]]


def instead_schema() -> dict[str, Any]:
    """JSON Schema of ``instead``."""
    return {
        "description": "Choices, equal or smaller, that a user may have while this one is not free; the best first.",
        "type": "array",
        "items": {"type": "string", "minLength": 1},
        "maxItems": MOST_INSTEAD,
        "uniqueItems": True,
    }


def choice_words(profile_list: object, name: object) -> str:
    """The name of a choice in the form, as plain text; empty for what is no choice of the list."""
    profiles = [each for _, each in profiles_of(profile_list) if isinstance(each, Mapping)]
    found = _read(name, {profile_slug(each): dict(_options(each)) for each in profiles})
    profile = next((each for each in profiles if found is not None and profile_slug(each) == found[0]), None)
    if found is None or profile is None:
        return ""
    known = dict(_options(profile))
    chosen = [
        ((known[option] or {}).get(pick) or {}).get("display_name") or (pick if known[option] else _size(option, pick))
        for option, pick in found[1].items()
    ]
    words = (profile.get("display_name") or found[0], *chosen)
    return ", ".join(str(Markup(str(each)).striptags()) for each in words)  # noqa: S704 (the result is plain text)


def _size(option: str, pick: str) -> str:
    """A size as the form writes it, where devices decide about sizes; another text as it is."""
    try:
        return amount_text(Quantity.parse(pick), option)
    except QuantityError:
        return pick


def instead_problems(profile_list: object, path: str = "profile_list") -> list[Problem]:
    """Names of ``instead`` that are none of the list's choices, or the choice itself.

    A circle is no problem: from the chosen one, only the choices that it names are tried.
    """
    profiles = [(where, each) for where, each in profiles_of(profile_list, path) if isinstance(each, Mapping)]
    known = {profile_slug(each): dict(_options(each)) for _, each in profiles}
    return [
        problem
        for where, profile in profiles
        for own, own_path, value in _values(profile, where)
        for problem in _problems_of(own, own_path, value, known)
    ]


def named_choices_problems(profile_list: object, value: object, path: str) -> list[Problem]:
    """Names of a value of ``instead`` that are none of the list's choices; the value is that of all profiles."""
    profiles = [each for _, each in profiles_of(profile_list) if isinstance(each, Mapping)]
    return list(_problems_of(("", {}), path, value, {profile_slug(each): dict(_options(each)) for each in profiles}))


def _options(profile: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    options = profile.get("profile_options")
    for name, option in options.items() if isinstance(options, Mapping) else ():
        choices = option.get("choices") if isinstance(option, Mapping) else None
        is_fixed = isinstance(choices, Mapping) and "from_policy" not in choices
        yield str(name), choices if is_fixed else None


def _values(profile: Mapping[str, Any], where: str) -> Iterator[tuple[tuple[str, dict[str, str]], str, object]]:
    """Each value with the choice that has it, and its path."""
    slug = profile_slug(profile)
    if INSTEAD in override_of(profile):
        yield (slug, {}), f"{where}.kubespawner_override.{INSTEAD}", override_of(profile)[INSTEAD]
    for option, choices in _options(profile):
        for name, choice in (choices or {}).items():
            if INSTEAD in override_of(choice):
                found = f"{where}.profile_options.{option}.choices.{name}.kubespawner_override.{INSTEAD}"
                yield (slug, {option: str(name)}), found, override_of(choice)[INSTEAD]


def _problems_of(own: tuple[str, dict[str, str]], path: str, value: object, known: _Known) -> Iterator[Problem]:
    if not isinstance(value, list | tuple) or len(value) > MOST_INSTEAD:
        yield Problem(
            path, shown(value), f"a list of at most {MOST_INSTEAD} names of choices, such as gpu-slice/memory=10Gi"
        )
        return
    for number, name in enumerate(value):
        found = _read(name, known)
        if found is None:
            yield Problem(
                f"{path}[{number}]",
                shown(name),
                f"a choice of the list: {', '.join(sorted(known))}, or slug/option=choice",
            )
        elif found == _read_picks(own, known):
            yield Problem(f"{path}[{number}]", shown(name), "another choice than the one that names it")
        elif name in value[:number]:
            yield Problem(f"{path}[{number}]", shown(name), "each choice once")


def _read(name: object, known: _Known) -> tuple[str, dict[str, str]] | None:
    """Profile and choices that are no defaults; None for what is no choice of the list."""
    if not isinstance(name, str):
        return None
    slug, _, rest = name.partition("/")
    if slug not in known:
        return None
    picks = {option: choice for option, _, choice in (part.partition("=") for part in _NEXT.split(rest) if part)}
    for option, choice in picks.items():
        if option not in known[slug]:
            return None
        choices = known[slug][option]
        if choices is not None and choice not in map(str, choices):
            return None
    return _read_picks((slug, picks), known)


def _read_picks(own: tuple[str, dict[str, str]], known: _Known) -> tuple[str, dict[str, str]]:
    slug, picks = own
    options = known.get(slug, {})
    return slug, {
        option: choice
        for option, choice in picks.items()
        if (choices := options.get(option)) is None or str(default_choice(choices)) != choice
    }
