"""DRASpawner: KubeSpawner with the devices of a profile.

The class has the traits, and replaces the methods of KubeSpawner that a hub's own class may replace, too. What they do
is in its parts: the form, the start, and the pages. All parts are behind one attribute, so that a hub's own class may
use any name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from jupyterhub.utils import maybe_future
from kubespawner import KubeSpawner
from kubespawner.spawner import EventReflector, PodReflector
from traitlets import default, observe

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.spawner.home_page import HomePage
from dra_spawner.spawner.hub_addresses import DEVICES, START, TICKETS, USE, serve
from dra_spawner.spawner.hub_parts.running_hub import running_hub
from dra_spawner.spawner.progress.ended_pods import EndedPodsReflector
from dra_spawner.spawner.progress.patient_reflectors import (
    PatientEventReflector,
    PatientReflector,
    start_shared,
    until_answered,
)
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.start_progress import progress_items
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.server_start import ServerStart
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.spawn_form import SpawnForm
from dra_spawner.spawner.start_page import StartPage
from dra_spawner.spawner.user_pages.hub_templates import extend_templates

if TYPE_CHECKING:
    from dra_spawner.spawner.devices.reader import Reading
    from dra_spawner.spawner.my_devices.own_devices import OwnDevices

#: Of namespaces of users, unless the configuration sets another. It allows what servers of JupyterHub usually need.
_POD_SECURITY_LEVEL: Final = "baseline"


@dataclass(eq=False)
class SpawnerParts:
    """The parts of one spawner.

    Attributes
    ----------
    own_devices
        Reading of the devices that the server was told of; None before it has asked.
    """

    server: ServerContext
    form: SpawnForm
    page: StartPage
    home: HomePage
    start: ServerStart
    own_devices: Reading[OwnDevices] | None = None

    @classmethod
    def of(cls, spawner: SpawnerSettings) -> SpawnerParts:
        """The parts of a new spawner."""
        server = ServerContext(spawner)
        form, page, home = SpawnForm(server), StartPage(server), HomePage(server)
        return cls(server, form, page, home, ServerStart(server, form, page, home))


class DRASpawner(SpawnerSettings):
    """Spawns JupyterHub servers in pods that get devices, or shares of devices, by Dynamic Resource Allocation."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._dra  # noqa: B018 (makes the parts, which keep settings as they are before any start)

    @cached_property
    def _dra(self) -> SpawnerParts:
        """All parts. A hub's class that calls ``KubeSpawner.__init__`` by name gets them at their first use."""
        parts = SpawnerParts.of(self)
        # JupyterHub makes a user's spawner before it renders one of the user's pages.
        extend_templates(getattr(running_hub(), "tornado_settings", {}), self.log)
        serve(*DEVICES, START, USE)
        if self.tickets:
            serve(TICKETS)
        return parts

    # The form

    # KubeSpawner's `_options_form_default` is for code of the hub's own, which calls it: it renders a list at once, and
    # returns a function for a list from a function.

    @default("options_form")
    def _dra_options_form(self) -> Any:
        # JupyterHub reads this for each of its pages.
        return self._render_options_form_dynamically if self.profile_list else ""

    @observe("options_form")
    def _dra_form_changed(self, change: object) -> None:
        if "_dra" in vars(self):  # the configuration was read before
            self._dra.form.is_default = False

    async def get_options_form(self) -> Any:
        """Return the form for JupyterHub's page, rendered from the devices and the availability of this moment."""
        await self._dra.form.prepare()
        form = await super().get_options_form()
        # `_options_form_default` may have returned a function to a function of the hub's own.
        return await maybe_future(form(self)) if callable(form) else form

    async def _render_options_form_dynamically(self, current_spawner: KubeSpawner) -> Any:
        return self._render_options_form(await self._dra.form.own_profiles())

    def _render_options_form(self, profile_list: Any) -> Any:
        initialized, render_template = super()._get_initialized_profile_list, super()._render_options_form
        return self._dra.form.render(profile_list, initialized, render_template)

    def _get_initialized_profile_list(self, profile_list: Any) -> Any:
        return super()._get_initialized_profile_list(self._dra.form.completed(profile_list))

    def _options_from_form(self, formdata: dict[str, list[Any]]) -> Any:
        of_others = self._dra.form.checked_fields(formdata)
        return {**of_others, **super()._options_from_form(formdata)}

    def _apply_user_options_dict(self, user_options: dict[str, Any]) -> None:
        # JupyterHub logs a warning at each start for each other option; those are of profiles.
        named = {name: value for name, value in user_options.items() if name in self.apply_user_options}
        super()._apply_user_options_dict(named)

    def _validate_user_options(self, profile_list: list[dict[str, Any]] | None) -> None:
        # Replaces KubeSpawner's checks, which may need exponential time for patterns.
        self._dra.form.validate(profile_list)

    # The start

    async def load_user_options(self) -> None:
        """Apply the chosen profile, and load its steps."""
        await self._dra.start.load(super().load_user_options)

    async def get_pod_manifest(self) -> Any:
        """Return KubeSpawner's pod, changed by the steps of the start."""
        return await self._dra.start.pod_manifest(super().get_pod_manifest)

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        request = super()._make_create_pod_request
        return await self._dra.start.request_pod(pod, lambda: request(pod, request_timeout))

    async def _start(self) -> str:
        return await self._dra.start.run(super()._start)

    def is_pod_running(self, pod: Any) -> bool:
        """Whether a pod runs. A start that was cancelled ends here at the latest.

        Before Python 3.12 KubeSpawner loses a cancellation that comes with an answer, in ``asyncio.wait_for``.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        return bool(super().is_pod_running(pod))

    async def _ensure_namespace(self) -> None:
        """Create the user's namespace as KubeSpawner does, with the labels by which the chart's policies know it."""
        ours = {names.HUB_NAMESPACE: self._dra.server.hub_namespace, names.POD_SECURITY: _POD_SECURITY_LEVEL}
        self.set_trait("user_namespace_labels", {**ours, **self.user_namespace_labels})
        await super()._ensure_namespace()

    async def stop(self, now: bool = False) -> None:
        """Stop the pod, and undo the steps of its start."""
        stop = super().stop
        self._dra.home.record_stop()
        await self._dra.start.stop(lambda: stop(now))

    async def _make_delete_pod_request(self, pod_name: str, *arguments: Any) -> bool:
        """Request the deletion, until it is answered where JupyterHub would forget the server after an error.

        The pod would run on with its devices. Of a failed start it is removed in the background.
        """
        request = super()._make_delete_pod_request

        async def answered() -> bool:
            if not await request(pod_name, *arguments):
                raise TimeoutError
            return True

        if self.pending not in ("stop", "check") or self._dra.start.has_failed:
            return bool(await request(pod_name, *arguments))
        return bool(await until_answered(answered, f"delete pod {self.namespace}/{pod_name}", self.log))

    async def poll(self) -> int | None:
        """Return None while the server runs, else its exit code; remember why Kubernetes ended a server that ran.

        A failed start counts as running until `stop` was called. JupyterHub calls `stop` only for servers that run; a
        hub's own class may remove there what it has made in its ``start``. A server that nobody uses, or whose
        time is over, is stopped here, as JupyterHub notices servers that have ended.
        """
        start, home = self._dra.start, self._dra.home
        if start.stop_is_due:
            return None
        stops = start.stops
        if self.pending == "check":
            # A hub that starts takes an error for the end of the server, and forgets the server.
            await until_answered(self._start_watching_pods, "list pods", self.log)
        status: int | None = await super().poll()
        if status is None:
            return await home.stop_if_due()
        await home.record_end(is_stopped=stops != start.stops)
        return status

    # The pages

    @property
    def events(self) -> list[JsonObject]:
        """The pod's events and this project's messages."""
        return self._dra.page.events()

    @property
    def _last_event(self) -> str | None:
        """Uid of the last event before this start; KubeSpawner shows those after it."""
        return self._dra.page.event_before

    @_last_event.setter
    def _last_event(self, uid: str | None) -> None:
        self._dra.page.last_event(uid)

    async def _start_watching_events(self, replace: bool = False) -> Any:
        """Watch events. A start and its progress page call it first: the events so far are of earlier starts."""
        reflector = await super()._start_watching_events(replace)
        self._dra.page.progress.messages.skip(self._dra.server.pod_events())
        return reflector

    async def _start_reflector(self, kind: str, reflector_class: Any, replace: bool = False, **kwargs: Any) -> Any:
        """Start a reflector of KubeSpawner, as our own class, which needs no replacement."""
        reflectors, key = type(self).reflectors, self._get_reflector_key(kind)
        ours = {PodReflector: EndedPodsReflector, EventReflector: PatientEventReflector}
        replace = replace and not isinstance(reflectors.get(key), PatientReflector)
        start = super()._start_reflector(kind, ours.get(reflector_class, reflector_class), replace=replace, **kwargs)
        return await start_shared(start, reflectors, key)

    async def progress(self) -> AsyncIterator[JsonObject]:
        """Yield the progress of the start: a sentence of the moment, and Kubernetes' events for the log."""
        if self.events_enabled:
            await self._start_watching_events()
        page = self._dra.page
        async for item in progress_items(lambda: self.events, page.line, page.has_ended):
            yield item

    async def delete_forever(self) -> None:
        """Delete what KubeSpawner made for a user or a named server; with the user, the user's tickets go, too."""
        if self.tickets and not self.name:
            # Imported here, as most hubs have no queue.
            from dra_spawner.spawner.ticket_access import forget_tickets

            await forget_tickets(self._dra.server)
        await super().delete_forever()

    # The state

    def get_state(self) -> dict[str, Any]:
        """Return the state that JupyterHub stores for this server."""
        return {**super().get_state(), **self._dra.home.record.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over the stored state of this server."""
        super().load_state(state)
        self._dra.home.record = ServerRecord.of_state(state)

    def clear_state(self) -> None:
        """Forget the last start and its profile's changes of traits, but not why it failed."""
        super().clear_state()
        self._dra.server.restore_settings()
        self._dra.home.forget_server()
        self._dra.start.stop_is_due = False
