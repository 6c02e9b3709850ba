"""What the spawn form adds to names and descriptions: amounts really reserved, and how firm a share is."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_spawner.dra.quantity import Quantity, QuantityFormat
from dra_spawner.profiles.choices import TRAIT, Choice, default_choice, list_choices
from dra_spawner.profiles.compiler.claims import DeviceClaim, DeviceRequest
from dra_spawner.profiles.syntax.layers import override_of
from dra_spawner.profiles.user_form.offers import DeviceCatalog, reserved_amounts
from dra_spawner.profiles.user_form.sizes import readable_range

#: Sentences about how firmly the shares of a claim are shares.
Enforcements = Callable[[DeviceClaim], Iterable[str]]
#: Claim, request (or request/alternative) and capacity.
_Place = tuple[str, str, str]
_Picks = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FormTexts:
    """Texts that the form adds to the administrator's.

    Attributes
    ----------
    amounts
        Whether to say what is really reserved where that differs from what is asked for.
    enforcements
        Gives the sentences about shares; ``None`` for none.
    lifetime
        Gives how long a server of a choice may run, in words; empty for as long as its user likes. ``None``: no texts.
    instead
        Gives a sentence about what a user may get in place of a choice; empty for nothing. ``None``: no texts.
    """

    amounts: bool = True
    enforcements: Enforcements | None = None
    lifetime: Callable[[Choice], str] | None = None
    instead: Callable[[Choice], str] | None = None


def with_texts(
    profile: Mapping[str, Any], catalog: DeviceCatalog, settings: Mapping[str, Any], texts: FormTexts
) -> Mapping[str, Any]:
    """A profile with texts added to its description and its choices' names; slugs and profile names are unchanged.

    An amount that a choice decides stands in the choice's name, as forms show nothing else of it; the others in the
    profile's description.

    Parameters
    ----------
    profile
        With plain choices.
    catalog, settings
        See `form_profiles`.
    """
    return _Texts.of(profile, catalog, settings, texts).added()


@dataclass(slots=True)
class _Texts:
    """Texts of one profile, by the picked choices that are not defaults."""

    profile: Mapping[str, Any]
    amounts: dict[_Picks, dict[_Place, str]] = field(default_factory=dict)
    """Empty text where just so much is reserved as is asked for."""
    sentences: dict[_Picks, list[str]] = field(default_factory=dict)
    lifetimes: dict[_Picks, str] = field(default_factory=dict)
    instead: str = ""

    @classmethod
    def of(
        cls, profile: Mapping[str, Any], catalog: DeviceCatalog, settings: Mapping[str, Any], texts: FormTexts
    ) -> _Texts:
        found = cls(profile)
        for listed in list_choices([profile], settings):
            if listed.choice is not None:
                picks = tuple(listed.picks.items())
                if texts.amounts:
                    found.amounts[picks] = dict(_amounts(listed.choice, catalog))
                if texts.instead is not None and not picks:
                    found.instead = texts.instead(listed.choice)
                if texts.lifetime is not None:
                    found.lifetimes[picks] = texts.lifetime(listed.choice)
                if texts.enforcements is not None:
                    every = (sentence for claim in listed.choice.claims for sentence in texts.enforcements(claim))
                    found.sentences[picks] = list(dict.fromkeys(every))
        return found

    def added(self) -> dict[str, Any]:
        changed = dict(self.profile)
        chosen = {
            place
            for places in self.amounts.values()
            for place in places
            if any(_says(each, place) for each in self._overrides())
        }
        options = self.profile.get("profile_options")
        if isinstance(options, Mapping):
            changed["profile_options"] = {name: self._option(name, option, chosen) for name, option in options.items()}
        own = [text for place, text in self.amounts.get((), {}).items() if text and place not in chosen]
        reserved = f"{_reserved(own)}." if own else ""
        _add(changed, filter(None, (reserved, *self._every_sentence(), *self._end_sentence(), self.instead)))
        return changed

    def _option(self, name: str, option: Any, chosen: set[_Place]) -> Any:
        choices = option.get("choices") if isinstance(option, Mapping) else None
        if not isinstance(choices, Mapping):
            return option
        default = default_choice(choices)
        shown = {
            slug: self._choice(choice, slug, () if slug == default else ((name, slug),), chosen)
            for slug, choice in choices.items()
        }
        return {**option, "choices": shown}

    def _choice(self, choice: Any, slug: str, picks: _Picks, chosen: set[_Place]) -> Any:
        if not isinstance(choice, Mapping):
            return choice
        changed, of_default = dict(choice), self.amounts.get((), {})
        decided = [
            text
            for place, text in self.amounts.get(picks, {}).items()
            if text and (_says(choice, place) or (place not in chosen and text != of_default.get(place)))
        ]
        more = [_reserved(decided)] if decided else []
        usual = self.lifetimes.get((), "")
        end = self.lifetimes.get(picks, usual)
        if end != usual:
            more.append(f"ends after {end}" if end else "without end")
        if more:
            name = choice.get("display_name") or html.escape(slug)
            changed["display_name"] = f"{name} ({html.escape(', '.join(more))})"
        sentences = self.sentences.get(picks, [])
        if len(self._every_sentence()) > 1 and TRAIT in override_of(choice):
            _add(changed, sentences)
        return changed

    def _every_sentence(self) -> list[str]:
        return list(dict.fromkeys(sentence for sentences in self.sentences.values() for sentence in sentences))

    def _end_sentence(self) -> list[str]:
        end = self.lifetimes.get((), "")
        differs = any(each != end for each in self.lifetimes.values())
        return [f"A server {'usually ' if differs else ''}ends after {end}, used or not."] if end else []

    def _overrides(self) -> Iterator[Any]:
        options = self.profile.get("profile_options")
        for option in options.values() if isinstance(options, Mapping) else ():
            choices = option.get("choices") if isinstance(option, Mapping) else None
            yield from choices.values() if isinstance(choices, Mapping) else ()


def _amounts(choice: Choice, catalog: DeviceCatalog) -> Iterator[tuple[_Place, str]]:
    """The reserved amount of each requested capacity, as text; empty where it equals the request."""
    for claim in choice.claims:
        asked = [
            (f"{request.name}/{each.name}" if request.first_available else request.name, each)
            for request in claim.requests
            for each in (request.first_available or (request,))
        ]
        several = sum(len(request.capacity) for _, request in asked) > 1
        for name, request in asked:
            for capacity, wanted in request.capacity:
                place = (claim.name, name, capacity)
                yield place, _amount(request, capacity, Quantity.parse(wanted), catalog, several)


def _amount(request: DeviceRequest, capacity: str, wanted: Quantity, catalog: DeviceCatalog, several: bool) -> str:
    reserved = reserved_amounts(catalog.offers(request, capacity), wanted)
    if reserved is None or reserved == (wanted, wanted):
        return ""
    text = readable_range(*reserved, capacity)
    if several or reserved[0].format is not QuantityFormat.BINARY_SI:
        text = f"{text} of {capacity.rpartition('/')[2]}"
    return text if request.count == 1 else f"{text} of each device"


def _reserved(amounts: Iterable[str]) -> str:
    return f"{', '.join(dict.fromkeys(amounts))} will be reserved"


def _says(choice: Any, place: _Place) -> bool:
    """Whether a choice sets this amount."""
    claims = override_of(choice).get(TRAIT)
    return isinstance(claims, Mapping) and _has_capacity(claims.get(place[0]), place[2])


def _has_capacity(value: object, name: str) -> bool:
    if isinstance(value, Mapping):
        amounts = value.get("capacity")
        if isinstance(amounts, Mapping) and name in amounts:
            return True
        return any(_has_capacity(each, name) for key, each in value.items() if key != "capacity")
    return isinstance(value, list | tuple) and any(_has_capacity(each, name) for each in value)


def _add(entry: dict[str, Any], sentences: Iterable[str]) -> None:
    """Append to the description, which is HTML."""
    more = " ".join(html.escape(sentence) for sentence in sentences)
    before = entry.get("description")
    if more:
        entry["description"] = f"{before} {more}" if before else more
