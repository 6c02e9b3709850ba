"""Something smaller than what a user waited for in vain, if it is free now.

The service knows that of each choice. Without its answer the hub looks at devices itself, but only for choices that
need the same of a node as the server that waited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jupyterhub.utils import maybe_future
from markupsafe import Markup

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.quantity import Quantity
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.choice_names import choice_name
from dra_spawner.profiles.choices import ListedChoice, pick_choice
from dra_spawner.simulator.scheduler.suitable_nodes import SuitableNodes
from dra_spawner.spawner.availability.client import AvailabilityClient
from dra_spawner.spawner.availability.form_choices import form_choices
from dra_spawner.spawner.devices.diagnosis import assess_within_limits
from dra_spawner.spawner.server_context import ServerContext

__all__ = ["SmallerChoice", "claims_size", "free_smaller_choice", "is_smaller"]

#: Smaller choices that are looked at, the largest first; each is a search.
_MAX_LOOKED_AT: Final = 6
#: Until an answer of the service is not awaited any more, and its greatest age.
_WAIT_SECONDS: Final = 0.4
_OLDEST_SECONDS: Final = 5.0
_FREE: Final = frozenset({AvailabilityState.READY, AvailabilityState.FREE, AvailabilityState.AFTER_PLACEHOLDER})
#: Settings in which a smaller choice may differ: its devices, and what says nothing about a node.
_MAY_DIFFER: Final = frozenset({"device_claims", "environment", "default_url", "args", "cmd"})

#: Device class, number of devices and share of each by request.
ClaimsSize = Mapping[tuple[str, str], tuple[str, int, Mapping[str, Quantity]]]


@dataclass(frozen=True, slots=True)
class SmallerChoice:
    """A choice of the form whose devices are free.

    Attributes
    ----------
    words
        Its name in the form, plain text.
    fields
        Fields of the form that choose it.
    name
        Its name in the service's answers.
    """

    words: str
    fields: Mapping[str, str]
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A smaller choice.

    Attributes
    ----------
    is_alike
        Whether what fits the pod that waited fits this choice, too, but for devices.
    """

    choice: SmallerChoice
    size: ClaimsSize
    specs: Mapping[str, JsonObject]
    is_alike: bool


async def free_smaller_choice(
    server: ServerContext,
    availability: AvailabilityClient | None,
    specs: Mapping[str, JsonObject],
    pod: JsonObject,
) -> SmallerChoice | None:
    """Return a choice of the user's form that is smaller than some claims, and free.

    The largest one, of those that differ in nothing but devices if one is free.

    Parameters
    ----------
    availability
        The hub's questions to the service; None without a service.
    specs
        Specs of the claims that no node has free, by the claim's name.
    pod
        The pod that waited.
    """
    size = claims_size(specs)
    if not size:
        return None
    spawner = server.spawner
    profiles = spawner._sorted_dict_values(spawner.profile_list)
    if callable(profiles):
        profiles = await maybe_future(profiles(spawner))
    profiles = spawner._get_initialized_profile_list(profiles) or []
    found = list(_candidates(profiles, server, size))
    found.sort(key=lambda each: (each.is_alike, _order(each.size)), reverse=True)
    if availability is not None:
        free = await _free_by_service(availability, [each.choice.name for each in found])
        if free is not None:
            return next((each.choice for each in found if each.choice.name in free), None)
    return await _free_by_devices(server, [each for each in found if each.is_alike], pod)


async def _free_by_service(client: AvailabilityClient, names: Sequence[str]) -> set[str] | None:
    """The choices that are free as the service says; None if it does not know."""
    view = await client.latest(_WAIT_SECONDS)
    if view.age_seconds is None or view.age_seconds > _OLDEST_SECONDS:
        return None
    missing = [name for name in names if name not in view.choices][:_MAX_LOOKED_AT]
    answers = await asyncio.gather(*(client.of_combination(name, _WAIT_SECONDS) for name in missing))
    states = {name: view.of(name).state for name in names}
    states |= {name: answer.state for name, answer in zip(missing, answers, strict=True)}
    if all(state is AvailabilityState.UNKNOWN for state in states.values()):
        return None
    return {name for name, state in states.items() if state in _FREE}


async def _free_by_devices(
    server: ServerContext, candidates: Sequence[_Candidate], pod: JsonObject
) -> SmallerChoice | None:
    """The first choice whose devices are free on a node that suits a pod."""
    try:
        seen = await server.devices.objects()
    except KubernetesError:
        return None
    suitable_nodes, spawner = SuitableNodes(), server.spawner
    servers = [] if spawner.pod_reflector is None else list(spawner.pod_reflector.pods.values())
    others = [each for each in servers if each["metadata"].get("name") != spawner.pod_name]
    suitable_nodes.read(seen.nodes, [(each, each["spec"].get("nodeName") or "") for each in others])
    suitable = suitable_nodes.for_pod(pod)
    nodes = [node for node in seen.nodes if node["metadata"]["name"] in suitable]
    for each in candidates[:_MAX_LOOKED_AT]:
        if (await assess_within_limits(each.specs, seen, nodes, seen.claims)).fits:
            return each.choice
    return None


def claims_size(specs: Mapping[str, JsonObject]) -> ClaimsSize | None:
    """The size of claims; None if they have alternatives, all devices of a node, or amounts that make no sense."""
    size = {}
    for claim, spec in specs.items():
        for request in (spec.get("devices") or {}).get("requests") or ():
            exactly = request.get("exactly")
            if not exactly or exactly.get("allocationMode") == "All":
                return None
            amounts = ((exactly.get("capacity") or {}).get("requests")) or {}
            try:
                share = {name: Quantity.parse(amount) for name, amount in amounts.items()}
            except ValueError:
                return None
            size[claim, request["name"]] = (exactly["deviceClassName"], int(exactly.get("count") or 1), share)
    return size


def is_smaller(one: ClaimsSize, other: ClaimsSize) -> bool:
    """Whether claims ask for less of the same kinds of devices in some part, and for more in none."""
    if not one or not one.keys() <= other.keys():
        return False
    is_less = len(one) < len(other)
    for request, (kind, count, share) in one.items():
        other_kind, other_count, other_share = other[request]
        # A device without a share is a whole one.
        if kind != other_kind or count > other_count or not other_share.keys() <= share.keys():
            return False
        if any(share[name].nano > amount.nano for name, amount in other_share.items()):
            return False
        is_less |= count < other_count or len(share) > len(other_share)
        is_less |= any(share[name].nano < amount.nano for name, amount in other_share.items())
    return is_less


def _order(size: ClaimsSize) -> tuple[int, int, int]:
    """For sorting by size."""
    counts = [count for _, count, _ in size.values()]
    return len(counts), sum(counts), sum(amount.nano for _, _, share in size.values() for amount in share.values())


def _candidates(profiles: Iterable[Any], server: ServerContext, size: ClaimsSize) -> Iterator[_Candidate]:
    """Smaller ones of each profile with its default choices, and of each choice of an option of the user's profile."""
    listed = [each for each in profiles if isinstance(each, Mapping)]
    names = form_choices(listed)
    settings = {"device_claims": server.configured["device_claims"]}
    submitted = server.spawner.user_options
    options = submitted if isinstance(submitted, Mapping) else {}
    chosen = _chosen(listed, server.chosen_profile)
    own_picks = _picks(chosen, options) if chosen is not None else {}
    own = _listed(listed, settings, chosen, own_picks)
    for profile in listed:
        wanted: list[dict[str, str]] = [{}]
        if profile is chosen:
            wanted = [{**own_picks, name: key} for name, choices in _choices_of(profile).items() for key in choices]
        for picks in wanted:
            each = _listed(listed, settings, profile, picks)
            if each is None or each.choice is None:
                continue
            specs = each.choice.plan.specs
            other = claims_size(specs)
            if other is not None and is_smaller(other, size):
                name = names.known_name(choice_name(_slug(profile), picks)) or ""
                choice = SmallerChoice(_choice_text(profile, picks), _fields(profile, picks), name)
                yield _Candidate(choice, other, specs, own is not None and _has_the_same_needs(each, own))


def _chosen(profiles: list[Mapping[str, Any]], slug: str) -> Mapping[str, Any] | None:
    if slug:
        return next((each for each in profiles if each.get("slug") == slug), None)
    return next((each for each in profiles if each.get("default")), None)


def _choices_of(profile: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    options = profile.get("profile_options") or {}
    return {name: choices for name, option in options.items() if isinstance(choices := option.get("choices"), Mapping)}


def _picks(profile: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, str]:
    return {name: options[name] for name, choices in _choices_of(profile).items() if options.get(name) in choices}


def _listed(
    profiles: list[Mapping[str, Any]], settings: Mapping[str, Any], profile: Any, picks: Mapping[str, str]
) -> ListedChoice | None:
    if profile is None:
        return None
    try:
        return pick_choice(profiles, settings, _slug(profile), picks)
    except LookupError:
        return None


def _has_the_same_needs(one: ListedChoice, other: ListedChoice) -> bool:
    """Whether what fits the pod of one fits that of the other, but for devices."""
    return _needs(one) is not None and _needs(one) == _needs(other)


def _needs(listed: ListedChoice) -> dict[str, Any] | None:
    if listed.choice is None:
        return None
    return {name: value for name, value in listed.choice.settings.items() if name not in _MAY_DIFFER}


def _choice_text(profile: Mapping[str, Any], picks: Mapping[str, str]) -> str:
    choices = _choices_of(profile)
    named = [choices[option][choice].get("display_name") or choice for option, choice in picks.items()]
    return ", ".join(_text(each) for each in (profile.get("display_name") or _slug(profile), *named))


def _text(name: object) -> str:
    """The text of a name, which KubeSpawner's form takes for HTML."""
    return Markup(str(name)).striptags()  # noqa: S704 (the result is text, and escaped where it is shown)


def _slug(profile: Mapping[str, Any]) -> str:
    return str(profile.get("slug"))


def _fields(profile: Mapping[str, Any], picks: Mapping[str, str]) -> dict[str, str]:
    slug = _slug(profile)
    return {"profile": slug, **{f"profile-option-{slug}--{option}": choice for option, choice in picks.items()}}
