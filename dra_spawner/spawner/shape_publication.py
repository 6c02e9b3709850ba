"""What servers of each choice need of a node, published for the service beside the hub.

Made by the very steps of a start, for a user that does not exist; so a placeholder cannot differ from the server that
takes it over. A choice that differs between users has no one shape, and is left out with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dra_spawner.cluster.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.cluster.api_objects import MANAGED_BY
from dra_spawner.cluster.connect import own_namespace
from dra_spawner.headroom.published_shapes import CONFIG_MAP, PublishedShapes, published_config_map
from dra_spawner.headroom.shapes import Shape
from dra_spawner.profiles.claim_plan import ClaimPlan
from dra_spawner.profiles.claim_templates import claim_placeholders
from dra_spawner.profiles.claims import DeviceClaim
from dra_spawner.spawner.placed_pod import manifest_of, shape_of_pod
from dra_spawner.spawner.spawner import DRASpawner

__all__ = ["NOBODIES", "Nobody", "ShapePublication", "published_shapes"]

#: Devices may come later, and with them choices.
_AGAIN_SECONDS: Final = 300.0
_FIRST_WAIT_SECONDS: Final = 1.0
#: Name of what is published where a hub has no profiles.
_NO_PROFILES: Final = "default"


@dataclass(frozen=True, slots=True)
class Nobody:
    """A user that does not exist."""

    name: str
    id: int


#: What differs between these differs between users.
NOBODIES: Final = (Nobody("nobody", 1), Nobody("anybody-else", 2))

NewSpawner = Callable[[Nobody], DRASpawner]


class _HasNone(Exception):
    """A choice that has no one shape; the message says why."""


class ShapePublication:
    """Publishes the shapes of all choices when the hub starts, and again when they have changed.

    Parameters
    ----------
    new_spawner
        A new spawner of a user, as the hub configures it.
    """

    #: Kept so that they are not garbage-collected.
    _running: ClassVar[set[asyncio.Task[None]]] = set()

    def __init__(self, new_spawner: NewSpawner) -> None:
        self._new_spawner = new_spawner
        spawner = new_spawner(NOBODIES[0])
        self._log = spawner.log
        self._api = KubernetesApi(spawner.api.api_client, timeout_seconds=spawner.k8s_api_request_timeout)
        # Where the hub is. One that is in no pod is at home where its servers are.
        self._namespace = own_namespace(
            default=spawner._namespace_default() if spawner.enable_user_namespaces else spawner.namespace
        )
        self._told = ""
        if spawner.modify_pod_hook is not None:
            self._log.info(
                "Servers whose requests or nodes modify_pod_hook changes take over no placeholder: it is not called "
                "when the shapes of profiles are published"
            )

    def begin(self) -> None:
        """Publish in the background."""
        task = asyncio.create_task(self.run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def run(self) -> None:
        """Publish for ever; whatever goes wrong is logged, once."""
        wait = _FIRST_WAIT_SECONDS
        while True:
            try:
                await self.publish(await published_shapes(self._new_spawner))
                wait, self._told = _AGAIN_SECONDS, ""
            except KubernetesError as error:
                self._tell(_problem(error))
                wait = _AGAIN_SECONDS if error.status == 403 else min(2 * wait, _AGAIN_SECONDS)
            except Exception:
                self._log.exception("The shapes of profiles are not published")
                wait = _AGAIN_SECONDS
            await asyncio.sleep(wait)

    async def publish(self, published: PublishedShapes) -> bool:
        """Write the ConfigMap, if it does not say so already; whether it was written.

        Raises
        ------
        KubernetesError
        """
        wanted = published_config_map(published, self._namespace, MANAGED_BY)
        path = resource_path("v1", "configmaps", self._namespace)
        try:
            there = await self._api.get(f"{path}/{CONFIG_MAP}")
        except KubernetesError as error:
            if not error.not_found:
                raise
            await self._api.create(path, wanted)
        else:
            if there.get("data") == wanted["data"]:
                return False
            version = there["metadata"]["resourceVersion"]
            await self._api.replace(
                f"{path}/{CONFIG_MAP}", {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
            )
        self._log.info(
            "Published the shapes of profiles: shapes=%d skipped=%d", len(published.shapes), len(published.skipped)
        )
        return True

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._log.warning(
                "The shapes of profiles are not published, so nothing is kept ready for them: %s", problem
            )
        self._told = problem


def _problem(error: KubernetesError) -> str:
    if error.status != 403:
        return str(error)
    named = "" if error.verb == "create" else f"resourceNames: [{CONFIG_MAP}], "
    verb = {"replace": "update"}.get(error.verb, error.verb)
    rule = f'apiGroups: [""], resources: [configmaps], {named}verbs: [{verb}]'
    return f"the hub's Role lacks the rule {rule} (helm-values/rbac.yaml)"


async def published_shapes(new_spawner: NewSpawner) -> PublishedShapes:
    """The shapes of all choices of a hub's profiles.

    Choices are the profiles with the defaults of their options, and each choice of an option that is no default beside
    the others' defaults.
    """
    spawner = new_spawner(NOBODIES[0])
    if callable(spawner.profile_list):
        return PublishedShapes({}, {"profile_list": "the list of profiles is a function, which is asked for each user"})
    shapes: dict[str, Shape] = {}
    skipped: dict[str, str] = {}
    # Some choices are made from what devices give.
    await spawner._learn_devices()
    for name, options in _choices(spawner):
        try:
            shapes[name] = await _shape(new_spawner, options)
        except _HasNone as why:
            skipped[name] = str(why)
        except Exception as error:
            # As a user would be told, who chooses it.
            skipped[name] = str(error) or type(error).__name__
        await asyncio.sleep(0)  # a hub that starts has other things to do
    return PublishedShapes(shapes, skipped)


def _choices(spawner: DRASpawner) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and user options of each choice."""
    profiles = spawner._get_initialized_profile_list(spawner._sorted_dict_values(spawner.profile_list))
    if not profiles:
        yield _NO_PROFILES, {}
    for profile in profiles or ():
        slug = profile["slug"]
        yield slug, {"profile": slug}
        for option, each in (profile.get("profile_options") or {}).items():
            for name, choice in (each.get("choices") or {}).items():
                if not choice.get("default"):
                    yield f"{slug}/{option}={name}", {"profile": slug, option: name}


async def _shape(new_spawner: NewSpawner, options: Mapping[str, str]) -> Shape:
    first, *others = [await _shape_for(new_spawner(nobody), options) for nobody in NOBODIES]
    if any(other.id != first.id for other in others):
        raise _HasNone("what it asks for differs between users")
    return first


async def _shape_for(spawner: DRASpawner, options: Mapping[str, str]) -> Shape:
    """The shape of what a spawner would start, up to the pod that it would create."""
    instance: Any = spawner
    # Nothing of what follows depends on the environment, and nobody has none.
    instance.get_env = dict
    instance.fill_placeholders = _no_values
    spawner.user_options = dict(options)
    await spawner.load_user_options()
    if spawner._gpu_wish is not None:
        raise _HasNone("intel_gas gives its servers cards of certain nodes")
    _refuse(spawner._plan)
    pod = await spawner.get_pod_manifest()
    objects = spawner._start_objects
    assert objects is not None
    specs = {each["metadata"]["name"]: each["spec"]["spec"] for each in objects.templates.values()}
    shape = shape_of_pod(manifest_of(pod, spawner.api.api_client), specs)
    if shape is None:
        raise _HasNone("its claims are made by others")
    return shape


async def _no_values(claims: tuple[DeviceClaim, ...], path: str) -> tuple[DeviceClaim, ...]:
    names = sorted(claim_placeholders(claims))
    if names:
        asked = ", ".join(f"{{{name}}}" for name in names)
        raise _HasNone(f"it is filled in for each user: {asked}")
    return claims


def _refuse(plan: ClaimPlan) -> None:
    if plan.fallback is not None:
        raise _HasNone("it has devices that its servers can do without")
    if any(claim.sharing is not None for claim in plan.claims):
        raise _HasNone("its servers share a claim")
    if any(claim.claim or claim.template for claim in plan.claims):
        raise _HasNone("its claims are made by others")
