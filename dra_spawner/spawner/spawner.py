"""DRASpawner: KubeSpawner with the devices of a profile.

In a start, KubeSpawner applies the chosen profile. Each step of `STEPS` that the profile needs is loaded, changes the
pod, and prepares its creation. After an error the steps are undone in the reverse order.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any, ClassVar

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException

from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.kube.pod_ends import is_stopped_with_start
from dra_spawner.spawner.clean_up import begin_sweeping
from dra_spawner.spawner.hub_parts.hub_wide import CLEAN_UP_WAIT_SECONDS
from dra_spawner.spawner.objects.start_objects import StartObjects, utc_now
from dra_spawner.spawner.progress.durations import clean_up_seconds, kubespawner_may_give_up
from dra_spawner.spawner.progress.idle_servers import idle_seconds, idle_sentence
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.start_messages import StartMessages
from dra_spawner.spawner.spawn_refusal import (
    ErrorInHubCode,
    RefusalReason,
    SpawnRefused,
    count_as_refusal,
    is_for_users,
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


class DRASpawner(StartPage):
    """Spawns JupyterHub servers in pods that get devices, or shares of devices, by Dynamic Resource Allocation."""

    steps: ClassVar[tuple[type[Step], ...]] = STEPS

    _retry = Retry()
    _start_ends = 0.0
    _tasks: asyncio.TaskGroup | None = None
    #: Whether a pod with devices was created in this start, and not stopped since.
    _pod_was_created = False
    #: Whether a server that nobody uses is being stopped.
    _is_stopping_idle = False
    #: Whether `stop` must still be called for a failed start, whose pod this class has removed itself.
    _stop_is_due = False

    # The phases of an attempt

    async def load_user_options(self) -> None:
        """Apply the chosen profile, and load its steps; refuse a choice that can never work.

        Raises
        ------
        SpawnRefused
            With a sentence for the user. An HTTPError of the hub's own code passes unchanged.
        """
        await self.learn_devices_of_choices()
        self.attempt = Attempt(self, self.messages, self._retry, self._tasks)
        try:
            await super().load_user_options()
        except Exception as error:
            if is_for_users(error):
                raise
            # A function of the hub's own, an invalid profile, or overrides that do not merge.
            self.log.exception("Profile cannot be applied")
            raise ErrorInHubCode from error
        await self.attempt.load(self.steps)

    async def get_pod_manifest(self) -> Any:
        """Return KubeSpawner's pod, changed by the steps."""
        try:
            pod = await super().get_pod_manifest()
        except (TimeoutError, aiohttp.ClientError, ApiException) as error:
            # Of a function of the hub's own, such as `uid`: KubeSpawner makes no request here.
            self.log.exception("A setting of the pod cannot be found")
            raise ErrorInHubCode from error
        await self.attempt.change_pod(pod)
        return pod

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        """Create the objects that the final pod needs, then the pod. KubeSpawner calls it for each try."""
        attempt, stops, outcome = self.attempt, self._stops, CreationOutcome.UNKNOWN
        self._refuse_pod_without_devices()
        if not await attempt.prepare_request(pod):
            return False
        try:
            if await super()._make_create_pod_request(pod, request_timeout):
                outcome = CreationOutcome.CREATED
                self._pod_was_created = attempt.named_objects is not None
            elif stops != self._stops:
                outcome = CreationOutcome.NOT_CREATED  # KubeSpawner has stopped another pod of that name
        except ApiException as error:
            if error.status is not None and error.status < 500:
                outcome = CreationOutcome.NOT_CREATED
            raise
        except aiohttp.ClientError as error:
            if attempt.named_objects is None:
                raise
            self.log.warning("No answer whether the pod was created, trying again: %s", error)
        finally:
            attempt.requested(outcome)
        return outcome is CreationOutcome.CREATED

    def _refuse_pod_without_devices(self) -> None:
        """Refuse a pod that lacks its devices, as a hub's class has replaced a method that adds them."""
        if not self.device_claims or self.attempt.objects is not None:
            return
        method = "get_pod_manifest" if self.attempt.steps else "load_user_options"
        owner = next(each.__name__ for each in type(self).__mro__ if method in vars(each))
        self.log.error(
            "Spawn refused, the pod would have no devices: %s.%s must call super().%s()", owner, method, method
        )
        sentence = "This server would start without its devices. Please tell your administrator."
        raise SpawnRefused(sentence, RefusalReason.PROFILE)

    # Start and stop

    async def _start(self) -> str:
        """Start the pod within ``start_timeout``; remove all its objects if that fails."""
        self._retry = Retry()
        self._pod_was_created = self._stop_is_due = False
        self.record_start()
        self.messages = StartMessages(self.namespace, self.pod_name)
        self.attempt = Attempt(self, self.messages)
        self.begin_sweeping()
        # JupyterHub cancels at start_timeout without a message, so this ends a little earlier, with the reason.
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._start_ends = began + self.start_timeout - clean_up_seconds(self.start_timeout)
        deadline = asyncio.timeout_at(self._start_ends)
        try:
            async with deadline:
                url = await self._start_with_second_attempts()
                self.record_place()
                return url
        except BaseException as error:
            # KubeSpawner raises the same type of error if a request of its own is not answered, but not so late.
            is_late = deadline.expired() or (
                isinstance(error, TimeoutError) and kubespawner_may_give_up(loop.time() - began, self.start_timeout)
            )
            watch = self.attempt.step(PodWatch)
            waiting_for = watch.waiting_for if watch is not None else ""
            # Beside the clean-up, as JupyterHub cancels both soon.
            smaller = self.begin_search_for_smaller() if is_late and waiting_for else None
            self._stop_is_due = self._would_be_stopped()
            is_cancelled = isinstance(error, asyncio.CancelledError) and not is_late
            # If JupyterHub cancels meanwhile, the clean-up goes on, and the user still reads why the start has failed.
            with contextlib.suppress(asyncio.CancelledError):
                await self.attempt.undo(_CANCELLED_WAIT_SECONDS if is_cancelled else CLEAN_UP_WAIT_SECONDS)
            late = self.start_timeout if is_late else None
            refusal = refusal_of_error(error, waiting_for, late, self.log, self.attempt.terminating)
            if isinstance(refusal, SpawnRefused):
                count_as_refusal(self)
                await self.explain_failure(refusal, smaller, began + self.start_timeout)
            if refusal is error:
                raise
            raise refusal from error

    async def _start_with_second_attempts(self) -> str:
        """Start the pod; again without unavailable optional devices, and once more after a failure on its node."""
        while True:
            try:
                return await self._start_once()
            except OptionalDevicesUnavailable as gone:
                self.messages.notify(str(gone))
                self._retry = replace(self._retry, without_optional_devices=True)
                await self._remove_attempt()
            except PodCannotRun as found:
                failed = await plan_second_pod(self.attempt, found, self._start_ends)
                self._retry = replace(self._retry, failed=failed)
                await self._end_failed_pod()

    async def _start_once(self) -> str:
        self.messages.lost_place()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                url = await super()._start()
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
        try:
            async with asyncio.timeout(_GRACEFUL_SECONDS):
                # Not by force, as that removes the pod before its devices are released: the next pod would fail in the
                # same way, and other pods would get the device too early.
                await objects.end_pod(self.pod_name, self.delete_grace_period)
                await self._until_gone(objects)
        except (KubernetesError, TimeoutError) as error:
            self.log.warning("The pod does not end, so it is removed by force: pod=%s %r", self.pod_name, error)
        await self._remove_attempt()

    async def _remove_attempt(self) -> None:
        """Remove this attempt's objects by force, and wait until its pod is gone."""
        objects = self.attempt.objects
        await self.attempt.undo()
        if objects is not None:
            await self._until_gone(objects)

    async def _until_gone(self, objects: StartObjects) -> None:
        while pod_of(self, objects) is not None:  # noqa: ASYNC110 - the reflector has no event
            await asyncio.sleep(_POD_LOOK_SECONDS)

    def _would_be_stopped(self) -> bool:
        """Whether JupyterHub would stop a failed start's pod of KubeSpawner, which nothing else removes."""
        objects = self.attempt.objects
        pod = pod_of(self, objects) if objects is not None and self.pod_reflector is not None else None
        if pod is not None:
            return is_stopped_with_start(pod, delete_stopped_pods=self.delete_stopped_pods)
        watch = self.attempt.step(PodWatch)
        # A pod that was seen and is gone was deleted by others.
        return self._pod_was_created and not (watch is not None and watch.seen)

    async def poll(self) -> int | None:
        """Return None while the server runs, else its exit code.

        A failed start counts as running until `stop` was called. JupyterHub calls `stop` only for servers that run; a
        hub's own class may remove there what it has made in its ``start``.
        """
        if self._stop_is_due:
            return None
        status = await super().poll()
        return await self._stop_if_idle() if status is None else status

    async def _stop_if_idle(self) -> int | None:
        """Stop a running server with devices that nobody uses, as `poll` notices servers that have ended."""
        limit = self.idle_timeout()
        if not limit or not self.ready or self._is_stopping_idle or not self.has_devices():
            return None
        seconds = idle_seconds(self.orm_spawner.last_activity, self.orm_spawner.started, utc_now().replace(tzinfo=None))
        if seconds < limit:
            return None
        self.log.info("A server with devices is stopped, as it is idle: pod=%s seconds=%d", self.pod_name, seconds)
        self._is_stopping_idle = True
        try:
            await self.stop()
        except Exception:  # the next poll tries again
            self.log.exception("An idle server could not be stopped: pod=%s", self.pod_name)
            return None
        finally:
            self._is_stopping_idle = False
        self.record = ServerRecord.of_end(idle_sentence(limit))
        return 0

    def clear_state(self) -> None:
        """Forget the last start."""
        super().clear_state()
        self._stop_is_due = False

    async def stop(self, now: bool = False) -> None:
        """Stop the pod, and undo its steps."""
        self._stops += 1
        self._pod_was_created = self._stop_is_due = False
        # During a start KubeSpawner also stops an older pod; then the new start's objects must stay.
        is_starting = self._tasks is not None
        clean_ups = [] if is_starting else [kind.before_stop(self) for kind in reversed(self.steps)]
        await super().stop(now)
        for clean_up in clean_ups:
            if clean_up is not None:
                await clean_up()

    # Once in a hub

    def begin_sweeping(self) -> None:
        """Begin the sweep in the background, once for the hub or for its namespace."""
        if self.vlans:
            # Imported here, as few hubs have VLANs.
            from dra_spawner.spawner.steps.vlan import begin_sweeping_vlans

            begin_sweeping_vlans(self)
        begin_sweeping(self)
