"""A hub with its service for tests of pages: placeholders, a day of history, calendar entries, and users of all kinds."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from dra_spawner import names
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch, WaitCause
from dra_spawner.kube.client.api import resource_path
from tests.cluster.access import manifests
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.handover_hub import Hub, prepare

#: Its forecast, and so its target, depends on the time of the day.
BUSY_CHOICE = "gpu-whole"
HOSTILE = "<img src=x onerror=alert(1)>"
_GROUPS = """
c.JupyterHub.load_groups = {"gpu-watchers": {"users": ["watcher"]}, "gpu-operators": {"users": ["operator"]},
                            "gpu-admins": {"users": ["manager"]}, "gpu-teachers": {"users": ["teacher"]}}
"""


def past_launches(now: datetime) -> Iterator[Launch]:
    """Two weeks of launches: a rush on each morning, of which some servers waited for a node."""
    random = Random(7)
    for day in range(14):
        for number in range(60):
            hour = min(max(random.gauss(9.5, 2.4), 0), 23.9) if number % 3 else random.uniform(0, 24)
            midnight = (now - timedelta(days=day)).replace(hour=0, minute=0, second=0, microsecond=0)
            asked = midnight + timedelta(hours=hour)
            if asked > now - timedelta(minutes=1):
                continue
            waited = random.random() < (0.3 if 9 < hour < 10 else 0.04)
            seconds = random.uniform(60, 320) if waited else random.uniform(0.3, 3)
            yield Launch(
                f"{day}-{number}",
                asked,
                profile=BUSY_CHOICE,
                choice=BUSY_CHOICE,
                user=f"user-{number}",
                pod=f"jupyter-user-{number}",
                bound=asked + timedelta(seconds=seconds),
                ended=asked + timedelta(minutes=30),
                warm=not waited,
                cause=WaitCause.NODE if waited else WaitCause.NONE,
            )


def settings(history: Path, now: datetime) -> str:
    """More settings of the service."""
    begins = (now + timedelta(hours=3)).replace(minute=0)
    entries = [
        {"users": "8 of gpu-slice", "begins": f"{begins:%Y-%m-%d %H:%M}", "minutes": 90, "name": f"Lab {HOSTILE}"},
        {"users": "400 of gpu-slice", "begins": f"{begins + timedelta(hours=4):%Y-%m-%d %H:%M}", "name": "Exam"},
    ]
    return f"""
c.DRASpawnerService.placeholders = {{"gpu-slice": {{"min": 2, "max": 20}}, "gpu-whole": {{"min": 2, "max": 3}}}}
c.DRASpawnerService.history = {{"url": "sqlite:///{history}"}}
c.DRASpawnerService.scale_ahead = "act"
c.DRASpawnerService.lease_seconds = 120
c.DRASpawnerService.reservation_seconds = 300
c.DRASpawnerService.max_failed_replacements = 1
c.DRASpawnerService.calendar_entries = {entries!r}
c.DRASpawnerService.class_limits = {{"*": {{"users": 1}}, "group:gpu-teachers": {{"users": 77}}}}
"""


@contextlib.asynccontextmanager
async def override_hub(cluster: ClusterUnderTest) -> AsyncIterator[Hub]:
    """The hub, with users ``watcher``, ``operator``, ``manager`` and ``teacher`` of the roles, and ``student``."""
    now = datetime.now(UTC)
    await prepare(cluster)
    found = manifests(cluster.namespace)
    (config_map,) = [each for each in found if each["metadata"]["name"] == names.SETTINGS_CONFIG_MAP]
    await cluster.admin.create(resource_path("v1", "configmaps", cluster.namespace), config_map)
    hub = Hub(cluster, await service_kubeconfig(cluster), _GROUPS)
    database = HistoryDatabase.open(f"sqlite:///{hub.directory / 'history.sqlite'}")
    database.add(past_launches(now))
    database.close()
    with (hub.directory / "service_config.py").open("a") as config:
        config.write(settings(hub.directory / "history.sqlite", now))
    async with hub:
        for user in ("watcher", "operator", "manager", "teacher", "student"):
            await hub.add_user(user)
        await hub.until_service_ready()
        yield hub
