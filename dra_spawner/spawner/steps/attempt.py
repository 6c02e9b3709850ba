"""One attempt of a start: what its steps tell each other, and what a step is.

A start has one attempt, or more: without optional devices that are taken, or with a second pod where a node failed the
first one. Each attempt has steps of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from dra_spawner.profiles import ClaimPlan, compile_claims
from dra_spawner.profiles.claim_templates import claim_placeholders, expand_claims
from dra_spawner.profiles.claims import DeviceClaim
from dra_spawner.profiles.extended_resources import EXTENDED_TRAITS
from dra_spawner.profiles.templates import Values
from dra_spawner.spawner.hub_wide import CLEAN_UP_WAIT_SECONDS
from dra_spawner.spawner.objects.start_objects import StartObjects
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.start_messages import StartMessages

__all__ = ["Attempt", "DevicesGone", "FailedPod", "Outcome", "Retry", "Step"]


class DevicesGone(Exception):
    """Raised where the server is to start without its optional devices; the message says so to the user."""


class Outcome(Enum):
    """What is known after the pod's creation was requested."""

    CREATED = auto()
    NOT_CREATED = auto()
    #: No answer came: the pod may be there, or come.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class FailedPod:
    """What the second pod of a start is told of the first one.

    Attributes
    ----------
    sentence
        What became of it, for the user.
    node
        Where that was; empty if it is not known.
    elsewhere
        Whether the second pod must go to another node, since one has room; else it goes there if it can.
    """

    sentence: str
    node: str
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class Retry:
    """Why this is not the first attempt of a start.

    Attributes
    ----------
    goes_without
        Whether the server does without optional devices.
    failed
        The first pod; None if it has not failed.
    """

    goes_without: bool = False
    failed: FailedPod | None = None


class Step:
    """One step of a start: its part in each phase. A part that a step does not have is nothing."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.spawner = attempt.spawner
        self.log = attempt.spawner.log

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step of an attempt; None where the chosen profile does not need it.

        KubeSpawner has applied the profile, and all steps before this one are loaded.

        Raises
        ------
        SpawnRefused
            If the step is configured wrongly.
        """
        return cls(attempt)

    async def load(self) -> None:
        """Read what the chosen profile asks for.

        Raises
        ------
        SpawnRefused
            If the user cannot have that.
        """

    async def change_pod(self, pod: Any) -> None:
        """Change the pod that KubeSpawner made. A ``modify_pod_hook`` comes afterwards."""

    async def prepare_request(self, pod: Any) -> bool:
        """Prepare the creation of the final pod. Runs before each request.

        Returns
        -------
        bool
            Whether the pod can be requested; else this is to be tried again.
        """
        return True

    def requested(self, outcome: Outcome) -> None:
        """Take note of a request for the pod."""

    def undo(self) -> asyncio.Task[None] | None:
        """Begin to give back what this step took, as the attempt has failed. Idempotent.

        Returns
        -------
        asyncio.Task or None
            What the start waits for, for a short time.
        """
        return None

    @classmethod
    def before_stop(cls, spawner: SpawnerSettings) -> Callable[[], Awaitable[object]] | None:
        """Return what is to be done when the server's pod is gone, whichever hub started it.

        Called while the pod is there.
        """
        return None


@dataclass
class Attempt:
    """What the steps of one attempt tell each other.

    Attributes
    ----------
    tasks
        Run beside the start, and end with it; None outside of a start.
    following
        The one among them that never ends by itself.
    claims
        ``device_claims``, parsed; placeholders are not filled in.
    path
        Where they stand, for messages.
    plan
        The claims, compiled.
    objects
        What the attempt creates beside its pod.
    node_is_chosen
        Whether a step sends the pod to a node, so that the service is not asked.
    named_objects
        Names of the templates and claims that the requested pod refers to; None for a pod without devices.
    """

    spawner: SpawnerSettings
    messages: StartMessages
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
    _compiled: tuple[Values, ClaimPlan] | None = None

    def step(self, kind: type[Any]) -> Any:
        """Return the step of a kind; None if it is not there."""
        return next((each for each in self.steps if isinstance(each, kind)), None)

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of the placeholders for which the claims need values."""
        return claim_placeholders(self.claims)

    def compiled(self, values: Values) -> ClaimPlan:
        """Return the claims compiled with these values; the same values are compiled once.

        Raises
        ------
        ProfileError
            Where a value is missing, or none that its name allows.
        """
        if self._compiled is None or self._compiled[0] != values:
            settings = {name: getattr(self.spawner, name) for name in EXTENDED_TRAITS}
            plan = compile_claims(expand_claims(self.claims, values, self.path), settings)
            self._compiled = dict(values), plan
        return self._compiled[1]

    async def load(self, kinds: tuple[type[Step], ...]) -> None:
        """Make the steps that are configured, and load each."""
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
        """Let each step prepare the creation of the pod; whether all are done."""
        for step in self.steps:
            if not await step.prepare_request(pod):
                return False
        return True

    def requested(self, outcome: Outcome) -> None:
        """Tell each step about a request for the pod."""
        for step in self.steps:
            step.requested(outcome)

    async def undo(self) -> None:
        """Give back what the steps took, the last one first; it goes on in the background if that takes long."""
        begun = [step.undo() for step in reversed(self.steps)]
        waits = {task for task in begun if task is not None}
        if waits:
            await asyncio.wait(waits, timeout=CLEAN_UP_WAIT_SECONDS)
