"""The choices of one user's spawn form, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dra_spawner.placeholders.planner.targets.choice_names import choice_name, options_of, profile_of

__all__ = ["FormChoices", "FormOption", "form_choices"]


@dataclass(frozen=True, slots=True)
class FormOption:
    """An option of a profile.

    Attributes
    ----------
    default
        Its default choice; empty for free text alone.
    choices
        All choices, in the form's order.
    """

    name: str
    default: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FormChoices:
    """Profiles of a form with their options.

    Attributes
    ----------
    profiles
        Slug and options, in the form's order.
    """

    profiles: tuple[tuple[str, tuple[FormOption, ...]], ...] = ()

    def names(self) -> Iterator[str]:
        """Names of the profiles with default options, and with one other choice of one option."""
        for slug, options in self.profiles:
            yield slug
            for option in options:
                yield from (choice_name(slug, {option.name: each}) for each in option.choices if each != option.default)

    def name_of(self, slug: str, option: FormOption, choice: str) -> str:
        """Name of a profile with one choice of one option."""
        return slug if choice == option.default else choice_name(slug, {option.name: choice})

    def known_name(self, name: str) -> str | None:
        """The name without default options, in the form's order; None if the form has no such choice."""
        slug, chosen = profile_of(name), options_of(name)
        options = next((options for each, options in self.profiles if each == slug), None)
        if options is None or not chosen.keys() <= {option.name for option in options}:
            return None
        if any(chosen.get(option.name, option.default) not in (*option.choices, option.default) for option in options):
            return None
        return choice_name(
            slug,
            {
                option.name: chosen[option.name]
                for option in options
                if option.name in chosen and chosen[option.name] != option.default
            },
        )


def form_choices(profiles: Iterable[Mapping[str, Any]]) -> FormChoices:
    """The choices of a profile list that KubeSpawner has initialized; equal forms of many users are one object."""
    return _shared(
        tuple(
            (
                str(profile["slug"]),
                tuple(
                    _option(str(name), option.get("choices") or {})
                    for name, option in (profile.get("profile_options") or {}).items()
                ),
            )
            for profile in profiles
        )
    )


def _option(name: str, choices: Mapping[str, Any]) -> FormOption:
    default = next((slug for slug, choice in choices.items() if choice.get("default")), "")
    return FormOption(name, str(default), tuple(map(str, choices)))


@lru_cache(maxsize=64)
def _shared(profiles: tuple[tuple[str, tuple[FormOption, ...]], ...]) -> FormChoices:
    return FormChoices(profiles)
