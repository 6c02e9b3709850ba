"""One attempt of a start, and the base class of its steps.

A start has one attempt or more: without optional devices that are unavailable, or with a second pod after a failure on
a node. Each attempt has its own steps.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeVar

from dra_spawner.common.json_types import JsonObject
from dra_spawner.placeholders.planner.targets.node_conditions import refusing_drained_nodes
from dra_spawner.profiles import ClaimPlan, compile_claims
from dra_spawner.profiles.compiler.claim_templates import claim_variables, expand_claims
from dra_spawner.profiles.compiler.claims import DeviceClaim
from dra_spawner.profiles.compiler.extended_resources import EXTENDED_TRAITS
from dra_spawner.profiles.syntax.templates import Values
from dra_spawner.spawner.hub_parts.hub_wide import CLEAN_UP_WAIT_SECONDS
from dra_spawner.spawner.objects.start_objects import StartObjects
from dra_spawner.spawner.placement.service import is_configured
from dra_spawner.spawner.progress.start_messages import StartMessages
from dra_spawner.spawner.progress.start_progress import StartProgress
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.settings import SpawnerSettings

S = TypeVar("S", bound="Step")


class OptionalDevicesUnavailable(Exception):
    """Raised if the server must start without its optional devices; the message is for the user."""


class CreationOutcome(Enum):
    """Result of the request that creates the pod."""

    CREATED = auto()
    NOT_CREATED = auto()
    #: There was no response: the pod may exist, or may still be created.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class FailedPod:
    """The failed first pod of a start.

    Attributes
    ----------
    sentence
        Sentence for the user about the failure.
    node
        Node of the failure; empty if it is not known.
    elsewhere
        Whether the second pod must run on another node, since one has free devices; else it prefers another node.
    """

    sentence: str
    node: str
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class Retry:
    """Changes of an attempt because of earlier attempts of the start.

    Attributes
    ----------
    without_optional_devices
        Whether the server starts without optional devices.
    failed
        The first pod if it has failed; else None.
    """

    without_optional_devices: bool = False
    failed: FailedPod | None = None


class Step:
    """One step of a start, with a method for each phase; by default the methods do nothing."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.server = attempt.server
        self.spawner = attempt.spawner
        self.log = attempt.server.log

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step of an attempt; None if the chosen profile does not need it.

        KubeSpawner has applied the profile, and all steps before this one are loaded.

        Raises
        ------
        SpawnRefused
            If the step is misconfigured.
        """
        return cls(attempt)

    async def load(self) -> None:
        """Read the settings of the chosen profile.

        Raises
        ------
        SpawnRefused
            If the user cannot have this choice.
        """

    async def change_pod(self, pod: Any) -> None:
        """Change the pod that KubeSpawner has built. A ``modify_pod_hook`` runs afterwards."""

    async def prepare_request(self, pod: Any) -> bool:
        """Prepare the creation of the final pod. Runs before each request.

        Returns
        -------
        bool
            Whether the pod can be requested; if not, KubeSpawner calls it again.
        """
        return True

    def requested(self, outcome: CreationOutcome) -> None:
        """Record the result of the request that creates the pod."""

    def undo(self) -> asyncio.Task[None] | None:
        """Begin to undo the step after a failed attempt. Idempotent.

        Returns
        -------
        asyncio.Task or None
            Task that the start waits for, for a short time.
        """
        return None

    @classmethod
    def before_stop(cls, attempt: Attempt) -> Callable[[], Awaitable[object]] | None:
        """Return a clean-up to run when the server's pod is gone; None if there is none.

        It is called while the pod exists. An earlier process of the hub may have started the pod; then the attempt has
        no steps.
        """
        return None


@dataclass
class Attempt:
    """Data that the steps of one attempt share.

    Attributes
    ----------
    progress
        What the steps publish for the user's pages.
    tasks
        Task group that ends with the start; None outside of a start.
    following
        The task in it that ends with the start.
    claims
        Parsed ``device_claims``; template variables are not filled in.
    path
        Path of the claims, for messages.
    plan
        The compiled claims; set by `use`.
    objects
        Objects that the attempt creates in addition to its pod.
    node_is_chosen
        Whether a step chooses the node, so that the service is not asked.
    named_objects
        Names of the templates and claims that the requested pod refers to; None for a pod without devices.
    terminating
        Which shared object is being deleted, so that the pod cannot be requested yet; empty if none is.
    """

    server: ServerContext
    progress: StartProgress
    retry: Retry = field(default_factory=Retry)
    tasks: asyncio.TaskGroup | None = None
    following: asyncio.Task[None] | None = None
    steps: list[Step] = field(default_factory=list)
    claims: tuple[DeviceClaim, ...] = ()
    path: str = "device_claims"
    values: dict[str, str | int] = field(default_factory=dict)
    plan: ClaimPlan = field(default_factory=ClaimPlan)
    objects: StartObjects | None = None
    node_is_chosen: bool = False
    named_objects: set[str] | None = None
    terminating: str = ""
    _compiled: tuple[Values, ClaimPlan] | None = None

    @property
    def spawner(self) -> SpawnerSettings:
        """The server's spawner."""
        return self.server.spawner

    @property
    def messages(self) -> StartMessages:
        """Messages of the progress page."""
        return self.progress.messages

    def use(self, plan: ClaimPlan) -> None:
        """Start the server with these claims."""
        self.plan, self.progress.specs = plan, plan.specs

    def step(self, kind: type[S]) -> S | None:
        """Return the step of a kind; None if the attempt has none."""
        return next((each for each in self.steps if isinstance(each, kind)), None)

    def refusing_drained_nodes(self, affinity: JsonObject) -> JsonObject:
        """The affinity, which also refuses nodes that a person drains, whether or not the service answers now.

        Each pod has another mark. Without a service nobody drains nodes.
        """
        has_service = is_configured(self.spawner.placeholder_service)
        return refusing_drained_nodes(affinity, secrets.token_hex(5)) if has_service else affinity

    @property
    def variables(self) -> frozenset[str]:
        """Names of the template variables that the claims use."""
        return claim_variables(self.claims)

    def compiled(self, values: Values) -> ClaimPlan:
        """Return the claims compiled with these values; the result for the last values is cached.

        Raises
        ------
        ProfileError
            If a value is missing or invalid.
        """
        if self._compiled is None or self._compiled[0] != values:
            settings = {name: getattr(self.spawner, name) for name in EXTENDED_TRAITS}
            plan = compile_claims(expand_claims(self.claims, values, self.path), settings)
            self._compiled = dict(values), plan
        return self._compiled[1]

    async def load(self, kinds: tuple[type[Step], ...]) -> None:
        """Create the steps that the profile needs, and load each."""
        for kind in kinds:
            step = kind.configured(self)
            if step is not None:
                self.steps.append(step)
                await step.load()

    async def change_pod(self, pod: Any) -> None:
        """Let each step change the pod."""
        for step in self.steps:
            await step.change_pod(pod)

    async def prepare_request(self, pod: Any) -> bool:
        """Let each step prepare the creation of the pod; return whether all are ready."""
        for step in self.steps:
            if not await step.prepare_request(pod):
                return False
        return True

    def requested(self, outcome: CreationOutcome) -> None:
        """Notify each step of the result of the request that creates the pod."""
        for step in self.steps:
            step.requested(outcome)

    async def undo(self, wait_seconds: float = CLEAN_UP_WAIT_SECONDS) -> None:
        """Undo the steps in the reverse order; after a short wait this continues in the background."""
        begun = [step.undo() for step in reversed(self.steps)]
        waits = {task for task in begun if task is not None}
        if waits:
            await asyncio.wait(waits, timeout=wait_seconds)
