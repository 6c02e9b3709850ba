"""Values of traits, judged by the traits themselves, without creating the object that has them."""

from __future__ import annotations

from typing import Any, Final

from traitlets import HasTraits, TraitError, TraitType

from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.settings_reader import shown_setting

_ALLOWED: Final = "; allowed: "
#: Of traitlets, in words of messages.
_WORDS: Final = {
    "a boolean": "true or false",
    "a dict": "a mapping",
    "a float": "a number",
    "a unicode string": "a text",
    "an int": "a whole number",
}


def trait_problems(cls: type[HasTraits], name: str, value: object, path: str) -> list[Problem]:
    """Problems of a value that the class refuses; none if it takes the value, or has no such trait.

    Parameters
    ----------
    path
        Where the value stands; it replaces the trait's name in messages of the class.
    """
    trait = cls.class_traits().get(name)
    if trait is None:
        return []
    # Without its initialization, which would connect to a cluster or read the command line.
    new: Any = cls.__new__
    holder = new(cls)
    try:
        setattr(holder, name, value)
    except TraitError as error:
        return [_problem(line, trait, name, value, path) for line in str(error).splitlines()]
    return []


def _problem(line: str, trait: TraitType, name: str, value: object, path: str) -> Problem:
    """One line of a refusal: a validator's own one has path, found and allowed, one of traitlets is a sentence."""
    place, separator, allowed = line.partition(_ALLOWED)
    where, _, found = place.partition(": found ")
    if separator and where.startswith(name) and found:
        return Problem(f"{path}{where.removeprefix(name)}", found, allowed)
    if separator and place.startswith(name):
        return Problem(f"{path}{place.removeprefix(name).partition(': ')[0]}", "", allowed)
    return Problem(path, shown_setting(value), _allowed(trait))


def _allowed(trait: TraitType) -> str:
    """What a trait takes, with the limits of a number."""
    least, most = getattr(trait, "min", None), getattr(trait, "max", None)
    kind = _WORDS.get(str(trait.info()), str(trait.info()))
    limits = [f"{word} {limit:g}" for word, limit in (("at least", least), ("at most", most)) if limit is not None]
    return f"{kind} of {' and '.join(limits)}" if limits else kind
