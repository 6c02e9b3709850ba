"""Publication of the shapes of all choices, for the service beside the hub.

The steps of a start compute the shapes, for sample users, so a placeholder equals its server. A choice that differs
between users has no single shape; it is skipped, with the reason.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Any, Final

from markupsafe import Markup

from dra_spawner.common.project_links import where
from dra_spawner.kube.client.api import KubernetesError, resource_path
from dra_spawner.kube.client.connect import own_namespace
from dra_spawner.placeholders.planner.targets.choice_names import choice_name, is_combination, options_of, profile_of
from dra_spawner.placeholders.planner.targets.published_shapes import (
    PublishedShapes,
    RefusedChoice,
    published_config_map,
    publisher_of,
    skipped_combinations,
    within_bounds,
)
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.profiles.compiler.claim_plan import ClaimPlan
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.profiles.syntax.problems import AdminAccessRefused, ProfileError
from dra_spawner.spawner.code_of_others import failure_of_others
from dra_spawner.spawner.hub_start.recent_choices import RecentChoices
from dra_spawner.spawner.hub_start.sample_users import SAMPLE_USERS
from dra_spawner.spawner.objects.api_objects import MANAGED_LABELS
from dra_spawner.spawner.placement.pod import manifest_of, shape_of_pod
from dra_spawner.spawner.spawn_refusal import ErrorInHubCode, SpawnRefused
from dra_spawner.spawner.spawner import DRASpawner
from dra_spawner.spawner.steps.attempt import Attempt, Step
from dra_spawner.spawner.steps.cluster_check import ClusterCheck
from dra_spawner.spawner.steps.device_claims import DeviceClaims
from dra_spawner.spawner.steps.intel_gas import IntelGas
from dra_spawner.spawner.steps.profile import Profile

#: Seconds between publications, as new devices may bring new choices.
AGAIN_SECONDS: Final = 300.0
_FIRST_WAIT_SECONDS: Final = 1.0
#: Maximum combinations of a profile's options; with more, only choices with a single option can have placeholders.
_MAX_COMBINATIONS: Final = 200
#: Failures of the hub's own code that are logged.
_MAX_LOGGED_FAILURES: Final = 100
#: Name of the choice of a hub without profiles.
_NO_PROFILES: Final = "default"


#: Seconds until the next publication while a choice is missing.
_MISSING_SECONDS: Final = 30.0

NewSpawner = Callable[[str], DRASpawner]


class AnotherHub(Exception):
    """Raised when another hub publishes under the same name."""


class NoSingleShape(Exception):
    """Raised for a choice without a single shape, with the reason."""


class ShapePublication:
    """Publishes the shapes of all choices when the hub starts, and again when they have changed.

    Parameters
    ----------
    spawner
        With the hub's settings.
    new_spawner
        Returns a new spawner of a sample user, with the hub's settings and its own code.
    """

    def __init__(self, spawner: DRASpawner, new_spawner: NewSpawner) -> None:
        server = spawner._dra.server
        self._new_spawner = new_spawner
        self._log = spawner.log
        self._api = server.kubernetes
        self._devices = server.devices
        # The hub's namespace, or outside of a pod the namespace of its servers.
        self._namespace = own_namespace(
            default=server.hub_namespace if spawner.enable_user_namespaces else spawner.namespace
        )
        self._name = spawner.shapes_config_map
        # A restarted hub replaces the content that the previous process wrote.
        self._publisher = secrets.token_hex(8)
        self._written_by: str | None = None
        self._recent = RecentChoices()
        self._last_warning = ""
        self._logged_skipped: frozenset[str] = frozenset()
        self._logged_failures: set[str] = set()
        if spawner.modify_pod_hook is not None:
            self._log.info(
                "Servers whose requests or nodes modify_pod_hook changes get no placeholder: the hook is not called "
                "when the shapes of profiles are published"
            )

    async def run(self) -> None:
        """Publish periodically; each problem is logged once."""
        wait = _FIRST_WAIT_SECONDS
        while True:
            try:
                found = await published_shapes(self._new_spawner, self._log_failure)
                published = self._recent.completed(found, time.monotonic())
                devices = self._devices.devices
                await self.publish(published, is_complete=not devices.has_failed or devices.value is not None)
                self._last_warning = ""
                # Without devices, the choices derived from them are missing.
                wait = min(2 * wait, AGAIN_SECONDS) if devices.has_failed else AGAIN_SECONDS
                if published is not found:
                    wait = min(wait, _MISSING_SECONDS)
            except AnotherHub:
                self._warn_once(
                    f"another hub writes to the ConfigMap {self._name}, too, and its content stays there; give each "
                    "hub its own name (c.DRASpawner.shapes_config_map, and the same in c.DRASpawnerService), or delete "
                    "the ConfigMap if that hub is gone"
                )
                wait = AGAIN_SECONDS
            except KubernetesError as error:
                self._warn_once(publication_problem(error, self._name))
                wait = AGAIN_SECONDS if error.status == 403 else min(2 * wait, AGAIN_SECONDS)
            except (Exception, SystemExit) as error:  # the next profiles may be valid
                if failure := failure_of_others(error):
                    self._warn_once(f"for a sample user, {failure}")
                else:
                    self._log.exception("The shapes of profiles are not published")
                wait = AGAIN_SECONDS
            await asyncio.sleep(wait)

    async def publish(self, published: PublishedShapes, *, is_complete: bool = True) -> bool:
        """Write the ConfigMap if it differs; return whether it was written.

        Parameters
        ----------
        is_complete
            Whether the devices could be read. If not, earlier choices stay: the service deletes the placeholders of
            choices that are missing.

        Raises
        ------
        KubernetesError
            If the ConfigMap cannot be read or written.
        AnotherHub
            If another hub has written it since.
        """
        published = within_bounds(published)
        wanted = published_config_map(published, self._namespace, MANAGED_LABELS, self._name, self._publisher)
        path = resource_path("v1", "configmaps", self._namespace)
        try:
            there = await self._api.get(f"{path}/{self._name}")
        except KubernetesError as error:
            if not error.not_found:
                raise
            await self._api.create(path, wanted)
        else:
            if there.get("data") == wanted["data"]:
                self._written_by = publisher_of(there)
                return False
            if not is_complete and there.get("data"):
                return False
            if self._written_by is not None and publisher_of(there) != self._written_by:
                raise AnotherHub
            version = there["metadata"]["resourceVersion"]
            await self._api.replace(
                f"{path}/{self._name}", {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
            )
        self._written_by = self._publisher
        self._log_skipped(published)
        return True

    def _log_skipped(self, published: PublishedShapes) -> None:
        choices = sum(not is_combination(name) for name in published.shapes)
        self._log.info(
            "Published the shapes of profiles: choices=%d combinations=%d skipped=%d",
            choices,
            len(published.shapes) - choices,
            len(published.skipped),
        )
        left_out = {f"{name}: {why}" for name, why in published.skipped.items() if name.endswith("/*")}
        for each in sorted(left_out - self._logged_skipped):
            self._log.warning("Not published: %s", each)
        self._logged_skipped = frozenset(left_out)

    def _log_failure(self, choice: str, failure: str) -> None:
        if f"{choice}: {failure}" not in self._logged_failures and len(self._logged_failures) < _MAX_LOGGED_FAILURES:
            self._logged_failures.add(f"{choice}: {failure}")
            self._log.warning("Not published: %s: %s", choice, failure)

    def _warn_once(self, problem: str) -> None:
        if problem != self._last_warning:
            self._log.warning(
                "The shapes of profiles are not published, so there are no new placeholders for them: %s", problem
            )
        self._last_warning = problem


def publication_problem(error: KubernetesError, name: str) -> str:
    """Why the ConfigMap cannot be written; a missing right is named as an RBAC rule."""
    if error.status != 403:
        return str(error)
    named = "" if error.verb == "create" else f"resourceNames: [{name}], "
    verb = {"replace": "update"}.get(error.verb, error.verb)
    rule = f'apiGroups: [""], resources: [configmaps], {named}verbs: [{verb}]'
    return f"the hub's Role lacks the rule {rule} ({where('helm-values/rbac.yaml')})"


async def published_shapes(
    new_spawner: NewSpawner, on_failure: Callable[[str, str], None] = lambda choice, failure: None
) -> PublishedShapes:
    """The shapes of all choices of a hub's profiles.

    Choices are the profiles with their default options, and all combinations of other options. If a profile has too
    many combinations, only those of a single option are published.

    Parameters
    ----------
    on_failure
        Called with a choice and a sentence if the hub's own code fails for it. The other choices are published.
    """
    spawner = new_spawner(SAMPLE_USERS[0])
    if callable(spawner.profile_list):
        return PublishedShapes(
            {},
            {"profile_list": "the list of profiles is a function, which is called for each user"},
            start_seconds=round(spawner.start_timeout),
        )
    shapes: dict[str, Shape] = {}
    skipped: dict[str, str] = {}
    refused: dict[str, RefusedChoice] = {}
    # Some choices are derived from devices.
    await spawner._dra.server.devices.latest()
    profiles = _profiles(spawner)
    for slug, options in _choices_of_options(profiles):
        number = _number_of_combinations(options or {})
        if number > _MAX_COMBINATIONS:
            skipped |= skipped_combinations(slug, number)
        most = 1 if number > _MAX_COMBINATIONS else len(options or {})
        for chosen in _choices(options or {}, most):
            name = choice_name(slug, chosen)
            user_options = {"profile": slug, **chosen} if options is not None else {}
            try:
                shapes[name] = await _shape(new_spawner, user_options)
            except NoSingleShape as why:
                skipped[name] = str(why)
            except (Exception, SystemExit) as error:  # code of others must not end the hub
                # The same message as for a user of this choice, who does not read the cause.
                shown = error.__cause__ if isinstance(error, ErrorInHubCode) and error.__cause__ else error
                skipped[name] = str(shown) or type(shown).__name__
                if (found := _refused(error)) is not None:
                    refused[name] = found
                if failure := failure_of_others(error):
                    skipped[name] = f"for a sample user, {failure}"
                    on_failure(name, skipped[name])
            await asyncio.sleep(0)  # let the hub, which is starting, do other work
    prepare = drivers_prepare_for(spawner.drivers_prepare_for)
    return PublishedShapes(
        shapes,
        skipped,
        defaults=_defaults(profiles),
        drivers_prepare_for=prepare,
        start_seconds=round(spawner.start_timeout),
        refused=refused,
        titles=_titles(profiles, shapes),
    )


def _titles(profiles: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, str]:
    """What the form calls the published choices: the profile, and the choice of each option."""
    found = {}
    by_slug = {profile["slug"]: profile for profile in profiles}
    for name in sorted(names, key=is_combination):
        slug, chosen = profile_of(name), options_of(name)
        if (profile := by_slug.get(slug)) is None:
            continue
        parts = [profile.get("display_name") or slug]
        for option, each in (profile.get("profile_options") or {}).items():
            choices = each.get("choices") or {}
            default = next((key for key, choice in choices.items() if choice.get("default")), None)
            if (key := chosen.get(option, default)) in choices:
                parts.append(choices[key].get("display_name") or key)
        # KubeSpawner's form takes names for HTML.
        found[name] = ", ".join(Markup(str(part)).striptags() for part in parts)  # noqa: S704 (it becomes text)
    return found


def _refused(error: BaseException) -> RefusedChoice | None:
    """The key that makes a choice impossible; None if no key is to blame."""
    if isinstance(error, SpawnRefused) and error.path:
        return RefusedChoice(error.path, error.detail)
    cause = error.__cause__
    if isinstance(cause, ProfileError) and not isinstance(cause, AdminAccessRefused):
        problem = cause.problems[0]
        return RefusedChoice(problem.path, f"found {problem.found}; allowed: {problem.allowed}")
    return None


def _profiles(spawner: DRASpawner) -> list[dict[str, Any]]:
    """The profiles, each with its slug and with the defaults of its options."""
    profiles = spawner._get_initialized_profile_list(spawner._sorted_dict_values(spawner.profile_list))
    return list(profiles or ())


def _defaults(profiles: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Default choice by option, by slug of the profile."""
    found = {
        profile["slug"]: {
            option: name
            for option, each in (profile.get("profile_options") or {}).items()
            for name, choice in (each.get("choices") or {}).items()
            if choice.get("default")
        }
        for profile in profiles
    }
    return {slug: defaults for slug, defaults in found.items() if defaults}


def _choices_of_options(
    profiles: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, dict[str, list[str]] | None]]:
    """Slug of each profile, with the choices of its options except defaults; None without profiles."""
    if not profiles:
        yield _NO_PROFILES, None
    for profile in profiles:
        options = profile.get("profile_options") or {}
        yield (
            profile["slug"],
            {
                option: [name for name, choice in (each.get("choices") or {}).items() if not choice.get("default")]
                for option, each in options.items()
            },
        )


def _choices(options: Mapping[str, list[str]], most: int) -> Iterator[dict[str, str]]:
    """Combinations with at most `most` options that differ from their defaults, the smallest first."""
    for count in range(most + 1):
        for names in combinations(options, count):
            for chosen in product(*(options[name] for name in names)):
                yield dict(zip(names, chosen, strict=True))


def _number_of_combinations(options: Mapping[str, list[str]]) -> int:
    """Number of combinations of more than one option."""
    numbers = [len(names) for names in options.values()]
    return prod(1 + number for number in numbers) - sum(numbers) - 1


async def _shape(new_spawner: NewSpawner, options: Mapping[str, str]) -> Shape:
    first, *others = [await _shape_for(new_spawner(user), options) for user in SAMPLE_USERS]
    if any(other.id != first.id for other in others):
        raise NoSingleShape("its shape differs between users")
    return first


async def _shape_for(spawner: DRASpawner, options: Mapping[str, str]) -> Shape:
    """The shape of the pod that a spawner would create."""
    instance: Any = spawner
    # The environment needs an existing user, and is no part of the shape.
    instance.get_env = dict
    start = spawner._dra.start
    start.steps = _STEPS
    spawner.user_options = dict(options)
    await spawner.load_user_options()
    _refuse(start.attempt.plan)
    pod = await spawner.get_pod_manifest()
    objects = start.attempt.objects
    assert objects is not None
    specs = {each["metadata"]["name"]: each["spec"]["spec"] for each in objects.templates.values()}
    shape = shape_of_pod(manifest_of(pod, spawner.api.api_client), specs)
    if shape is None:
        raise NoSingleShape("it uses existing claims or templates")
    return shape


class _NoUserVariables(Step):
    """Replaces the steps that fill in values of each user: a choice that needs one has no single shape."""

    async def load(self) -> None:
        asked = ", ".join(f"{{{name}}}" for name in sorted(self.attempt.variables))
        if asked:
            raise NoSingleShape(f"it has variables that differ between users: {asked}")


class _NoIntelGpus(Step):
    """Replaces `IntelGas`, which pins each server to a node."""

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        if IntelGas.configured(attempt) is not None:
            raise NoSingleShape("intel_gas assigns cards of certain nodes")
        return None


_STEPS: Final = (_NoIntelGpus, Profile, ClusterCheck, _NoUserVariables, DeviceClaims)


def _refuse(plan: ClaimPlan) -> None:
    if plan.fallback is not None:
        raise NoSingleShape("it has optional devices")
    if any(claim.sharing is not None for claim in plan.claims):
        raise NoSingleShape("its servers share a claim")
    if any(claim.claim or claim.template for claim in plan.claims):
        raise NoSingleShape("it uses existing claims or templates")
