"""Names of choices: ``slug`` of a profile, ``slug/option=choice``, and ``slug/option=choice,option=choice`` of several.

A name leaves out options that have their default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

#: Ends a choice where the name of an option follows; a choice's own name may have commas.
_NEXT = re.compile(r",(?=[^,=]+=)")


def choice_name(slug: str, options: Mapping[str, str]) -> str:
    """The name of a profile with some choices, in the order of its options."""
    chosen = ",".join(f"{option}={choice}" for option, choice in options.items())
    return f"{slug}/{chosen}" if chosen else slug


def is_combination(name: str) -> bool:
    """Whether more than one option differs from its default."""
    return len(_parts(name)) > 1


def profile_of(name: str) -> str:
    """The profile's slug."""
    return name.partition("/")[0]


def options_of(name: str) -> dict[str, str]:
    """Choice by option, of the options that do not have their default."""
    return {option: choice for option, _, choice in (part.partition("=") for part in _parts(name))}


def find_choice(name: str, names: Iterable[str]) -> str | None:
    """The name that equals this one up to the order of its options; None if there is none."""
    known = list(names)
    if name in known:
        return name
    parts = _parts(name)
    if len(parts) < 2:  # calendars name what nobody publishes, a thousand times
        return profile_of(name) if not parts and profile_of(name) in known else None
    wanted = (profile_of(name), sorted(parts))
    same_length = (each for each in known if len(each) == len(name))
    return next((each for each in same_length if (profile_of(each), sorted(_parts(each))) == wanted), None)


def without_defaults(name: str, defaults: Mapping[str, str]) -> str:
    """The same choice without options that have their default.

    Parameters
    ----------
    defaults
        Choice by option, of the options of the profile.
    """
    chosen = {option: choice for option, choice in options_of(name).items() if defaults.get(option) != choice}
    return choice_name(profile_of(name), chosen)


def _parts(name: str) -> list[str]:
    chosen = name.partition("/")[2]
    return _NEXT.split(chosen) if chosen else []
