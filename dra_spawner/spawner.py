"""DRASpawner: KubeSpawner, and the devices that a profile asks for.

The way of one start: ``load_user_options`` compiles the chosen profile to a `ClaimPlan`; ``get_pod_manifest`` names
its templates in the pod; ``_make_create_pod_request`` creates them before the pod; the pod becomes their owner; and
whatever goes wrong in between, ``_start`` leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import copy
from datetime import timedelta
from typing import Any, ClassVar

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException
from kubespawner.slugs import is_valid_label, safe_slug
from traitlets import Dict, Integer

from dra_spawner.cluster.api import KubernetesApi, KubernetesError
from dra_spawner.cluster.diagnosis import Diagnosis, diagnose
from dra_spawner.cluster.start_objects import (
    START_ANNOTATION,
    TEMPLATE_LABELS,
    StartObjects,
    new_nonce,
    sweep,
)
from dra_spawner.intel_gas_spawner import IntelGasSpawner
from dra_spawner.profiles import (
    AdminAccessRefused,
    ClaimPlan,
    ProfileError,
    compile_device_claims,
    free_text_problems,
    profile_list_problems,
    template_manifest,
    user_options_problem,
)
from dra_spawner.profiles.form import unavailable_choice
from dra_spawner.profiles.problems import Problem
from dra_spawner.spawn_form import FormSpawner
from dra_spawner.spawn_refusal import (
    OptionsRefused,
    RefusalReason,
    SpawnRefused,
    refusal_of_kubernetes_error,
    status_message,
)
from dra_spawner.start_messages import StartMessages

#: How long a failing start waits for its clean-up before that goes on in the background.
_CLEAN_UP_WAIT_SECONDS = 3
#: For how long a clean-up is tried while the API server does not answer; after that the sweep finds what is left.
_CLEAN_UP_TRIES_SECONDS = 600
#: How often an unschedulable start is looked into again.
_DIAGNOSIS_SECONDS = 15
#: How often the reflector's copy of the pod is looked at; no request is made.
_POD_LOOK_SECONDS = 0.1
#: For how long a pod that was created is looked for.
_POD_SEEN_SECONDS = 10
#: How often a pod is looked at that may become unschedulable.
_SCHEDULED_LOOK_SECONDS = 1.0


class DRASpawner(IntelGasSpawner, FormSpawner):
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

    #: Sweepers by namespace, shared like KubeSpawner's reflectors; ``None`` stands for all namespaces.
    _sweepers: ClassVar[dict[str | None, asyncio.Task[None]]] = {}
    #: Clean-ups that go on after their start ended; kept so that they are not garbage-collected.
    _background: ClassVar[set[asyncio.Task[Any]]] = set()

    _plan = ClaimPlan()
    _start_objects: StartObjects | None = None
    _accompanying: asyncio.TaskGroup | None = None
    _explaining: asyncio.Task[None] | None = None
    _waiting_for = ""

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
        return problems or self.intel_gas_problems()

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
            self._plan = compile_device_claims(
                self.device_claims, f"{self._profile_name()}device_claims", admin_access=bool(self.user.admin)
            )
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
            raise SpawnRefused(
                f"This choice is set up wrongly, an administrator has to mend it. {error.problems[0]}",
                RefusalReason.PROFILE,
            ) from error

    def _profile_name(self) -> str:
        slug = self.user_options.get("profile") if self.user_options else None
        return f"profile {slug}, " if slug else ""

    # Pod

    async def get_pod_manifest(self) -> Any:
        """KubeSpawner's pod, which names this start's templates."""
        pod = await super().get_pod_manifest()
        self._start_objects = objects = self._plan_objects()
        if not self._plan.claims:
            return pod
        own = {name: template["metadata"]["name"] for name, template in objects.templates.items()}
        pod.spec.resource_claims = [
            *(pod.spec.resource_claims or []),
            *(claim.pod_entry(own.get(claim.name, "")) for claim in self._plan.claims),
        ]
        containers = {
            container.name: container for container in [*pod.spec.containers, *(pod.spec.init_containers or [])]
        }
        for name, claims in self._plan.container_claims().items():
            if name not in containers:
                raise SpawnRefused(
                    f"This choice is set up wrongly, an administrator has to mend it. It gives devices to container "
                    f"{name}; the pod has: {', '.join(containers)}.",
                    RefusalReason.PROFILE,
                )
            _attach(containers[name], claims)
        return pod

    def _plan_objects(self) -> StartObjects:
        nonce = new_nonce()
        labels = {
            **self._build_common_labels({}),
            **TEMPLATE_LABELS,
            "hub.jupyter.org/servername": safe_slug(self.name, is_valid=is_valid_label),
        }
        profile = (self.user_options or {}).get("profile")
        if profile:
            labels["hub.jupyter.org/profile"] = safe_slug(profile, is_valid=is_valid_label)
        annotations = self._build_common_annotations({START_ANNOTATION: nonce})
        templates = {
            claim.name: template_manifest(
                claim,
                name=f"{self.pod_name}-{claim.name}-{nonce}",
                namespace=self.namespace,
                labels=labels,
                annotations=annotations,
            )
            for claim in self._plan.claims
            if claim.spec is not None
        }
        return StartObjects(self._kubernetes, self.namespace, nonce, templates)

    # Start

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        """Create the templates that the final pod names, then the pod. Runs again at each retry."""
        objects = self._start_objects
        if objects is None or not self._plan.claims:
            return bool(await super()._make_create_pod_request(pod, request_timeout))
        # Here and not in the manifest: a modify_pod_hook may have replaced the annotations.
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), START_ANNOTATION: objects.nonce}
        try:
            await objects.ensure_templates(_template_names(pod))
        except KubernetesError as error:
            if error.retryable:
                self.log.warning("Could not create a claim template, trying again: %s", error)
                return False
            raise refusal_of_kubernetes_error("the device claim of this choice", error.status, error.message) from error
        objects.pod_requested = True
        try:
            created = bool(await super()._make_create_pod_request(pod, request_timeout))
        except aiohttp.ClientError as error:
            self.log.warning("No answer whether the pod was created, trying again: %s", error)
            return False
        if created and self._accompanying:
            self._accompanying.create_task(self._give_templates_to_pod(objects))
            self._explaining = self._accompanying.create_task(self._explain_waiting(objects))
        return created

    async def _start(self) -> str:
        """Start the pod within ``start_timeout``, and leave nothing behind if that fails."""
        self._start_objects = self._explaining = None
        self._messages, self._waiting_for = StartMessages(self.namespace, self.pod_name), ""
        self.begin_sweeping()
        # JupyterHub cancels at start_timeout without a word; end a little earlier, with the reason.
        deadline = asyncio.timeout(self.start_timeout - min(5.0, self.start_timeout / 10))
        try:
            async with deadline, asyncio.TaskGroup() as self._accompanying:
                url = await super()._start()
                if self._explaining:
                    self._explaining.cancel()
            self._accompanying = None
        except BaseException as error:
            self._accompanying = None
            await self._abandon()
            refusal = self._refusal(error, late=deadline.expired())
            if refusal is error:
                raise
            raise refusal from error
        return str(url)

    async def stop(self, now: bool = False) -> None:
        """Stop the pod; its templates go with it, unless it could not be made their owner."""
        await super().stop(now)
        # KubeSpawner also stops an older pod in the middle of a start; then there is no TaskGroup's end behind us.
        if self._accompanying is None and self._start_objects and not self._start_objects.all_owned:
            await self._abandon()

    def _refusal(self, error: BaseException, late: bool) -> BaseException:
        """The error as a sentence, where there is one."""
        while isinstance(error, BaseExceptionGroup):
            error = next((e for e in error.exceptions if isinstance(e, SpawnRefused)), error.exceptions[0])
        if isinstance(error, ApiException):
            return refusal_of_kubernetes_error("this server", error.status, status_message(error))
        if isinstance(error, TimeoutError):
            reason = RefusalReason.NO_DEVICE if self._waiting_for else RefusalReason.TIMEOUT
            why = self._waiting_for or "The server did not start in time."
            sentence = f"Gave up after {self.start_timeout} seconds. {why}" if late else f"Gave up: {error}"
            return SpawnRefused(sentence, reason, status_code=503)
        if isinstance(error, aiohttp.ClientError):
            return SpawnRefused("Kubernetes does not answer. Please try again later.", RefusalReason.CLUSTER, 503)
        return error

    async def _own_pod(self, objects: StartObjects) -> dict[str, Any]:
        """The pod of this very start, as soon as the reflector shows it."""
        while True:
            pod = self.pod_reflector.pods.get(f"{self.namespace}/{self.pod_name}")
            if pod and pod["metadata"].get("annotations", {}).get(START_ANNOTATION) == objects.nonce:
                return dict(pod)
            await asyncio.sleep(_POD_LOOK_SECONDS)

    async def _give_templates_to_pod(self, objects: StartObjects) -> None:
        try:
            async with asyncio.timeout(_POD_SEEN_SECONDS):
                pod = await self._own_pod(objects)
        except TimeoutError:
            self.log.warning("Did not see the pod that was created; the sweep will make it owner of its templates")
            return
        for wait in (0.1, 0.5, None):
            try:
                await objects.give_to_pod(self.pod_name, pod["metadata"]["uid"])
            except KubernetesError as error:
                if wait and error.retryable:
                    await asyncio.sleep(wait)
                    continue
                # The server can start all the same; its stop or the sweep makes up for it.
                self.log.warning("Could not make the pod owner of its claim templates: %s", error)
            return

    async def _explain_waiting(self, objects: StartObjects) -> None:
        """Say on the progress page why the pod waits for devices; end the start where waiting cannot help."""
        while True:
            pod = await self._own_pod(objects)
            if not _is_unschedulable(pod):
                self._waiting_for = ""
                await asyncio.sleep(_SCHEDULED_LOOK_SECONDS)
                continue
            try:
                diagnosis = await diagnose(self._kubernetes, self._plan.specs)
            except Exception:
                # An explanation is a courtesy; the start goes on without.
                self.log.exception("Could not explain why %s waits", self.pod_name)
                diagnosis = Diagnosis()
            if diagnosis.hopeless:
                raise SpawnRefused(diagnosis.sentence, RefusalReason.DEVICE_CLASS)
            if diagnosis.sentence and diagnosis.sentence != self._waiting_for:
                self._messages.tell(diagnosis.sentence)
            self._waiting_for = diagnosis.sentence
            await asyncio.sleep(_DIAGNOSIS_SECONDS)

    # What the user sees while it starts

    @property
    def events(self) -> list[dict[str, Any]]:
        """The pod's events and our own messages."""
        return self._messages.with_events(super().events)

    # Nothing is left behind

    async def _abandon(self) -> None:
        """Remove what this start made; go on in the background if the API server does not answer at once."""
        objects, self._start_objects = self._start_objects, None
        if objects is None:
            return
        task = asyncio.create_task(self._remove(objects, self.pod_name))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        await asyncio.wait({task}, timeout=_CLEAN_UP_WAIT_SECONDS)

    async def _remove(self, objects: StartObjects, pod_name: str) -> None:
        wait = 0.5
        loop = asyncio.get_running_loop()
        end = loop.time() + _CLEAN_UP_TRIES_SECONDS
        while True:
            try:
                await objects.remove(pod_name)
                return
            except KubernetesError as error:
                if loop.time() + wait > end:
                    self.log.error("Gave up removing what a failed start left; the sweep will: %s", error)
                    return
            await asyncio.sleep(wait)
            wait = min(wait * 2, 30.0)

    def begin_sweeping(self) -> None:
        """One sweep for the hub, or for its namespace, begun by the first spawner (or by the hub's start)."""
        where = None if self.enable_user_namespaces else self.namespace
        sweeper = self._sweepers.get(where)
        if sweeper is None or sweeper.done() or sweeper.get_loop() is not asyncio.get_running_loop():
            self._sweepers[where] = asyncio.create_task(self._sweep_for_ever(where))

    async def _sweep_for_ever(self, namespace: str | None) -> None:
        # A start's own deadline is below start_timeout; its requests may be under way a little longer.
        older_than = timedelta(seconds=self.start_timeout + self.k8s_api_request_retry_timeout)
        while True:
            try:
                leftovers = await sweep(self._kubernetes, namespace, older_than)
                if leftovers.delete or leftovers.adopt:
                    self.log.info("Swept claim templates: %s", leftovers)
            except KubernetesError as error:
                self.log.warning("Could not look for claim templates that were left behind: %s", error)
            except Exception:
                self.log.exception("Could not look for claim templates that were left behind")
            await asyncio.sleep(self.leftovers_sweep_interval_seconds)


def _attach(container: Any, claims: list[dict[str, Any]]) -> None:
    """Let a container use claims, beside whatever resources it has; those of an extra container may be a dict."""
    resources = container.resources
    if isinstance(resources, dict):
        resources["claims"] = [*resources.get("claims", ()), *claims]
    elif resources is None:
        container.resources = {"claims": claims}
    else:
        resources.claims = [*(resources.claims or ()), *claims]


def _template_names(pod: Any) -> set[str]:
    """Names of the templates a pod refers to; entries may be dicts or models."""
    entries = pod.spec.resource_claims or []
    names = (
        entry.get("resourceClaimTemplateName") if isinstance(entry, dict) else entry.resource_claim_template_name
        for entry in entries
    )
    return {name for name in names if name}


def _is_unschedulable(pod: dict[str, Any]) -> bool:
    return any(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for condition in pod.get("status", {}).get("conditions") or ()
    )
