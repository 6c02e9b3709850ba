"""Work of a hub at its start: it checks the profiles, and looks for objects that an earlier hub has left.

JupyterHub has no hook for a spawner class at its start, so the configuration file calls :func:`setup`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

from jupyterhub.app import JupyterHub
from traitlets import TraitError
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from dra_spawner.common.owned_tasks import run_again
from dra_spawner.common.project_links import where
from dra_spawner.doctor.rules.settings import doubled_settings
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.hub_addresses import AVAILABILITY, DEVICES, TICKETS, serve
from dra_spawner.spawner.hub_parts.hub_wide import retry_until_done, this_hub
from dra_spawner.spawner.hub_start.configuration_problems import configuration_problems
from dra_spawner.spawner.hub_start.hub_class import (
    asks_for_devices,
    class_problem,
    is_combined,
    spawner_class_of,
    with_devices,
    without_code_of_others,
)
from dra_spawner.spawner.hub_start.profile_check import begin_checking
from dra_spawner.spawner.placement.service import is_configured
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.server_start import begin_sweeps
from dra_spawner.versions import Z2JH, installed_problems, minor_version, version_problem

#: Seconds between looks for the hub's web application; they make no requests.
_LOOK_SECONDS = 0.1


def setup(c: Config) -> None:
    """Use DRASpawner in this hub; call it in ``jupyterhub_config.py`` (or ``hub.extraConfig``) as ``setup(c)``.

    When the hub starts, it checks all profiles. If a value is wrong, the hub ends with a list of all problems and their
    paths. Objects that the profiles need and the cluster lacks are logged a little later; meanwhile users who choose
    one of these profiles are refused with a sentence.

    Parameters
    ----------
    c
        The configuration object of the file. It may still be added to afterwards. A spawner class that is set already
        stays: one that is based on KubeSpawner gets DRASpawner as its base (`with_devices`).
    """
    chosen = c.JupyterHub.get("spawner_class")
    if chosen is None or isinstance(chosen, LazyConfigValue):
        c.JupyterHub.spawner_class = DRASpawner
    elif (found := spawner_class_of(chosen)) is not None:
        c.JupyterHub.spawner_class = with_devices(found)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return  # not a hub that starts: `jupyterhub token`, `jupyterhub --generate-config` …
    # The rest of the configuration is read before the loop goes on.
    loop.call_soon(_begin)


def add_named(section: Config, name: str, entries: Iterable[Mapping[str, Any]]) -> None:
    """Add services or roles to the hub's configuration. If the hub has one of the same name, that one stays.

    Parameters
    ----------
    section
        ``c.JupyterHub``.
    name
        ``services`` or ``load_roles``.
    """
    if isinstance(configured := section[name], tuple):
        configured = section[name] = list(configured)
    # A list that was only added to so far has no value yet.
    there = configured.to_dict().values() if isinstance(configured, LazyConfigValue) else (configured,)
    taken = {each.get("name") for each in chain(*there) if isinstance(each, Mapping)}
    for entry in entries:
        if entry["name"] not in taken:
            configured.append(entry)
        elif JupyterHub.initialized():
            JupyterHub.instance().log.warning(
                "c.JupyterHub.%s: %r of this hub's configuration stays, and that of dra-spawner is not added",
                name,
                entry["name"],
            )


def _begin() -> None:
    if not JupyterHub.initialized():
        return  # another of JupyterHub's commands that runs a loop
    begun: list[JupyterHub] = this_hub().shared(setup, list)
    if not begun:  # several pieces of a configuration may call `setup`
        begun.append(JupyterHub.instance())
        begin(begun[0])


def begin(hub: JupyterHub) -> None:
    """Do what a hub does when its configuration is read.

    Raises
    ------
    SystemExit
        If the configuration is wrong, so that servers could not start; the log says why.
    """
    _go_on(hub, "log each refusal in one line", partial(_shorten_log, hub))
    _go_on(hub, "look for unsupported versions", lambda: _warn(hub, version_problems()))
    _go_on(hub, "look for settings with two values", lambda: _warn(hub, doubled_settings(hub.config)))
    if (problem := class_problem(hub.spawner_class)) and _asks_for_devices(hub.config):
        hub.log.critical("The hub ends, as no server of a profile with devices could start. %s", problem)
        sys.exit(1)
    if problem:
        hub.log.warning("%s Profiles with devices do not work with it.", problem)
    if is_combined(hub.spawner_class):
        name = hub.spawner_class.__name__
        hub.log.info("%s is based on KubeSpawner, and has devices as if it were class %s(DRASpawner)", name, name)
    try:
        spawner = settings_spawner(hub)
        server = spawner._dra.server
        problems = configuration_problems(server)
    except TraitError as error:
        hub.log.critical("The hub ends because of a wrong setting of its spawner: %s", error)
        sys.exit(1)
    except Exception:
        # Each start is checked, too.
        hub.log.exception("The device profiles are not checked, and the hub goes on")
        return
    if problems:
        for found in problems:
            hub.log.critical("Wrong device profile: %s", found)
        hub.log.critical("The hub ends because of %d wrong values in its device profiles.", len(problems))
        sys.exit(1)
    _go_on(hub, "look for objects that an earlier hub has left", partial(begin_sweeps, server))
    # In the background: the hub's start does not wait for the cluster.
    _go_on(hub, "check the device profiles against the cluster", partial(begin_checking, server))
    # Pages and servers of before a restart of the hub ask again.
    this_hub().begin(retry_until_done(_serves_devices, "serve servers their devices", hub.log), "serving of devices")
    if spawner.tickets:
        _go_on(hub, "look for the service of the queue", lambda: _warn(hub, ticket_problems(spawner)))
        serves = partial(_serves_tickets, server)
        this_hub().begin(retry_until_done(serves, "serve the queue to pages", hub.log), "serving of the queue")
    if is_configured(spawner.placeholder_service):
        this_hub().begin(
            run_again(partial(_publish, hub, spawner), "publication of shapes", hub.log), "publication of shapes"
        )
        _go_on(hub, "look for the service's role", lambda: _warn(hub, role_problems(hub, spawner.placeholder_service)))
        this_hub().begin(
            retry_until_done(_serves_availability, "serve availability to spawn forms", hub.log),
            "serving of availability",
        )


def _shorten_log(hub: JupyterHub) -> None:
    from dra_spawner.spawner.hub_start.refusal_log import filter_refusals

    filter_refusals(hub.log)


def _go_on(hub: JupyterHub, what: str, work: Callable[[], object]) -> None:
    """Do work without which a hub can do; an error is logged."""
    try:
        work()
    except Exception:
        hub.log.exception("Could not %s", what)


def _warn(hub: JupyterHub, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        hub.log.warning("%s", sentence)


def _asks_for_devices(config: Config) -> bool:
    """Whether the spawner's configuration has devices; what a function returns is not known."""
    return any(asks_for_devices(config[section]) for section in config if section.endswith("Spawner"))


async def _publish(hub: JupyterHub, spawner: DRASpawner) -> None:
    """Publish the shapes of all choices, from when the hub can create spawners of users."""
    # Imported here, as a hub without the service publishes none.
    from dra_spawner.spawner.hub_start.sample_users import SampleSpawners
    from dra_spawner.spawner.hub_start.shape_publication import ShapePublication

    while getattr(hub, "tornado_application", None) is None:  # noqa: ASYNC110 - the hub has no event
        await asyncio.sleep(_LOOK_SECONDS)
    await ShapePublication(spawner, SampleSpawners(hub.tornado_settings).new).run()


def version_problems() -> tuple[str, ...]:
    """Sentences about unsupported versions of JupyterHub, KubeSpawner, and zero-to-jupyterhub where that runs the hub.

    None of them ends the hub: JupyterHub and KubeSpawner may have changed nothing that is used here.
    """
    # The module of the chart, with which its jupyterhub_config.py has read the Helm values.
    chart = sys.modules.get("z2jh")
    found = str(chart.get_config("Chart.Version", "")) if chart is not None else ""
    of_chart = version_problem(Z2JH, minor_version(found))
    return (*installed_problems(), *([of_chart] if of_chart else ()))


def role_problems(hub: JupyterHub, service: str) -> tuple[str, ...]:
    """A sentence if the service has no role. A later ``c.JupyterHub.load_roles = [...]`` removes it, for example."""
    has_role = any(service in (role.get("services") or ()) for role in hub.load_roles)
    is_admin = any(each.get("name") == service and each.get("admin") for each in hub.services)
    if has_role or is_admin:
        return ()
    return (
        f"c.JupyterHub.load_roles has no role of the service {service}, so it counts servers only once they have a "
        f"pod; add one with the scopes list:users and read:servers ({where('helm-values/full.yaml')})",
    )


def ticket_problems(spawner: DRASpawner) -> tuple[str, ...]:
    """Sentences about settings with which no user in the queue ever gets a device."""
    found = []
    if not is_configured(spawner.placeholder_service):
        found.append(
            f"c.DRASpawner.tickets is on, but this hub has no service {spawner.placeholder_service!r}, which holds "
            "devices for users in the queue"
        )
    if spawner.enable_user_namespaces:
        found.append(
            "c.DRASpawner.tickets is on, but no device is held for users in the queue with enable_user_namespaces: "
            "a claim stays in its namespace"
        )
    return tuple(found)


async def _serves_availability() -> bool:
    return serve(AVAILABILITY)


async def _serves_tickets(server: ServerContext) -> bool:
    from dra_spawner.spawner.ticket_access import follow_names  # few hubs have a queue

    if not serve(TICKETS):
        return False
    follow_names(server, JupyterHub.instance().db)
    return True


async def _serves_devices() -> bool:
    return serve(*DEVICES)


def settings_spawner(hub: JupyterHub) -> DRASpawner:
    """A spawner with the hub's settings, for a user who does not exist; it runs none of the hub's own code."""
    user: Any = SimpleNamespace(name="hub", id=0, url=hub.base_url, admin=False, groups=[])
    return without_code_of_others(hub.spawner_class)(
        config=hub.config, user=user, hub=SimpleNamespace(base_url=hub.base_url, public_host="", url="")
    )
