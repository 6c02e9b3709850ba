"""DRASpawner: KubeSpawner, and the devices that a profile asks for.

The way of one start: ``load_user_options`` compiles the chosen profile to a `ClaimPlan`; ``get_pod_manifest`` names
its templates in the pod; ``_make_create_pod_request`` creates them before the pod; the pod becomes their owner; and
whatever goes wrong in between, ``_start`` leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, ClassVar

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException
from kubespawner.slugs import is_valid_label, safe_slug
from traitlets import Integer

from dra_spawner import names
from dra_spawner.kube.api import KubernetesApi, KubernetesError
from dra_spawner.spawner.clean_up import BackgroundRemoval, Sweeper
from dra_spawner.spawner.diagnosis import diagnose
from dra_spawner.spawner.healing_spawner import HealingSpawner
from dra_spawner.spawner.objects.planned_objects import Server, names_for_pod, plan_objects
from dra_spawner.spawner.objects.standing_objects import StandingGoing, StandingRefused
from dra_spawner.spawner.objects.start_objects import StartObjects, WrongSize, utc_now
from dra_spawner.spawner.placed_spawner import PlacedSpawner
from dra_spawner.spawner.pod_devices import (
    NoSuchContainer,
    asks_for_extended_resources,
    attach_claims,
    named_templates_and_claims,
)
from dra_spawner.spawner.profile_spawner import ProfileSpawner
from dra_spawner.spawner.spawn_refusal import (
    RefusalReason,
    SpawnRefused,
    count_as_refusal,
    refusal_of_kubernetes_error,
    refusal_of_size,
    status_message,
    the_error,
    wrong_profile,
)
from dra_spawner.spawner.start_messages import StartMessages
from dra_spawner.spawner.start_trouble import DeviceTrouble
from dra_spawner.spawner.start_watch import DevicesGone, StartWatch

#: How often the reflector is asked for a pod that is being deleted; no request is made.
_POD_LOOK_SECONDS = 0.1
#: How long a pod that is made again may take to go; its node or its driver may not answer at all.
_GRACEFUL_SECONDS = 15.0


class DRASpawner(ProfileSpawner, PlacedSpawner, HealingSpawner):
    """Spawns JupyterHub servers in pods that get devices, or shares of them, by Dynamic Resource Allocation."""

    leftovers_sweep_interval_seconds = Integer(
        300,
        min=10,
        config=True,
        help="""
        How often, in seconds, the hub looks for claim templates that were left behind because a hub was stopped in
        the middle of a start. One list request each time; only templates older than ``start_timeout`` are touched.
        """,
    )

    optional_devices_wait_seconds = Integer(
        10,
        min=1,
        config=True,
        help="""
        For how long, in seconds, a server waits for devices that it can do without (``optional``, ``none``) if they
        are taken just after they were seen to be free. Then its pod is made again without them.
        """,
    )

    #: Sweepers by namespace, shared like KubeSpawner's reflectors; ``None`` stands for all namespaces.
    _sweepers: ClassVar[dict[str | None, asyncio.Task[None]]] = {}

    _start_objects: StartObjects | None = None
    _accompanying: asyncio.TaskGroup | None = None
    _watch: StartWatch | None = None
    _following: asyncio.Task[None] | None = None
    _event_before: str | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._messages = StartMessages(self.namespace, self.pod_name)

    @property
    def _kubernetes(self) -> KubernetesApi:
        return KubernetesApi(self.api.api_client, timeout_seconds=self.k8s_api_request_timeout)

    # Pod

    async def get_pod_manifest(self) -> Any:
        """KubeSpawner's pod, which names this start's templates and shared claims."""
        await self._decide_about_optional_devices()
        pod = await super().get_pod_manifest()
        self._start_objects = objects = self._plan_objects()
        if not self._plan.claims:
            return pod
        try:
            attach_claims(pod, self._plan, names_for_pod(objects))
        except NoSuchContainer as error:
            raise wrong_profile(str(error)) from error
        return pod

    async def _decide_about_optional_devices(self) -> None:
        """Leave out what the server can do without if it is not to be had now; if that is not known, ask for it."""
        if self._plan.fallback is None:
            return
        objects = self._plan_objects()
        standing = {name: each.object.name for name, each in objects.standing.items()}
        diagnosis = await diagnose(self._kubernetes, self._plan.specs, standing, self.namespace)
        if diagnosis.fits is False:
            self._messages.tell(f"This server starts without a device that it can do without. {diagnosis.sentence}")
            self._plan = self._plan.fallback

    def _plan_objects(self) -> StartObjects:
        labels = {
            **self._build_common_labels({}),
            names.SERVERNAME: safe_slug(self.name, is_valid=is_valid_label),
        }
        profile = (self.user_options or {}).get("profile")
        if profile:
            labels[names.PROFILE] = safe_slug(profile, is_valid=is_valid_label)
        server = Server(
            user=self.user.name,
            groups=self._user_groups(),
            pod_name=self.pod_name,
            namespace=self.namespace,
            labels=labels,
            annotations=self._build_common_annotations({}),
        )
        Sweeper.companion_kinds |= {(each.manifest["apiVersion"], each.plural) for each in self._plan.companions}
        ends = utc_now() + timedelta(seconds=self._longest_start_seconds)
        objects = plan_objects(self._kubernetes, self._plan, server, ends)
        try:
            objects.check_sizes()
        except WrongSize as error:
            raise self._refused_size(error) from error
        return objects

    def _refused_size(self, error: WrongSize) -> SpawnRefused:
        self.log.error("Spawn refused, a claim asks for a size that cannot be had: %s", error)
        return refusal_of_size(error.size)

    @property
    def _longest_start_seconds(self) -> int:
        """A start's own deadline is below ``start_timeout``; its requests may be under way a little longer."""
        return int(self.start_timeout + self.k8s_api_request_retry_timeout)

    # Start

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        """Create what the final pod needs, then the pod. Runs again at each retry."""
        objects = self._start_objects
        if self._second_try is not None:
            self._avoid_node(pod)
        elif objects is not None and self._gpu_start is None:
            await self._find_place_or_go_without(pod, objects)
        if objects is None or not (self._plan.claims or asks_for_extended_resources(pod)):
            return bool(await super()._make_create_pod_request(pod, request_timeout))
        # Here and not in the manifest: a modify_pod_hook may have replaced the annotations.
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), names.START: objects.nonce}
        named = named_templates_and_claims(pod)
        if not await self._ensure(objects, named):
            return False
        objects.pod_requested = True
        try:
            created = bool(await super()._make_create_pod_request(pod, request_timeout))
        except aiohttp.ClientError as error:
            self.log.warning("No answer whether the pod was created, trying again: %s", error)
            return False
        if created and self._accompanying:
            self._watch = self._watch_of(objects, named)
            self._accompanying.create_task(self._watch.give_objects_to_pod())
            self._following = self._accompanying.create_task(self._watch.follow())
        return created

    async def _find_place_or_go_without(self, pod: Any, objects: StartObjects) -> None:
        try:
            await self.find_place(pod, objects, asks_for_node=self._plan.fallback is None)
        except SpawnRefused as refused:
            if self._plan.fallback is None:
                raise
            raise DevicesGone(f"{refused} It starts without the device that it can do without.") from refused

    async def _ensure(self, objects: StartObjects, named: set[str]) -> bool:
        """Create what the pod needs; whether that is done, else it is to be tried again."""
        try:
            await objects.ensure(named)
        except WrongSize as error:
            raise self._refused_size(error) from error
        except KubernetesError as error:
            if not error.retryable:
                of_devices = not error.kind or error.kind.startswith("resourceclaim")
                what = f"the {'device claim' if of_devices else error.kind} of this choice"
                raise refusal_of_kubernetes_error(what, error.status, error.message) from error
            self.log.warning("Could not create what the pod needs, trying again: %s", error)
            return False
        except StandingGoing as error:
            self.log.info("Waiting until it can be made anew: %s", error)
            return False
        except StandingRefused as error:
            raise SpawnRefused(str(error), RefusalReason.CLUSTER, status_code=503) from error
        return True

    def _pod_of(self, objects: StartObjects) -> dict[str, Any] | None:
        """The pod as the reflector has it, if it is that of these objects' try."""
        pod: dict[str, Any] | None = self.pod_reflector.pods.get(f"{self.namespace}/{self.pod_name}")
        is_own = pod and pod["metadata"].get("annotations", {}).get(names.START) == objects.nonce
        return pod if is_own else None

    def _watch_of(self, objects: StartObjects, named: set[str]) -> StartWatch:
        return StartWatch(
            objects=objects,
            plan=self._plan,
            pod_name=self.pod_name,
            named=named,
            look=lambda: self._pod_of(objects),
            tell=self._messages.tell,
            log=self.log,
            patience_seconds=self.optional_devices_wait_seconds,
            trouble=self._trouble_watch(),
            events=self._all_events,
        )

    async def _start(self) -> str:
        """Start the pod within ``start_timeout``, and leave nothing behind if that fails."""
        self._goes_without, self._second_try = False, None
        self._messages = StartMessages(self.namespace, self.pod_name)
        self.begin_sweeping()
        # JupyterHub cancels at start_timeout without a word; end a little earlier, with the reason.
        self._start_ends = asyncio.get_running_loop().time() + self.start_timeout - min(5.0, self.start_timeout / 10)
        deadline = asyncio.timeout_at(self._start_ends)
        try:
            async with deadline:
                return await self._start_with_second_tries()
        except BaseException as error:
            await self._abandon()
            refusal = self._refusal(error, late=deadline.expired())
            if isinstance(refusal, SpawnRefused):
                count_as_refusal(self)
            if refusal is error:
                raise
            raise refusal from error

    async def _start_with_second_tries(self) -> str:
        """Start the pod; once more without optional devices that are not to be had, or where a node fails it."""
        while True:
            try:
                return await self._start_once()
            except DevicesGone as gone:
                self._messages.tell(str(gone))
                self._goes_without = True
                await self._abandon()
            except DeviceTrouble as found:
                await self._plan_second_try(found, self._kubernetes, self._plan, self._start_objects)
                await self._end_failed_pod()

    async def _end_failed_pod(self) -> None:
        """Remove what this try made, and wait until its pod is gone: the next one has the same name."""
        objects = self._start_objects
        if objects is None:
            return
        try:
            async with asyncio.timeout(_GRACEFUL_SECONDS):
                # Removed by force, it would be gone while its node still releases its devices: the next pod of the
                # same claim would then meet what this one did, and the device would be given to others too early.
                await objects.end_pod(self.pod_name, self.delete_grace_period)
                await self._until_gone(objects)
        except (KubernetesError, TimeoutError) as error:
            self.log.warning("The pod does not go, it is removed by force: pod=%s %r", self.pod_name, error)
        await self._abandon()
        await self._until_gone(objects)

    async def _until_gone(self, objects: StartObjects) -> None:
        while self._pod_of(objects) is not None:  # noqa: ASYNC110 - the reflector has no event
            await asyncio.sleep(_POD_LOOK_SECONDS)

    async def _start_once(self) -> str:
        self._start_objects = self._watch = self._following = None
        self.forget_place()
        try:
            async with asyncio.TaskGroup() as self._accompanying:
                url = await super()._start()
                if self._following:
                    self._following.cancel()
        except BaseExceptionGroup as group:
            raise the_error(group) from group
        finally:
            self._accompanying = None
        return str(url)

    async def stop(self, now: bool = False) -> None:
        """Stop the pod; what was made for it goes with it. What it could not be made the owner of is removed."""
        await super().stop(now)
        # KubeSpawner also stops an older pod in the middle of a start; then there is no TaskGroup's end behind us.
        if self._accompanying is None and self._start_objects and not self._start_objects.all_owned:
            self._start_objects.pod_is_gone()
            await self._abandon()

    def _refusal(self, error: BaseException, late: bool) -> BaseException:
        """The error as a sentence, where there is one."""
        if isinstance(error, ApiException):
            return refusal_of_kubernetes_error("this server", error.status, status_message(error))
        if isinstance(error, TimeoutError):
            waiting_for = self._watch.waiting_for if self._watch else ""
            reason = RefusalReason.NO_DEVICE if waiting_for else RefusalReason.TIMEOUT
            why = waiting_for or "The server did not start in time."
            sentence = f"Gave up after {self.start_timeout} seconds. {why}" if late else f"Gave up: {error}"
            return SpawnRefused(sentence, reason, status_code=503)
        if isinstance(error, aiohttp.ClientError):
            return SpawnRefused("Kubernetes does not answer. Please try again later.", RefusalReason.CLUSTER, 503)
        return error

    # What the user sees while it starts

    @property
    def events(self) -> list[dict[str, Any]]:
        """The pod's events and our own messages."""
        return self._messages.with_events(super().events)

    @property
    def _last_event(self) -> str | None:
        """Uid of the last event before this start; KubeSpawner shows those after it."""
        return self._event_before

    @_last_event.setter
    def _last_event(self, uid: str | None) -> None:
        # In a second try the last one may be a message of ours, which is in no list of events.
        if not self._messages.is_own(uid):
            self._event_before = uid

    # Nothing is left behind

    async def _abandon(self) -> None:
        """Remove what this start made; go on in the background if the API server does not answer at once."""
        objects, self._start_objects = self._start_objects, None
        if objects is not None:
            await BackgroundRemoval.begin(objects, self.pod_name, self.log)

    def begin_sweeping(self) -> None:
        """One sweep for the hub, or for its namespace, begun by the first spawner (or by the hub's start)."""
        self.begin_sweeping_vlans()
        where = None if self.enable_user_namespaces else self.namespace
        running = self._sweepers.get(where)
        if running is not None and not running.done() and running.get_loop() is asyncio.get_running_loop():
            return
        sweeper = Sweeper(
            lambda: self._kubernetes,
            where,
            timedelta(seconds=self._longest_start_seconds),
            self.leftovers_sweep_interval_seconds,
            self.log,
        )
        self._sweepers[where] = asyncio.create_task(sweeper.run())
