"""The start of a server: its attempts, the clean-up after a failure, and the stop.

In a start, KubeSpawner applies the chosen profile. Each step of `STEPS` that the profile needs is loaded, changes the
pod, and prepares its creation. After an error the steps are undone in the reverse order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.kube.pod_ends import is_stopped_with_start
from dra_spawner.spawner.clean_up import begin_sweeping
from dra_spawner.spawner.home_page import HomePage
from dra_spawner.spawner.hub_parts.hub_wide import CLEAN_UP_WAIT_SECONDS
from dra_spawner.spawner.objects.start_objects import StartObjects
from dra_spawner.spawner.progress.durations import clean_up_seconds, kubespawner_may_give_up
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.spawn_form import SpawnForm
from dra_spawner.spawner.spawn_refusal import (
    ErrorInHubCode,
    RefusalReason,
    SpawnRefused,
    count_as_refusal,
    count_failed_start,
    explain_missing_answer,
    is_for_users,
    log_refusal,
    most_informative_error,
    refusal_of_error,
)
from dra_spawner.spawner.start_page import StartPage
from dra_spawner.spawner.steps import STEPS, Attempt, CreationOutcome, Retry, Step
from dra_spawner.spawner.steps.attempt import OptionalDevicesUnavailable
from dra_spawner.spawner.steps.pod_failures import PodCannotRun
from dra_spawner.spawner.steps.pod_watch import PodWatch, pod_of
from dra_spawner.spawner.steps.second_pod import plan_second_pod

#: Seconds between checks of the reflector for a terminating pod; they make no requests.
_POD_LOOK_SECONDS = 0.1
#: Seconds that a cancelled start waits for its clean-up: JupyterHub stops the server a second after it has cancelled.
_CANCELLED_WAIT_SECONDS = 0.5
#: Seconds for the graceful deletion of the first pod, whose node or driver may not respond.
_GRACEFUL_SECONDS = 15.0


class ServerStart:
    """The running or last start of a server. Each method wraps the one of KubeSpawner that it is given.

    Attributes
    ----------
    steps
        Kinds of steps, in their order.
    attempt
        The running or last attempt.
    stops
        Number of stops: in a start KubeSpawner stops an older pod, and in a poll one that has ended.
    stop_is_due
        Whether ``stop`` must still be called for a failed start, whose pod was removed already.
    has_failed
        Whether the server that is stopped is one whose start has failed so.
    """

    def __init__(self, server: ServerContext, form: SpawnForm, page: StartPage, home: HomePage) -> None:
        self._server = server
        self._spawner = server.spawner
        self._form = form
        self._page = page
        self._home = home
        self.steps: tuple[type[Step], ...] = STEPS
        self.attempt = Attempt(server, page.progress)
        self.stops = 0
        self.stop_is_due = self.has_failed = False
        self._retry = Retry()
        self._ends = 0.0
        self._has_looked_instead = False
        self._tasks: asyncio.TaskGroup | None = None
        #: Whether a pod with devices was created in this start, and not stopped since.
        self._pod_was_created = False

    # The phases of an attempt

    async def load(self, apply_options: Callable[[], Awaitable[None]]) -> None:
        """Apply the chosen profile, and load its steps; refuse a choice that can never work.

        Raises
        ------
        SpawnRefused
            With a sentence for the user. An HTTPError of the hub's own code passes unchanged.
        """
        await self._form.learn_devices_of_choices()
        self._page.progress.begin_attempt()
        self.attempt = Attempt(self._server, self._page.progress, self._retry, self._tasks)
        await self._take_instead()
        try:
            await apply_options()
        except Exception as error:
            if is_for_users(error):
                raise
            # A function of the hub's own, an invalid profile, or overrides that do not merge.
            self._server.log.exception("Profile cannot be applied")
            raise ErrorInHubCode from error
        await self.attempt.load(self.steps)

    async def _take_instead(self) -> None:
        """Take another choice than the user's, once in a start, if that is not free and the administrator lets it."""
        if self._has_looked_instead or self._tasks is None or not self._may_take_instead():
            return
        self._has_looked_instead = True
        from dra_spawner.spawner.instead_choice import taken_instead  # few hubs take another choice

        try:
            found = await taken_instead(self._server, self._form.availability)
        except Exception as error:  # whatever profiles there are: the start goes on with the user's choice
            if not is_for_users(error):  # else the same function refuses this start in a moment
                self._server.log.exception("No other choice can be taken: pod=%s", self._spawner.pod_name)
            return
        if found is not None:
            self._server.log.info("Another choice is taken: pod=%s %s", self._spawner.pod_name, found.sentence)
            self._server.replace_options(found.options)
            self._page.progress.messages.took_instead(found.sentence, found.lasting)

    def _may_take_instead(self) -> bool:
        """Whether a profile may say so; most hubs' profiles do not name the setting."""
        spawner = self._spawner
        if callable(spawner.profile_list) or spawner.take_instead:
            return True
        return "take_instead" in repr(self._server.configured_profiles)

    async def pod_manifest(self, build: Callable[[], Awaitable[Any]]) -> Any:
        """Return KubeSpawner's pod, changed by the steps."""
        try:
            pod = await build()
        except (TimeoutError, aiohttp.ClientError, ApiException) as error:
            # Of a function of the hub's own, such as `uid`: KubeSpawner makes no request here.
            self._server.log.exception("A setting of the pod cannot be found")
            raise ErrorInHubCode from error
        if self._server.is_trial:
            pod.metadata.labels = {**(pod.metadata.labels or {}), names.TRIAL: names.TRUE}
        await self.attempt.change_pod(pod)
        return pod

    async def request_pod(self, pod: Any, request: Callable[[], Awaitable[bool]]) -> bool:
        """Create the objects that the final pod needs, then the pod. KubeSpawner calls it for each try."""
        attempt, stops, outcome = self.attempt, self.stops, CreationOutcome.UNKNOWN
        self._refuse_pod_without_devices()
        if not await attempt.prepare_request(pod):
            return False
        try:
            if await request():
                outcome = CreationOutcome.CREATED
                self._pod_was_created = attempt.named_objects is not None
            elif stops != self.stops:
                outcome = CreationOutcome.NOT_CREATED  # KubeSpawner has stopped another pod of that name
        except ApiException as error:
            if error.status is not None and error.status < 500:
                outcome = CreationOutcome.NOT_CREATED
            raise
        except aiohttp.ClientError as error:
            if attempt.named_objects is None:
                raise
            self._server.log.warning("No answer whether the pod was created, trying again: %s", error)
        finally:
            attempt.requested(outcome)
        return outcome is CreationOutcome.CREATED

    def _refuse_pod_without_devices(self) -> None:
        """Refuse a pod that lacks its devices, as a hub's class has replaced a method that adds them."""
        if not self._spawner.device_claims or self.attempt.objects is not None:
            return
        method = "get_pod_manifest" if self.attempt.steps else "load_user_options"
        owner = next(each.__name__ for each in type(self._spawner).__mro__ if method in vars(each))
        self._server.log.error(
            "Spawn refused, the pod would have no devices: %s.%s must call super().%s()", owner, method, method
        )
        sentence = "This server would start without its devices. Please tell your administrator."
        raise SpawnRefused(sentence, RefusalReason.PROFILE)

    # Start and stop

    async def run(self, start: Callable[[], Awaitable[Any]]) -> str:
        """Start the pod within ``start_timeout``; remove all its objects if that fails."""
        spawner = self._spawner
        self._retry = Retry()
        self._pod_was_created = self.stop_is_due = self.has_failed = self._has_looked_instead = False
        progress = self._page.begin()
        self._home.record_start(progress)
        self.attempt = Attempt(self._server, progress)
        begin_sweeps(self._server)
        # JupyterHub cancels at start_timeout without a message, so this ends a little earlier, with the reason.
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._ends = began + spawner.start_timeout - clean_up_seconds(spawner.start_timeout)
        deadline = asyncio.timeout_at(self._ends)
        try:
            async with deadline:
                url = await self._run_with_second_attempts(start)
                from dra_spawner.spawner.hub_parts import open_port  # when the first server runs

                await open_port.until_it_listens(spawner, url, self._ends - loop.time())
                explain_missing_answer(spawner, is_counted=not self._server.is_trial)
                self._home.record_place(progress, self._telling_of_place())
                return url
        except BaseException as error:
            # KubeSpawner raises the same type of error if a request of its own is not answered, but not so late.
            is_late = deadline.expired() or (
                isinstance(error, TimeoutError) and kubespawner_may_give_up(loop.time() - began, spawner.start_timeout)
            )
            waiting_for = progress.waiting_for
            # Beside the clean-up, as JupyterHub cancels both soon.
            free = self._page.begin_search_for_free(self._form) if is_late and waiting_for else None
            self.stop_is_due = self._would_be_stopped()
            is_cancelled = isinstance(error, asyncio.CancelledError) and not is_late
            # If JupyterHub cancels meanwhile, the clean-up goes on, and the user still reads why the start has failed.
            with contextlib.suppress(asyncio.CancelledError):
                await self.attempt.undo(_CANCELLED_WAIT_SECONDS if is_cancelled else CLEAN_UP_WAIT_SECONDS)
            late = spawner.start_timeout if is_late else None
            refusal = refusal_of_error(
                error, waiting_for, late, self._server.log, self.attempt.terminating, progress.held_back
            )
            if not self._server.is_trial:
                count_failed_start(refusal)
            if isinstance(refusal, SpawnRefused):
                count_as_refusal(spawner)
                log_refusal(self._server.log, spawner.user.name, spawner.name, refusal)
                self._home.record_failure(str(refusal))
                await self._page.explain_failure(refusal, free, began + spawner.start_timeout)
            if refusal is error:
                raise
            raise refusal from error

    def _telling_of_place(self) -> asyncio.Task[None] | None:
        watch = self.attempt.step(PodWatch)
        return watch.tell_place() if watch is not None and self.attempt.named_objects else None

    async def _run_with_second_attempts(self, start: Callable[[], Awaitable[Any]]) -> str:
        """Start the pod; again without unavailable optional devices, and once more after a failure on its node."""
        while True:
            try:
                return await self._run_once(start)
            except OptionalDevicesUnavailable as gone:
                self.attempt.messages.notify(str(gone))
                self._retry = replace(self._retry, without_optional_devices=True)
                await self._remove_attempt()
            except PodCannotRun as found:
                failed = await plan_second_pod(self.attempt, found, self._ends)
                self._retry = replace(self._retry, failed=failed)
                await self._end_failed_pod()

    async def _run_once(self, start: Callable[[], Awaitable[Any]]) -> str:
        self._page.progress.messages.lost_place()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                url = await start()
                if self.attempt.following is not None:
                    self.attempt.following.cancel()
        except BaseExceptionGroup as group:
            raise most_informative_error(group) from group
        finally:
            self._tasks = None
        return str(url)

    async def _end_failed_pod(self) -> None:
        """Remove this attempt's objects, and wait until its pod is gone, as the next pod has the same name."""
        objects = self.attempt.objects
        if objects is None:
            return
        spawner = self._spawner
        try:
            async with asyncio.timeout(_GRACEFUL_SECONDS):
                # Not by force, as that removes the pod before its devices are released: the next pod would fail in the
                # same way, and other pods would get the device too early.
                await objects.end_pod(spawner.pod_name, spawner.delete_grace_period)
                await self._until_gone(objects)
        except (KubernetesError, TimeoutError) as error:
            self._server.log.warning(
                "The pod does not end, so it is removed by force: pod=%s %r", spawner.pod_name, error
            )
        await self._remove_attempt()

    async def _remove_attempt(self) -> None:
        """Remove this attempt's objects by force, and wait until its pod is gone."""
        objects = self.attempt.objects
        await self.attempt.undo()
        if objects is not None:
            await self._until_gone(objects)

    async def _until_gone(self, objects: StartObjects) -> None:
        while pod_of(self._server, objects) is not None:  # noqa: ASYNC110 - the reflector has no event
            await asyncio.sleep(_POD_LOOK_SECONDS)

    def _would_be_stopped(self) -> bool:
        """Whether JupyterHub would stop a failed start's pod of KubeSpawner, which nothing else removes."""
        objects = self.attempt.objects
        pod = pod_of(self._server, objects) if objects is not None else None
        if pod is not None:
            return is_stopped_with_start(pod, delete_stopped_pods=self._spawner.delete_stopped_pods)
        # A pod that was seen and is gone was deleted by others.
        return self._pod_was_created and not self.attempt.progress.pod

    async def stop(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Stop the pod, and undo its steps."""
        self.stops += 1
        self.has_failed = self.stop_is_due
        self._pod_was_created = self.stop_is_due = False
        # During a start KubeSpawner also stops an older pod; then the new start's objects must stay.
        is_starting = self._tasks is not None
        clean_ups = [] if is_starting else [kind.before_stop(self.attempt) for kind in reversed(self.steps)]
        await stop()
        for clean_up in clean_ups:
            if clean_up is not None:
                await clean_up()


def begin_sweeps(server: ServerContext) -> None:
    """Begin the sweeps in the background, once for the hub or for its namespace."""
    if server.spawner.vlans:
        # Imported here, as few hubs have VLANs.
        from dra_spawner.spawner.steps.vlan import begin_sweeping_vlans

        begin_sweeping_vlans(server)
    begin_sweeping(server)
