"""Work of a hub at its start: it checks the profiles, and looks for objects that an earlier hub has left.

JupyterHub has no hook for a spawner class at its start, so the configuration file calls :func:`setup`.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

from jupyterhub.app import JupyterHub
from traitlets.config import Config
from traitlets.utils.importstring import import_item

from dra_spawner.doctor.rules.settings import doubled_settings
from dra_spawner.spawner import DRASpawner
from dra_spawner.spawner.availability.handler import serve_availability
from dra_spawner.spawner.hub_wide import in_background, retry_until_done
from dra_spawner.spawner.my_devices.handler import serve_devices
from dra_spawner.spawner.placement.service import is_configured
from dra_spawner.spawner.shape_publication import SampleUser, ShapePublication
from dra_spawner.versions import Z2JH, installed_problems, minor_version, version_problem

#: User of the spawner that does background work.
_THE_HUB = SampleUser("hub", 0)


def setup(c: Config) -> None:
    """Use DRASpawner in this hub; call it in ``jupyterhub_config.py`` (or ``hub.extraConfig``) as ``setup(c)``.

    When the hub starts, it checks all profiles. If a value is wrong, the hub ends with a list of all problems and their
    paths. Objects that the profiles need and the cluster lacks are logged a little later; meanwhile users who choose
    one of these profiles are refused with a sentence.

    Parameters
    ----------
    c
        The configuration object of the file. It may still be added to afterwards. A subclass of DRASpawner that is
        set already stays.
    """
    if not _is_ours(c.JupyterHub.get("spawner_class")):
        c.JupyterHub.spawner_class = DRASpawner
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return  # not a hub that starts: `jupyterhub token`, `jupyterhub --generate-config` …
    # The rest of the configuration is read before the loop goes on.
    loop.call_soon(_begin)


def _is_ours(chosen: object) -> bool:
    """Whether a configured spawner class, or the name of one, is a DRASpawner."""
    if isinstance(chosen, str) and "." in chosen:
        try:
            chosen = import_item(chosen)
        except ImportError:
            return False
    return isinstance(chosen, type) and issubclass(chosen, DRASpawner)


def _begin() -> None:
    if not JupyterHub.initialized():
        return  # another of JupyterHub's commands that runs a loop
    hub = JupyterHub.instance()
    for sentence in (*version_problems(), *doubled_settings(hub.config)):
        hub.log.warning("%s", sentence)
    try:
        spawner = sample_spawner(hub)
        problems = spawner.configuration_problems()
    except Exception:
        hub.log.critical("The hub ends because its device profiles could not be checked.", exc_info=True)
        sys.exit(1)
    if problems:
        for problem in problems:
            hub.log.critical("Wrong device profile: %s", problem)
        hub.log.critical("The hub ends because of %d wrong values in its device profiles.", len(problems))
        sys.exit(1)
    spawner.begin_sweeping()
    # In the background: the hub's start does not wait for the cluster.
    spawner.begin_checking()
    # Pages and servers of before a restart of the hub ask again.
    in_background(retry_until_done(_serves_devices, "serve servers their devices", hub.log))
    if is_configured(spawner.placement_service):
        ShapePublication(partial(sample_spawner, hub)).begin()
        in_background(retry_until_done(_serves_availability, "serve availability to spawn forms", hub.log))


def version_problems() -> tuple[str, ...]:
    """Sentences about unsupported versions of JupyterHub, KubeSpawner, and zero-to-jupyterhub where that runs the hub.

    None of them ends the hub: JupyterHub and KubeSpawner may have changed nothing that is used here.
    """
    # The module of the chart, with which its jupyterhub_config.py has read the Helm values.
    chart = sys.modules.get("z2jh")
    found = str(chart.get_config("Chart.Version", "")) if chart is not None else ""
    of_chart = version_problem(Z2JH, minor_version(found))
    return (*installed_problems(), *([of_chart] if of_chart else ()))


async def _serves_availability() -> bool:
    return serve_availability()


async def _serves_devices() -> bool:
    return serve_devices()


def sample_spawner(hub: JupyterHub, sample: SampleUser = _THE_HUB) -> DRASpawner:
    """A spawner as the hub configures it, for a sample user. It starts no server."""
    user: Any = SimpleNamespace(name=sample.name, id=sample.id, url=hub.base_url, admin=False, groups=[])
    spawner_class = hub.spawner_class if issubclass(hub.spawner_class, DRASpawner) else DRASpawner
    return spawner_class(
        config=hub.config, user=user, hub=SimpleNamespace(base_url=hub.base_url, public_host="", url="")
    )
