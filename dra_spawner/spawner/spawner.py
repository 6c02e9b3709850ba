"""DRASpawner: KubeSpawner, and the devices that a profile asks for.

The way of one start: ``load_user_options`` compiles the chosen profile to a `ClaimPlan`; ``get_pod_manifest`` names
its templates in the pod; ``_make_create_pod_request`` creates them before the pod; the pod becomes their owner; and
whatever goes wrong in between, ``_start`` leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException
from kubespawner.slugs import is_valid_label, safe_slug
from traitlets import Dict, Integer

from dra_spawner.cluster.api import KubernetesApi, KubernetesError
from dra_spawner.cluster.api_objects import START_ANNOTATION
from dra_spawner.cluster.diagnosis import diagnose
from dra_spawner.cluster.standing_objects import StandingGoing, StandingRefused
from dra_spawner.cluster.start_objects import StartObjects, utc_now
from dra_spawner.profiles import (
    AdminAccessRefused,
    ClaimPlan,
    ProfileError,
    compile_claims,
    free_text_problems,
    parse_device_claims,
    profile_list_problems,
    user_options_problem,
)
from dra_spawner.profiles.claims import DeviceClaim, SharedBy
from dra_spawner.profiles.extended_resources import EXTENDED_TRAITS
from dra_spawner.profiles.form import unavailable_choice
from dra_spawner.profiles.optional_devices import without_optional
from dra_spawner.profiles.problems import Problem
from dra_spawner.profiles.standing_claims import NotInGroup, scope_of
from dra_spawner.spawner.checked_choices import CheckedSpawner
from dra_spawner.spawner.clean_up import BackgroundRemoval, Sweeper
from dra_spawner.spawner.hand_over_gate import HandOverStuck
from dra_spawner.spawner.intel_gas_spawner import IntelGasSpawner
from dra_spawner.spawner.placed_spawner import PlacedSpawner
from dra_spawner.spawner.planned_objects import Server, names_for_pod, plan_objects
from dra_spawner.spawner.pod_devices import (
    NoSuchContainer,
    asks_for_extended_resources,
    attach_claims,
    named_templates_and_claims,
)
from dra_spawner.spawner.spawn_form import FormSpawner
from dra_spawner.spawner.spawn_refusal import (
    OptionsRefused,
    RefusalReason,
    SpawnRefused,
    refusal_of_kubernetes_error,
    status_message,
    the_error,
    wrong_profile,
)
from dra_spawner.spawner.start_messages import StartMessages
from dra_spawner.spawner.start_watch import DevicesGone, StartWatch
from dra_spawner.spawner.vlan_spawner import VlanSpawner


class DRASpawner(VlanSpawner, IntelGasSpawner, PlacedSpawner, FormSpawner, CheckedSpawner):
    """Spawns JupyterHub servers in pods that get devices, or shares of them, by Dynamic Resource Allocation."""

    device_claims = Dict(
        config=True,
        help="""
        The devices a server gets: a name for each claim, and what it asks for.

        Usually set by a profile's ``kubespawner_override`` or by a choice of its ``profile_options``; dicts merge
        there, so an option may change a single value. In short form a claim is one request::

            c.DRASpawner.device_claims = {
                "gpu": {
                    "device_class": "gpu.example.com",  # a DeviceClass of the cluster
                    "product": "A100*",                 # optional: the product's name
                    "capacity": {"memory": "10Gi"},     # optional: a share of a shareable device
                    "where": "...",                     # optional: CEL, or a list; all must hold
                    "count": 1,                         # optional: from 1 to 32, or "all"
                }
            }

        In long form it has several, and says which container gets which (by default the notebook's gets all)::

            {"accelerator": {"requests": {"gpu": {...}, "nic": {...}}, "containers": {"notebook": ["gpu"]}}}

        For each claim a ResourceClaimTemplate is made for each start; it goes with the server's pod. ``{"template":
        "name"}`` and ``{"claim": "name"}`` use what others made instead. docs/profiles.md has all there is.
        """,
    )

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

    _plan = ClaimPlan()
    _start_objects: StartObjects | None = None
    _accompanying: asyncio.TaskGroup | None = None
    _watch: StartWatch | None = None
    _following: asyncio.Task[None] | None = None
    _goes_without = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._configured_device_claims = copy.deepcopy(self.device_claims)
        self._messages = StartMessages(self.namespace, self.pod_name)

    @property
    def _kubernetes(self) -> KubernetesApi:
        return KubernetesApi(self.api.api_client, timeout_seconds=self.k8s_api_request_timeout)

    # Configuration

    def configuration_problems(self) -> list[Problem]:
        """What is wrong in the static configuration of ``device_claims``, ``intel_gas`` and ``profile_list``."""
        problems = profile_list_problems(self.profile_list, self.device_claims, known_traits=self.trait_names())
        return problems or [*self.intel_gas_problems(), *self.vlans_problems()]

    # User options

    def clear_state(self) -> None:
        """Forget the last start, and the claims that its profile merged into the configured ones."""
        super().clear_state()
        self.device_claims = copy.deepcopy(self._configured_device_claims)

    def _validate_user_options(self, profile_list: list[dict[str, Any]]) -> None:
        problem = user_options_problem(profile_list, self.user_options)
        if problem:
            raise OptionsRefused(f"Cannot start with these options: {problem}.")
        super()._validate_user_options(profile_list)
        slug = (self.user_options or {}).get("profile")
        for profile in profile_list:
            if profile["slug"] == slug or (not slug and profile.get("default")):
                unavailable = unavailable_choice(profile, self.user_options or {})
                if unavailable:
                    raise OptionsRefused(f"Cannot start with these options: {unavailable}.")
                # The list may be a function's; then nobody has checked it before.
                for found in free_text_problems(profile, f"profile {profile['slug']}"):
                    self.log.error("Profile refused: %s", found)
                    raise OptionsRefused(
                        f"This choice is set up wrongly, an administrator has to mend it. {found}",
                        RefusalReason.PROFILE,
                    )

    async def load_user_options(self) -> None:
        """Apply the chosen profile and compile its claims; refuse what can never work before any API call."""
        try:
            await super().load_user_options()
        except SpawnRefused:
            raise
        except Exception as error:
            # KubeSpawner meets a profile that is no profile, or overrides that do not merge.
            self.log.exception("Profile cannot be applied")
            raise SpawnRefused(
                f"This choice is set up wrongly, an administrator has to mend it: {error}", RefusalReason.PROFILE
            ) from error
        try:
            path = f"{self._profile_name()}device_claims"
            claims = parse_device_claims(self.device_claims, path, admin_access=bool(self.user.admin))
            # All that is refused is refused before a VLAN is taken for it. What is optional may well be impossible.
            least = tuple(left for claim in claims if (left := without_optional(claim)) is not None)
            await self.refuse_what_cannot_work(least, (self.user_options or {}).get("profile") or "")
            claims = least if self._goes_without else claims
            self._check_who_shares(claims)
            # From here on nothing has placeholders any more, companions included.
            settings = {name: getattr(self, name) for name in EXTENDED_TRAITS}
            self._plan = compile_claims(await self.fill_placeholders(claims, path), settings)
        except AdminAccessRefused as error:
            raise SpawnRefused(
                "This choice gives access to devices for administration; only administrators of this hub may use it.",
                RefusalReason.OPTIONS,
                status_code=403,
            ) from error
        except ProfileError as error:
            self.log.error("Profile refused: %s", error)
            if any(key.endswith("--unlisted-choice") and value for key, value in (self.user_options or {}).items()):
                problem = error.problems[0]
                raise OptionsRefused(
                    f"The value you typed cannot be used: found {problem.found}, allowed: {problem.allowed}."
                ) from error
            raise wrong_profile(str(error.problems[0])) from error

    def _check_who_shares(self, claims: Iterable[DeviceClaim]) -> None:
        """Refuse claims that this user shares with nobody, or cannot share."""
        for claim in claims:
            if claim.sharing is None:
                continue
            if self.enable_user_namespaces and claim.sharing.by is not SharedBy.USER:
                raise wrong_profile("Claims are shared within a namespace, and here each user has one of their own.")
            try:
                scope_of(claim.sharing, self.user.name, self._user_groups())
            except NotInGroup as error:
                raise SpawnRefused(
                    f"The device of this choice is for members of {' or '.join(error.groups)}.",
                    RefusalReason.OPTIONS,
                    status_code=403,
                ) from error

    def _user_groups(self) -> list[str]:
        return [group.name for group in self.user.groups]

    def _profile_name(self) -> str:
        slug = self.user_options.get("profile") if self.user_options else None
        return f"profile {slug}, " if slug else ""

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
            "hub.jupyter.org/servername": safe_slug(self.name, is_valid=is_valid_label),
        }
        profile = (self.user_options or {}).get("profile")
        if profile:
            labels["hub.jupyter.org/profile"] = safe_slug(profile, is_valid=is_valid_label)
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
        return plan_objects(self._kubernetes, self._plan, server, ends)

    @property
    def _longest_start_seconds(self) -> int:
        """A start's own deadline is below ``start_timeout``; its requests may be under way a little longer."""
        return int(self.start_timeout + self.k8s_api_request_retry_timeout)

    # Start

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        """Create what the final pod needs, then the pod. Runs again at each retry."""
        objects = self._start_objects
        if objects is not None and self._gpu_start is None:
            await self._find_place_or_go_without(pod, objects)
        if objects is None or not (self._plan.claims or asks_for_extended_resources(pod)):
            return bool(await super()._make_create_pod_request(pod, request_timeout))
        # Here and not in the manifest: a modify_pod_hook may have replaced the annotations.
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), START_ANNOTATION: objects.nonce}
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
            await self.find_place(pod, objects)
        except SpawnRefused as refused:
            if self._plan.fallback is None:
                raise
            raise DevicesGone(f"{refused} It starts without the device that it can do without.") from refused

    async def _ensure(self, objects: StartObjects, named: set[str]) -> bool:
        """Create what the pod needs; whether that is done, else it is to be tried again."""
        try:
            await objects.ensure(named)
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

    def _watch_of(self, objects: StartObjects, named: set[str]) -> StartWatch:
        def look() -> dict[str, Any] | None:
            pod = self.pod_reflector.pods.get(f"{self.namespace}/{self.pod_name}")
            is_own = pod and pod["metadata"].get("annotations", {}).get(START_ANNOTATION) == objects.nonce
            return pod if is_own else None

        return StartWatch(
            objects=objects,
            plan=self._plan,
            pod_name=self.pod_name,
            named=named,
            look=look,
            tell=self._messages.tell,
            log=self.log,
            patience_seconds=self.optional_devices_wait_seconds,
        )

    async def _start(self) -> str:
        """Start the pod within ``start_timeout``, and leave nothing behind if that fails."""
        self._goes_without, self._takes_over = False, True
        self._messages = StartMessages(self.namespace, self.pod_name)
        self.begin_sweeping()
        # JupyterHub cancels at start_timeout without a word; end a little earlier, with the reason.
        deadline = asyncio.timeout(self.start_timeout - min(5.0, self.start_timeout / 10))
        try:
            async with deadline:
                return await self._start_or_go_without()
        except BaseException as error:
            await self._abandon()
            refusal = self._refusal(error, late=deadline.expired())
            if refusal is error:
                raise
            raise refusal from error

    async def _start_or_go_without(self) -> str:
        """Start the pod; where what was kept for it or an optional device is not to be had, once more without."""
        why: Exception
        while True:
            try:
                return await self._start_once()
            except HandOverStuck as stuck:
                self._takes_over, why = False, stuck
            except DevicesGone as gone:
                self._goes_without, why = True, gone
            self._messages.tell(str(why))
            await self._abandon()

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
