"""The choices of one user's spawn form, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from dra_spawner.placeholders.planner.targets.choice_names import choice_name, options_of, profile_of


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


def options_with(options: object, name: str, choices: FormChoices) -> dict[str, Any]:
    """Return the options of a start with another choice of the form; those that no profile has stay.

    Parameters
    ----------
    name
        Of the choice, as the form knows it.
    """
    others = dict(options) if isinstance(options, Mapping) else {}
    for _, of_profile in choices.profiles:
        for option in of_profile:
            others.pop(option.name, None)
            others.pop(f"{option.name}--unlisted-choice", None)
    return {**others, "profile": profile_of(name), **options_of(name)}


def _option(name: str, choices: Mapping[str, Any]) -> FormOption:
    default = next((slug for slug, choice in choices.items() if choice.get("default")), "")
    return FormOption(name, str(default), tuple(map(str, choices)))


@lru_cache(maxsize=64)
def _shared(profiles: tuple[tuple[str, tuple[FormOption, ...]], ...]) -> FormChoices:
    return FormChoices(profiles)


def slug_of(profile: Mapping[str, Any]) -> str:
    """The slug of a profile that KubeSpawner has initialized."""
    return str(profile.get("slug"))


def choices_of(profile: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The choices of each option of a profile; options without choices are left out."""
    options = profile.get("profile_options") or {}
    return {name: choices for name, option in options.items() if isinstance(choices := option.get("choices"), Mapping)}


def chosen_profile(profiles: Iterable[Mapping[str, Any]], slug: str) -> Mapping[str, Any] | None:
    """The profile of a slug; the default one without a slug; None if there is none."""
    return next((each for each in profiles if (slug_of(each) == slug if slug else each.get("default"))), None)


def picks_of(profile: Mapping[str, Any], options: object) -> dict[str, str]:
    """The choices of a profile that user options pick, by option; other options are left out."""
    given = options if isinstance(options, Mapping) else {}
    picks = ((name, given.get(name), choices) for name, choices in choices_of(profile).items())
    return {name: pick for name, pick, choices in picks if isinstance(pick, str) and pick in choices}


def name_of_options(profile: Mapping[str, Any] | None, options: object, form: FormChoices) -> str | None:
    """Name of the choice that user options make of a profile; None with free text, or if the form lacks it."""
    given = options if isinstance(options, Mapping) else {}
    if profile is None or any(given.get(f"{name}--unlisted-choice") for name in choices_of(profile)):
        return None
    return form.known_name(choice_name(slug_of(profile), picks_of(profile, given)))


def choice_text(profile: Mapping[str, Any], picks: Mapping[str, str]) -> str:
    """The name of a choice for users, as plain text, such as ``GPU slice, 15 GiB``.

    Parameters
    ----------
    picks
        Choice by option; options that the profile lacks raise KeyError.
    """
    choices = choices_of(profile)
    named = [choices[option][choice].get("display_name") or choice for option, choice in picks.items()]
    return ", ".join(_text(each) for each in (profile.get("display_name") or slug_of(profile), *named))


def _text(name: object) -> str:
    """The text of a name, which KubeSpawner's form takes for HTML."""
    return Markup(str(name)).striptags()  # noqa: S704 (the result is text, and escaped where it is shown)
