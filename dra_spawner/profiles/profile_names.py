"""Names by which users pick profiles, options and choices: each must stand for one thing.

A form, and the REST API, send a profile's slug, an option's field and a choice's key. KubeSpawner takes the first thing
that has the name, so a second one with the same name is never given to anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_spawner.profiles.choices import profile_slug, profiles_of
from dra_spawner.profiles.syntax.problems import Problem, shown

_TEXT: Final = "a text that is not empty"
#: Key of the profile among the options of a server.
_RESERVED: Final = "profile"


def profile_name_problems(profile_list: object, path: str = "profile_list") -> list[Problem]:
    """Names that stand for two profiles, options or choices, names that nobody can pick, and second defaults.

    Parameters
    ----------
    profile_list
        As KubeSpawner has it, a list or a mapping; what is no profile is passed over.
    path
        Where the list stands, for messages.
    """
    profiles = [(where, each) for where, each in profiles_of(profile_list, path) if isinstance(each, Mapping)]
    return [*_slug_problems(profiles), *_option_problems(profiles)]


def _slug_problems(profiles: list[tuple[str, Mapping[str, Any]]]) -> Iterator[Problem]:
    known: dict[str, str] = {}
    default = ""
    for where, profile in profiles:
        slug, name = profile_slug(profile), profile.get("display_name")
        if "slug" in profile and (not isinstance(profile["slug"], str) or not profile["slug"]):
            yield Problem(f"{where}.slug", shown(profile["slug"]), _TEXT)
        elif not slug and isinstance(name, str):
            allowed = "a name with a letter or a digit, from which a slug can be made; or a slug beside it"
            yield Problem(f"{where}.display_name", shown(name), allowed)
        elif slug and slug in known:
            is_written = "slug" in profile
            made = "" if is_written else f", which makes the slug {shown(slug)}"
            yield Problem(
                f"{where}.{'slug' if is_written else 'display_name'}",
                f"{shown(slug if is_written else name)}{made}",
                f"a slug of its own: {known[slug]} has this one, too, and users who pick one would get the other",
            )
        elif slug:
            known[slug] = where
        if profile.get("default"):
            if default:
                yield Problem(f"{where}.default", shown(profile["default"]), f"one default profile; {default} is one")
            default = default or where


def _option_problems(profiles: list[tuple[str, Mapping[str, Any]]]) -> Iterator[Problem]:
    fields: dict[str, str] = {}
    for where, profile in profiles:
        options = profile.get("profile_options")
        slug, own = profile_slug(profile), dict[str, str]()
        for name, option in options.items() if isinstance(options, Mapping) else ():
            option_path = f"{where}.profile_options.{name}"
            if not isinstance(name, str) or name in ("", _RESERVED):
                yield Problem(option_path, shown(name), f"{_TEXT}, other than {_RESERVED!r}")
                continue
            for field in _fields(f"{slug}--{name}", option):
                other = own.get(field) or fields.get(field)
                if other:
                    yield Problem(
                        option_path, shown(name), f"another name: the form would have one field for this and {other}"
                    )
                own.setdefault(field, option_path)
            yield from _choice_problems(option, f"{option_path}.choices")
        # Two profiles of one slug are a problem already, and their options no second one.
        fields = {**own, **fields}


def _fields(name: str, option: object) -> Iterator[str]:
    yield name
    unlisted = option.get("unlisted_choice") if isinstance(option, Mapping) else None
    if isinstance(unlisted, Mapping) and unlisted.get("enabled"):
        yield f"{name}--unlisted-choice"


def _choice_problems(option: object, path: str) -> Iterator[Problem]:
    choices = option.get("choices") if isinstance(option, Mapping) else None
    default = None
    for key, choice in choices.items() if isinstance(choices, Mapping) else ():
        if not isinstance(key, str) or not key:
            # A form sends text, which is never equal to a number.
            yield Problem(f"{path}.{key}", shown(key), f"a key that is {_TEXT}: put it in quotes")
        if isinstance(choice, Mapping) and choice.get("default"):
            if default is not None:
                allowed = f"one default choice; {shown(default)} is one"
                yield Problem(f"{path}.{key}.default", shown(choice["default"]), allowed)
            default = key if default is None else default
