"""Choices of the form that would start now, for a user whose server waits, or has waited in vain.

The service knows that of each choice. Without its answer the hub looks at devices itself, but only for choices that
need the same of a node as the server that waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jupyterhub.utils import maybe_future

from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.choice_names import choice_name, options_of, profile_of
from dra_spawner.profiles.choices import ListedChoice, pick_choice
from dra_spawner.simulator.scheduler.suitable_nodes import SuitableNodes
from dra_spawner.spawner.availability.client import AvailabilityClient
from dra_spawner.spawner.availability.form_choices import (
    FormChoices,
    choice_text,
    choices_of,
    chosen_profile,
    form_choices,
    name_of_options,
    options_with,
    picks_of,
    slug_of,
)
from dra_spawner.spawner.availability.shown import ShownAvailability
from dra_spawner.spawner.devices.diagnosis import assess_within_limits
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.smaller_choice import ClaimsSize, claims_size, is_smaller, size_order

#: Choices that a user is offered.
MOST_OFFERED: Final = 3
#: Choices of other profiles, and of the own one, that are compiled; a form may have hundreds.
_MAX_COMPILED: Final = 60
#: Names of ``instead`` that count (`dra_spawner.profiles.instead.MOST_INSTEAD`).
_MAX_NAMED: Final = 8
#: Choices that are looked at one by one, the best first; each is a question or a search.
_MAX_LOOKED_AT: Final = 6
#: Until an answer of the service is not awaited any more.
_WAIT_SECONDS: Final = 0.4
#: Its greatest age. A page asks every five seconds, and offers must not vanish when the service is slow once or twice.
_OLDEST_SECONDS: Final = 15.0
#: Seconds for which servers that wait for the same share what a form has beside it.
_SHARED_SECONDS: Final = 60.0
_MAX_SHARED: Final = 64
#: States in which a server would start now.
FREE: Final = frozenset({AvailabilityState.READY, AvailabilityState.FREE, AvailabilityState.AFTER_PLACEHOLDER})
#: Settings in which a choice may differ and need the same of a node: its devices, and what says nothing about a node.
_MAY_DIFFER: Final = frozenset({"device_claims", "environment", "default_url", "args", "cmd"})


@dataclass(frozen=True, slots=True)
class FreeChoice:
    """A choice of the form that would start now.

    Attributes
    ----------
    words
        Its name in the form, plain text.
    options
        User options that choose it: its profile, and a choice of each named option.
    name
        Its name in the service's answers.
    """

    words: str
    options: Mapping[str, str]
    name: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """Fields of KubeSpawner's form that choose it."""
        slug = self.options["profile"]
        picks = {name: choice for name, choice in self.options.items() if name != "profile"}
        return {"profile": slug, **{f"profile-option-{slug}--{name}": choice for name, choice in picks.items()}}


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Another choice than the one that waits.

    Attributes
    ----------
    is_alike
        Whether what fits the pod that waits fits this choice, too, but for devices.
    """

    choice: FreeChoice
    specs: Mapping[str, JsonObject]
    is_alike: bool


@dataclass(frozen=True, slots=True)
class OtherChoices:
    """What a user's form has beside the choice that waits, the best first.

    Attributes
    ----------
    own
        Name of the choice that waits in the service's answers; empty if it has none.
    """

    own: str = ""
    candidates: tuple[_Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedInstead:
    """What the user's choice names in its ``instead``.

    Attributes
    ----------
    own, words
        The user's choice: its name in the service's answers, and in the form.
    named
        The choices that it names and the form has, the best first.
    is_taken
        Whether a start takes one of them by itself.
    form
        The choices of the form.
    options
        The server's options.
    """

    own: str
    words: str
    named: tuple[FreeChoice, ...]
    is_taken: bool
    form: FormChoices
    options: Mapping[str, Any]

    def options_with(self, choice: FreeChoice) -> dict[str, Any]:
        """The server's options with another choice."""
        return options_with(self.options, choice.name, self.form)


async def named_instead(server: ServerContext) -> NamedInstead | None:
    """What the user's choice names; None if no name of the choice is known."""
    profiles, _ = await _profiles_of(server)
    form, chosen = form_choices(profiles), chosen_profile(profiles, server.chosen_profile)
    own, picks = _own_name(server, form, chosen)
    listed = _listed(profiles, server.settings_of_choices, chosen, picks)
    if chosen is None or not own or listed is None or listed.choice is None:
        return None
    settings, options = listed.choice.settings, server.spawner.user_options
    by_slug = {slug_of(each): each for each in profiles}
    named = tuple(
        FreeChoice(choice_text(by_slug[profile_of(name)], options_of(name)), _options_of(name), name)
        for name in _named(listed, form)
        if name != own
    )
    known = options if isinstance(options, Mapping) else {}
    words = choice_text(chosen, options_of(own))
    return NamedInstead(own, words, named, settings.get("take_instead") is True, form, known)


def _named(listed: ListedChoice | None, form: FormChoices) -> list[str]:
    """What a choice names in its ``instead`` and the form has, each once."""
    value = listed.choice.settings.get("instead") if listed is not None and listed.choice is not None else None
    names = [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []
    return list(dict.fromkeys(filter(None, map(form.known_name, names[:_MAX_NAMED]))))


def _options_of(name: str) -> dict[str, str]:
    return {"profile": profile_of(name), **options_of(name)}


async def _profiles_of(server: ServerContext) -> tuple[list[Mapping[str, Any]], bool]:
    """The user's profiles as KubeSpawner has them, and whether they are of this user alone."""
    spawner = server.spawner
    profiles = spawner._sorted_dict_values(spawner.profile_list)
    is_of_user = callable(profiles)
    if is_of_user:
        profiles = await maybe_future(profiles(spawner))
    found = spawner._get_initialized_profile_list(profiles) or ()
    return [each for each in found if isinstance(each, Mapping)], is_of_user


def _own_name(
    server: ServerContext, form: FormChoices, chosen: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, str]]:
    """Name and picks of the user's choice; an empty name for one that the service does not know."""
    options = server.spawner.user_options
    picks = picks_of(chosen, options) if chosen is not None else {}
    return name_of_options(chosen, options, form) or "", picks


async def other_choices(server: ServerContext, specs: Mapping[str, JsonObject]) -> OtherChoices:
    """Return the other choices of the user's form.

    The smaller ones come first, the largest of them at the top, and before them those that differ in nothing but
    devices. Other profiles follow in the order of the form.

    Parameters
    ----------
    specs
        Specs of the claims that the server waits for, by the claim's name.
    """
    profiles, is_of_user = await _profiles_of(server)
    form, chosen = form_choices(profiles), chosen_profile(profiles, server.chosen_profile)
    own, picks = _own_name(server, form, chosen)
    if is_of_user or not own:
        return OtherChoices(own, await _compiled(server, profiles, form, chosen, picks, own, specs))
    # A class that waits waits for the same.
    loop, known = asyncio.get_running_loop(), this_hub().shared("other choices", dict[Any, Any])
    key, now = (form, own), loop.time()
    found: tuple[float, tuple[_Candidate, ...]] | None = known.get(key)
    if found is None or now - found[0] > _SHARED_SECONDS:
        found = known[key] = (now, await _compiled(server, profiles, form, chosen, picks, own, specs))
        if len(known) > _MAX_SHARED:
            del known[next(iter(known))]
    return OtherChoices(own, found[1])


async def free_choices(
    server: ServerContext, availability: AvailabilityClient | None, others: OtherChoices, pod: JsonObject
) -> list[FreeChoice]:
    """Return the choices that would start now, the best first.

    Parameters
    ----------
    availability
        The hub's questions to the service; None without a service.
    pod
        The pod that waits.
    """
    if availability is not None:
        free = await _free_by_service(availability, [each.choice.name for each in others.candidates])
        if free is not None:
            found = [each.choice for each in others.candidates if each.choice.name in free]
            return found[:MOST_OFFERED]
    return await _free_by_devices(server, [each for each in others.candidates if each.is_alike], pod)


async def _free_by_service(client: AvailabilityClient, names: Sequence[str]) -> set[str] | None:
    """The choices that are free as the service says; None if it does not know."""
    states = await states_of(client, names)
    return {name for name, each in states.items() if each.state in FREE} if states is not None else None


async def states_of(client: AvailabilityClient, names: Sequence[str]) -> dict[str, ShownAvailability] | None:
    """Availability of choices as the service says; None if it does not know."""
    view = await client.latest(_WAIT_SECONDS)
    if view.age_seconds is None or view.age_seconds > _OLDEST_SECONDS:
        return None
    missing = [name for name in names if name not in view.choices][:_MAX_LOOKED_AT]
    answers = await all_of(asyncio.gather(*(client.of_combination(name, _WAIT_SECONDS) for name in missing)))
    states = {name: view.of(name) for name in names} | dict(zip(missing, answers, strict=True))
    if all(each.state is AvailabilityState.UNKNOWN for each in states.values()):
        return None
    return states


async def _free_by_devices(
    server: ServerContext, candidates: Sequence[_Candidate], pod: JsonObject
) -> list[FreeChoice]:
    """The first choices whose devices are free on a node that suits a pod."""
    try:
        seen = await server.devices.objects()
    except KubernetesError:
        return []
    suitable_nodes, spawner = SuitableNodes(), server.spawner
    servers = [] if spawner.pod_reflector is None else list(spawner.pod_reflector.pods.values())
    others = [each for each in servers if each["metadata"].get("name") != spawner.pod_name]
    suitable_nodes.read(seen.nodes, [(each, each["spec"].get("nodeName") or "") for each in others])
    suitable = suitable_nodes.for_pod(pod)
    nodes = [node for node in seen.nodes if node["metadata"]["name"] in suitable]
    found: list[FreeChoice] = []
    for each in candidates[:_MAX_LOOKED_AT] if nodes else ():
        if not each.specs or (await assess_within_limits(each.specs, seen, nodes, seen.claims)).fits:
            found.append(each.choice)
        if len(found) == MOST_OFFERED:
            break
    return found


async def _compiled(
    server: ServerContext,
    profiles: list[Mapping[str, Any]],
    form: FormChoices,
    chosen: Mapping[str, Any] | None,
    picks: Mapping[str, str],
    own: str,
    specs: Mapping[str, JsonObject],
) -> tuple[_Candidate, ...]:
    settings = server.settings_of_choices
    own_choice, own_size = _listed(profiles, settings, chosen, picks), claims_size(specs)
    smaller: list[tuple[_Candidate, ClaimsSize]] = []
    rest: list[_Candidate] = []
    named = _named(own_choice, form)
    wanted = _wanted(profiles, chosen, picks, named)
    for (profile, other_picks), _ in zip(wanted, range(_MAX_COMPILED), strict=False):
        await asyncio.sleep(0)  # the hub serves others meanwhile
        name = form.known_name(choice_name(slug_of(profile), other_picks)) or ""
        listed = _listed(profiles, settings, profile, other_picks)
        if name in ("", own) or listed is None or listed.choice is None:
            continue
        found, is_alike = listed.choice.plan.specs, own_choice is not None and _has_the_same_needs(listed, own_choice)
        choice = FreeChoice(choice_text(profile, other_picks), {"profile": slug_of(profile), **other_picks}, name)
        candidate, size = _Candidate(choice, found, is_alike), claims_size(found)
        if own_size and size and is_smaller(size, own_size):
            smaller.append((candidate, size))
        else:
            rest.append(candidate)
    smaller.sort(key=lambda each: (each[0].is_alike, size_order(each[1])), reverse=True)
    # What the administrator names comes before what seems to be smaller.
    order = {name: place for place, name in enumerate(named)}
    in_order = [*(candidate for candidate, _ in smaller), *rest]
    return tuple(sorted(in_order, key=lambda each: order.get(each.choice.name, len(order))))


def _wanted(
    profiles: Sequence[Mapping[str, Any]],
    chosen: Mapping[str, Any] | None,
    own_picks: Mapping[str, str],
    named: Iterable[str],
) -> Iterator[tuple[Mapping[str, Any], dict[str, str]]]:
    """What the choice names, each choice of an option of its profile, and each other profile with its defaults."""
    by_slug = {slug_of(each): each for each in profiles}
    for name in named:
        # Others of its own profile keep the user's other options, and follow.
        if by_slug[profile_of(name)] is not chosen and options_of(name):
            yield by_slug[profile_of(name)], options_of(name)
    if chosen is not None:
        for name, choices in choices_of(chosen).items():
            for key in choices:
                yield chosen, {**own_picks, name: key}
    for profile in profiles:
        if profile is not chosen:
            yield profile, {}


def _listed(
    profiles: list[Mapping[str, Any]], settings: Mapping[str, Any], profile: Any, picks: Mapping[str, str]
) -> ListedChoice | None:
    if profile is None:
        return None
    try:
        return pick_choice(profiles, settings, slug_of(profile), picks)
    except LookupError:
        return None


def _has_the_same_needs(one: ListedChoice, other: ListedChoice) -> bool:
    """Whether what fits the pod of one fits that of the other, but for devices."""
    return _needs(one) is not None and _needs(one) == _needs(other)


def _needs(listed: ListedChoice) -> dict[str, Any] | None:
    if listed.choice is None:
        return None
    return {name: value for name, value in listed.choice.settings.items() if name not in _MAY_DIFFER}
