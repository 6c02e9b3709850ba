"""Step: compile the claims, add them to the pod, create their objects, and remove these if the attempt fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kubespawner.slugs import is_valid_label, safe_slug

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.profiles import ProfileError
from dra_spawner.profiles.compiler.shared_claims import is_for_groups
from dra_spawner.spawner.clean_up import begin_removal, companion_kinds, remove
from dra_spawner.spawner.objects.planned_objects import Server, names_for_pod, plan_objects
from dra_spawner.spawner.objects.pod_devices import (
    NoSuchContainer,
    asks_for_extended_resources,
    attach_claims,
    named_templates_and_claims,
)
from dra_spawner.spawner.objects.shared_objects import SharedRefused, SharedTerminating
from dra_spawner.spawner.objects.start_objects import StartObjects, WrongSize, utc_now
from dra_spawner.spawner.spawn_refusal import (
    RefusalReason,
    SpawnRefused,
    refusal_of_kubernetes_error,
    refusal_of_profile,
    refusal_of_size,
    wrong_profile,
)
from dra_spawner.spawner.steps.attempt import Attempt, CreationOutcome, Step


class DeviceClaims(Step):
    """Creates the templates, shared claims and companions of an attempt."""

    async def load(self) -> None:
        """Compile the claims.

        Raises
        ------
        SpawnRefused
            If the profile is misconfigured, or the user's free text is invalid.
        """
        attempt = self.attempt
        try:
            attempt.use(attempt.compiled(attempt.values))
        except ProfileError as error:
            self.log.error("Profile refused: %s", error)
            raise refusal_of_profile(error, self.spawner.user_options) from error

    async def change_pod(self, pod: Any) -> None:
        """Add this attempt's templates and shared claims to the pod."""
        attempt = self.attempt
        objects = self._planned_objects()
        if attempt.plan.fallback is not None and not await self._can_have_optional_devices(objects):
            attempt.use(attempt.plan.fallback)
            objects = self._planned_objects()
        attempt.objects = objects
        companion_kinds().update((each.manifest["apiVersion"], each.plural) for each in attempt.plan.companions)
        if not attempt.plan.claims:
            return
        try:
            attach_claims(pod, attempt.plan, names_for_pod(objects))
        except NoSuchContainer as error:
            raise wrong_profile(str(error)) from error

    async def _can_have_optional_devices(self, objects: StartObjects) -> bool:
        """Return whether optional devices are free now; True if that is not known."""
        shared = {name: each.object.name for name, each in objects.shared.items()}
        spawner = self.spawner
        from dra_spawner.spawner.devices.diagnosis import diagnose  # few profiles have optional devices

        diagnosis = await diagnose(self.server.devices, self.attempt.plan.specs, shared, spawner.namespace)
        if diagnosis.fits is False:
            self.log.info("An optional device is not available: pod=%s %s", spawner.pod_name, diagnosis.detail)
            self.attempt.messages.notify(f"This server starts without an optional device. {diagnosis.sentence}")
        return diagnosis.fits is not False

    def _planned_objects(self) -> StartObjects:
        spawner = self.spawner
        labels = {
            **spawner._build_common_labels({}),
            names.SERVERNAME: safe_slug(spawner.name, is_valid=is_valid_label),
        }
        if self.server.chosen_profile:
            labels[names.PROFILE] = safe_slug(self.server.chosen_profile, is_valid=is_valid_label)
        server = Server(
            user=spawner.user.name,
            groups=self.server.user_groups if any(map(is_for_groups, self.attempt.plan.claims)) else (),
            pod_name=spawner.pod_name,
            namespace=spawner.namespace,
            labels=labels,
            annotations=spawner._build_common_annotations({}),
        )
        ends = utc_now() + self.server.longest_start
        objects = plan_objects(self.server.kubernetes, self.attempt.plan, server, ends)
        try:
            objects.check_sizes()
        except WrongSize as error:
            raise self._refused_size(error) from error
        return objects

    def _refused_size(self, error: WrongSize) -> SpawnRefused:
        self.log.error("Spawn refused, a claim has an invalid size: %s", error)
        return refusal_of_size(error.size)

    async def prepare_request(self, pod: Any) -> bool:
        """Create the missing objects that the pod needs."""
        attempt, objects = self.attempt, self.attempt.objects
        if objects is None or not (attempt.plan.claims or asks_for_extended_resources(pod)):
            return True
        # Done here and not in `change_pod`, as a modify_pod_hook may have replaced the annotations.
        pod.metadata.annotations = {**(pod.metadata.annotations or {}), names.START: objects.nonce}
        named = named_templates_and_claims(pod)
        if not await self._ensure(objects, named):
            return False
        objects.pod_requested, attempt.named_objects = True, named
        return True

    async def _ensure(self, objects: StartObjects, named: set[str]) -> bool:
        """Create the objects that the pod needs; return False if this must be tried again."""
        self.attempt.terminating = ""
        try:
            await objects.ensure(named)
        except WrongSize as error:
            raise self._refused_size(error) from error
        except KubernetesError as error:
            if not error.retryable:
                what = f"{error.kind or 'a claim'} of this choice"
                raise refusal_of_kubernetes_error(what, error.status, error.message, self.log) from error
            self.log.warning("Could not create what the pod needs, trying again: %s", error)
            return False
        except SharedTerminating as error:
            self.attempt.terminating = str(error)
            self.log.info("Waiting until a shared object can be created again: %s", error)
            return False
        except SharedRefused as error:
            self.log.warning("Spawn refused, a shared object cannot be used: %s", error.detail)
            raise SpawnRefused(str(error), RefusalReason.CLUSTER, status_code=503) from error
        return True

    def requested(self, outcome: CreationOutcome) -> None:
        """Record whether the pod may appear later, as there was no response."""
        if self.attempt.objects is not None:
            self.attempt.objects.pod_unanswered = outcome is CreationOutcome.UNKNOWN

    def undo(self) -> asyncio.Task[None] | None:
        """Remove the pod, and the objects that were created for it."""
        objects, self.attempt.objects = self.attempt.objects, None
        return begin_removal(objects, self.spawner.pod_name, self.log) if objects is not None else None

    @classmethod
    def before_stop(cls, attempt: Attempt) -> Callable[[], Awaitable[object]] | None:
        """Return the removal of objects that the pod does not own; the others are deleted with it."""
        return partial(_remove_rest, attempt) if attempt.objects is not None else None


async def _remove_rest(attempt: Attempt) -> None:
    if attempt.objects is not None and not attempt.objects.all_owned:
        objects, attempt.objects = attempt.objects, None
        objects.pod_is_gone()
        await remove(objects, attempt.spawner.pod_name, attempt.server.log)
