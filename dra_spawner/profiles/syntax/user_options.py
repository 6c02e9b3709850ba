"""Checks of a user's options for a server: only values that a form of this hub can send are accepted.

The form sends text; the REST API sends any JSON. KubeSpawner drops an option that it does not know, so a misspelt one
would start a server with another device than the user asked for. Here it is refused, with a suggestion.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

import re2

from dra_spawner.profiles.syntax.problems import shown

#: Longest name for which a similar one is looked up, in characters.
_LONGEST_TYPO = 64
_UNLISTED = "--unlisted-choice"
#: Choices that refer to the free text beside them: one of KubeSpawner's form, two of jupyterhub-fancy-profiles.
_TYPED = frozenset({"unlisted-choice", "unlisted_choice", "--extra-selectable-item"})
#: Fields of jupyterhub-fancy-profiles beside free text, for building images. KubeSpawner ignores them.
_BESIDE_TEXT = (f"{_UNLISTED}--ref", f"{_UNLISTED}--repo")
_FIELD = "profile-option-"
#: Form fields without a meaning for the spawner: JupyterHub's own, and fancy-profiles' second list of profiles.
_IDLE_FIELDS = frozenset({"_xsrf", "select-profile"})

Profile = Mapping[str, Any]


class UnreadName(str):
    """A problem: no profile has an option or field of this name. Other code of the hub may read it."""

    __slots__ = ()


def user_options_problem(
    profile_list: Sequence[Profile] | None,
    user_options: object,
    others: Collection[str] = (),
    *,
    others_read_more: bool = False,
) -> str | None:
    """Why these options cannot come from the form, or ``None``; an `UnreadName` if that is for a name alone.

    Parameters
    ----------
    profile_list
        As initialised by KubeSpawner (with ``slug`` and ``unlisted_choice``). Without one, other code reads options.
    user_options
        What the user sent.
    others
        Names of options that something else in the hub reads; they may have any value.
    others_read_more
        Whether it may also read any other option that no profile has. Such code makes options of what a form sends, so
        an empty value is one that was not sent, as for KubeSpawner.
    """
    if user_options is None:
        return None
    if not isinstance(user_options, Mapping):
        return "the options of a server must be a JSON object"
    sent = {name: value for name, value in user_options.items() if name not in others}
    if others_read_more:
        sent = {name: value for name, value in sent.items() if value not in (None, "")}
    if not sent or not profile_list:
        return None
    if "profile" in sent and (problem := _profile_problem(sent["profile"], [each["slug"] for each in profile_list])):
        return problem
    slug = sent.get("profile")
    profile = next(each for each in profile_list if (each["slug"] == slug if slug else each.get("default")))
    options = _options(profile)
    known = {"profile", *(name for option in options.items() for name in names_of_option(*option))}
    for name in () if others_read_more else sent:
        if name not in known and not _belongs_to_longer_slug(name, profile, profile_list):
            return _unknown_option(name, profile, profile_list)
    problems = (_option_problem(name, option, sent) for name, option in options.items())
    return next(filter(None, problems), None)


def form_fields_problem(
    fields: Mapping[str, Sequence[object]], profile_list: Sequence[Profile] | None, others: Collection[str] = ()
) -> str | None:
    """Why these fields cannot come from the spawn form, or ``None``; values of options are not looked at here.

    Parameters
    ----------
    fields
        Values by name, of a form or of a query.
    profile_list
        As initialised by KubeSpawner; ``None`` where it is not known yet.
    others
        Names of options that something else in the hub reads.
    """
    picked = fields.get("profile", ())
    if len(set(map(str, picked))) > 1:
        return "several profiles are picked; pick one"
    slugs = None if profile_list is None else [each["slug"] for each in profile_list]
    for name, values in fields.items():
        if name in _IDLE_FIELDS or name in others:
            continue
        if name == "profile":
            problem = _profile_problem(values[0] if values else "", slugs)
        elif not name.startswith(_FIELD):
            problem = _unknown_field(name, picked, profile_list or ())
        elif not picked:
            problem = f"{_found(name)} needs a profile beside it"
        elif slugs is not None and not any(name.startswith(f"{_FIELD}{slug}--") for slug in slugs):
            # The form sends the fields of all profiles; KubeSpawner uses those of the picked one.
            problem = f"{_found(name)} is no field of any profile; there are the profiles {', '.join(slugs)}"
        else:
            problem = None
        if problem:
            return problem
    return None


def _profile_problem(value: object, slugs: Collection[str] | None) -> str | None:
    if not isinstance(value, str):
        return f"a profile must be the name of one, not {_found(value)}"
    there_are = f"there are: {', '.join(slugs)}" if slugs else ""
    if not value:
        return f"the profile is empty; {there_are}" if slugs else "the profile is empty"
    if slugs is None or value in slugs:
        return None
    # Stored options may name one that is gone, so all are named beside the similar one.
    hint = f"did you mean {meant}? T{there_are[1:]}" if (meant := _alike(value, slugs)) else there_are
    return f"there is no profile {_found(value)}; {hint}"


def _unknown_field(name: str, picked: Sequence[object], profile_list: Iterable[Profile]) -> str:
    fields = {"profile": "profile"}
    for each in profile_list:
        if not picked or each["slug"] == picked[0]:
            fields |= {option: f"{_FIELD}{each['slug']}--{option}" for option in _options(each)}
    meant = _alike(name, fields)
    hint = f"did you mean {fields[meant]}?" if meant else f"that of an option is {_FIELD}PROFILE--OPTION"
    return UnreadName(f"there is no field {_found(name)}; {hint}")


def _options(profile: Profile) -> Mapping[str, Profile]:
    return profile.get("profile_options") or {}


def _takes_text(option: Profile) -> bool:
    return bool((option.get("unlisted_choice") or {}).get("enabled"))


def names_of_option(name: str, option: Profile) -> Iterable[str]:
    """Under which names values of an option may come."""
    # Free text that is not allowed is refused with a sentence of its own.
    yield from (name, f"{name}{_UNLISTED}")
    if _takes_text(option):
        yield from (f"{name}{suffix}" for suffix in _BESIDE_TEXT)


def _belongs_to_longer_slug(name: str, profile: Profile, profile_list: Iterable[Profile]) -> bool:
    """Whether KubeSpawner took another profile's form field for an option of this one: ``a--b`` begins like ``a``."""
    whole = f"{profile['slug']}--{name}"
    slugs = (each["slug"] for each in profile_list)
    return any(whole.startswith(f"{slug}--") for slug in slugs if slug.startswith(f"{profile['slug']}--"))


def _unknown_option(name: str, profile: Profile, profile_list: Iterable[Profile]) -> str:
    options = _options(profile)
    sentence = f"profile {profile['slug']} has no option {_found(name)}"
    if meant := _did_you_mean(name, ["profile", *options]):
        return UnreadName(f"{sentence}{meant}")
    elsewhere = [each["slug"] for each in profile_list if name.removesuffix(_UNLISTED) in _options(each)]
    if elsewhere:
        return UnreadName(f"{sentence}; this is an option of {', '.join(elsewhere)}")
    return UnreadName(f"{sentence}; there are: {', '.join(options)}" if options else f"{sentence}, nor any other")


def _option_problem(name: str, option: Profile, sent: Mapping[str, object]) -> str | None:
    choices = option.get("choices") or {}
    if any(not isinstance(sent.get(f"{name}{suffix}", ""), str) for suffix in _BESIDE_TEXT):
        return f"what belongs to the free text of option {name} must be text"
    typed = sent.get(f"{name}{_UNLISTED}")
    is_listed = name in sent and not (isinstance(typed, str) and sent[name] in _TYPED and sent[name] not in choices)
    if is_listed:
        # An empty text field beside a choice says nothing.
        return _choice_problem(name, option, sent[name]) or (
            f"option {name} has both a choice and free text; send one of them" if typed not in (None, "") else None
        )
    if f"{name}{_UNLISTED}" in sent:
        return _text_problem(name, option, typed)
    return None if choices or not _takes_text(option) else f"type a value for option {name}"


def _choice_problem(name: str, option: Profile, choice: object) -> str | None:
    choices = option.get("choices") or {}
    if isinstance(choice, str) and choice in choices:
        return None
    if isinstance(choice, str) and choice in _TYPED and _takes_text(option):
        return f"type a value for option {name}"
    if not isinstance(choice, str):
        return f"a choice of option {name} must be the name of one, not {_found(choice)}"
    there_are = f"; there are: {', '.join(map(str, choices))}" if choices else ""
    return f"option {name} has no choice {_found(choice)}{there_are}"


def _text_problem(name: str, option: Profile, text: object) -> str | None:
    if not _takes_text(option):
        return f"option {name} takes no free text"
    if text == "":
        return f"type a value for option {name}"
    unlisted = option["unlisted_choice"]
    regex = unlisted.get("validation_regex")
    if isinstance(text, str) and len(text) <= MAX_FREE_TEXT and _is_plain(text) and _matches(regex, text):
        return None
    return unlisted.get("validation_message") or f"{_found(text)} is not a valid value of option {name}"


def _is_plain(text: str) -> bool:
    """Whether text has neither braces nor half a character.

    KubeSpawner expands what stands in braces in many of its settings, after the text was put there, and fails where it
    knows no such field. JSON can write one half of a character that takes two; nothing can store it.
    """
    return not any(character in "{}" or "\ud800" <= character <= "\udfff" for character in text)


def _matches(regex: object, text: str) -> bool:
    """Whether all of a text matches an administrator's pattern, if there is one."""
    try:
        return not regex or matches_whole(str(regex), text)
    except re.error as error:
        raise ValueError(f"validation_regex {shown(regex)}: {error}") from error


def _alike(name: str, known: Iterable[str]) -> str:
    """Which of the known names was meant; empty if that cannot be told."""
    if len(name) > _LONGEST_TYPO:
        return ""
    by_lower_case = {each.lower(): each for each in known}
    return "".join(by_lower_case[each] for each in get_close_matches(name.lower(), by_lower_case, 1))


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    meant = _alike(name, known)
    return f"; did you mean {meant}?" if meant else ""


def _found(value: object) -> str:
    """A value as it may stand in a message, in time that does not depend on its size."""
    if isinstance(value, str):
        return shown(value[:100])
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return "a number"
    return "an object" if isinstance(value, Mapping) else "a list"


MAX_FREE_TEXT: Final = 1_024
"""Maximum length of a user's text in an option; names of images need a few hundred characters."""

_MAX_BACKTRACKING: Final = 20
"""Characters of a text that Python's own expressions are asked about: 2**20 steps are a second at worst."""


def matches_whole(pattern: str, text: str) -> bool:
    """Whether the whole text matches.

    RE2 takes linear time. A pattern that it does not know (with a look-ahead or a back-reference) is asked of Python,
    for short texts only: ``(a+)+$`` and the like take time that doubles with each character.
    """
    if len(text) > MAX_FREE_TEXT:
        return False
    compiled = _compiled(pattern)
    if compiled is not None:
        return bool(compiled.fullmatch(text))
    return len(text) <= _MAX_BACKTRACKING and bool(re.fullmatch(pattern, text))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
