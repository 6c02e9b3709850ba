"""CapacityBuffers of this hub: read, decided and written again and again while this process leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from dra_spawner import names
from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, PatchType, resource_path
from dra_spawner.kube.discovery import api_groups, is_absent
from dra_spawner.kube.leader import NotLeading
from dra_spawner.kube.rights import is_granted, missing_right
from dra_spawner.placeholders.planner.capacity_buffers import (
    BufferAction,
    DeleteBuffer,
    SetBuffer,
    SetTemplate,
    buffer_manifest,
    buffer_name,
    decide_buffers,
    without_buffered,
)
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.policy import Policy

__all__ = ["CapacityBuffers"]

log = logging.getLogger(__name__)

_EVERY_SECONDS: Final = 10.0
_BUFFERS: Final = "capacitybuffers"
_TEMPLATES: Final = "podtemplates"
_VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_OURS: Final = f"{names.MANAGED_BY}={names.MANAGER}"
_NOT_SERVED: Final = (
    f"the cluster does not serve CapacityBuffer ({names.AUTOSCALING_GROUP}); placeholders are used instead"
)


class CapacityBuffers:
    """See the module.

    Parameters
    ----------
    policy
        Returns the policy with the targets of all shapes.
    name_of
        Returns the name of a choice with a shape; empty if there is none.
    is_on
        Whether they are wanted; if not, buffers of an earlier configuration are deleted.
    """

    def __init__(
        self,
        api: KubernetesApi,
        settings: PlaceholderSettings,
        policy: Callable[[], Policy],
        decisions: DecisionLog,
        *,
        now: Callable[[], datetime],
        name_of: Callable[[str], str],
        is_on: bool,
    ) -> None:
        self._api = api
        self._settings = settings
        self._policy = policy
        self._decisions = decisions
        self._now = now
        self._name_of = name_of
        self._is_on = is_on
        self._version = ""
        self._kept: frozenset[str] = frozenset()
        self._problem = ""
        self._reduced: tuple[Policy, frozenset[str], Policy] | None = None

    def for_pods(self, policy: Policy) -> Policy:
        """The policy for placeholders: without targets of shapes that have a CapacityBuffer."""
        known = self._reduced
        if known is None or known[0] is not policy or known[1] is not self._kept:
            known = self._reduced = policy, self._kept, without_buffered(policy, self._kept)
        return known[2]

    def problems(self) -> tuple[str, ...]:
        """What is wrong, as sentences."""
        return (f"Placeholders: {self._problem}.",) if self._problem else ()

    async def run(self, may_act: Callable[[], None]) -> None:
        """Keep them until cancelled; return if they are not wanted, or if this process must not act.

        Parameters
        ----------
        may_act
            As for `refresh`.
        """
        with contextlib.suppress(NotLeading):
            while self._is_on:
                await asyncio.sleep(_EVERY_SECONDS)
                await self.refresh(may_act)

    async def refresh(self, may_act: Callable[[], None]) -> None:
        """Read, decide and write once; what fails is told in `problems`, and placeholders are used instead.

        Parameters
        ----------
        may_act
            Called before each write.

        Raises
        ------
        NotLeading
            By `may_act`, if this process must not act.
        """
        try:
            problem = await self._refresh(may_act)
        except NotLeading:
            raise
        except KubernetesError as error:
            problem = missing_right(error) or str(error)
            if error.status == 404:
                self._version = ""  # discovery tells whether they are gone
            elif error.status == 403:
                self._version, self._kept = "", frozenset()
        except Exception as error:  # nothing else depends on buffers
            log.exception("Capacity buffers are not kept")
            problem = f"{type(error).__name__}: {error}"
        # Where they are not wanted, the account needs no right to them.
        problem = f"capacity buffers: {problem}" if problem and self._is_on else ""
        if problem and problem != self._problem:
            log.warning("Placeholders: %s", problem)
        self._problem = problem

    async def _refresh(self, may_act: Callable[[], None]) -> str:
        if not self._version:
            self._version = await self._served_version()
        if not self._version:
            self._kept = frozenset()
            return _NOT_SERVED
        if not self._is_on and not await self._may_list():
            return ""
        policy = self._policy() if self._is_on else Policy()
        if policy.keeps_surplus:
            return ""  # targets are not known yet; the present buffers stay
        buffers = await self._list(self._version, _BUFFERS)
        templates = await self._list("v1", _TEMPLATES)
        actions = decide_buffers(policy, self._settings, buffers, templates)
        if not self._is_on:
            actions = tuple(each for each in actions if isinstance(each, DeleteBuffer))
        for action in actions:
            may_act()
            await self._do(action)
        if policy.is_complete:
            targets = {shape for shape, each in policy.replicas.items() if each.min > 0}
            kept = {shape.id for shape in policy.shapes.values() if not shape.wants_devices} & targets
            # The same object while nothing changes, so that a policy is computed once.
            self._kept = self._kept if kept == self._kept else frozenset(kept)
        return ""

    async def _served_version(self) -> str:
        """``apiVersion`` of CapacityBuffers; empty where discovery says that they are not served."""
        served = (await api_groups(self._api)).get(names.AUTOSCALING_GROUP, ())
        for version in (each for each in _VERSIONS if each in served):
            found = f"{names.AUTOSCALING_GROUP}/{version}"
            if not await is_absent(self._api, found, _BUFFERS):
                return found
        return ""

    async def _may_list(self) -> bool:
        # So that the audit log has no refusals where buffers were never wanted.
        return await is_granted(self._api, "list", names.AUTOSCALING_GROUP, _BUFFERS, self._settings.namespace)

    async def _list(self, version: str, plural: str) -> list[JsonObject]:
        path = resource_path(version, plural, self._settings.namespace)
        found: list[JsonObject] = (await self._api.list(path, label_selector=_OURS))["items"]
        return [each for each in found if each["metadata"]["name"].startswith(names.BUFFER_PREFIX)]

    async def _do(self, action: BufferAction) -> None:
        outcome = "done"
        try:
            match action:
                case SetTemplate():
                    await self._set_template(action)
                case SetBuffer():
                    await self._set_buffer(action)
                case DeleteBuffer():
                    for version, plural in ((self._version, _BUFFERS), ("v1", _TEMPLATES)):
                        path = resource_path(version, plural, self._settings.namespace, action.name)
                        await self._api.delete(path, missing_ok=True)
        except KubernetesError as error:
            outcome = str(error)
            raise
        finally:
            self._note(action, outcome)

    async def _set_template(self, action: SetTemplate) -> None:
        path, manifest = resource_path("v1", _TEMPLATES, self._settings.namespace), action.manifest
        if action.is_new:
            await self._api.create(path, manifest)
            return
        # A merge would leave what is not wanted any more.
        body = [
            {"op": "replace", "path": "/template", "value": manifest["template"]},
            {"op": "add", "path": "/metadata/annotations", "value": manifest["metadata"]["annotations"]},
        ]
        await self._api.patch(f"{path}/{manifest['metadata']['name']}", body, patch_type=PatchType.JSON)

    async def _set_buffer(self, action: SetBuffer) -> None:
        path = resource_path(self._version, _BUFFERS, self._settings.namespace)
        manifest = buffer_manifest(action.shape, action.replicas, self._settings, self._version)
        if action.is_new:
            await self._api.create(path, manifest)
        else:
            await self._api.patch(f"{path}/{manifest['metadata']['name']}", {"spec": manifest["spec"]})

    def _note(self, action: BufferAction, outcome: str) -> None:
        if isinstance(action, SetTemplate):
            return
        name = buffer_name(action.shape) if isinstance(action, SetBuffer) else action.name
        decision = Decision(
            self._now(),
            action.kind,
            f"CapacityBuffer {self._settings.namespace}/{name}",
            action.reason,
            profile=self._name_of(name.removeprefix(names.BUFFER_PREFIX)),
            outcome=outcome,
        )
        self._decisions.append(decision, of_round=False)
