"""Servers with devices that nobody uses are stopped early."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from traitlets import TraitError

from dra_spawner.spawner.progress.idle_servers import has_devices, idle_seconds, idle_sentence
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.server_context import parts_of
from tests.all_of_them import all_of_them
from tests.spawner.hub_side import HubSide

NOON = datetime(2026, 1, 1, 12)
HOUR = timedelta(hours=1)


@all_of_them(
    "last_activity, started, seconds",
    {
        "used": (NOON - HOUR, NOON - 2 * HOUR, 3600),
        "started since": (NOON - 9 * HOUR, NOON - HOUR, 3600),
        "never used": (None, NOON - HOUR, 3600),
        "nothing known": (None, None, 0),
    },
)
def test_how_long_a_server_is_idle(last_activity: datetime | None, started: datetime | None, seconds: float) -> None:
    assert idle_seconds(last_activity, started, NOON) == seconds


@all_of_them(
    "spec, found",
    {
        "claims": ({"resourceClaims": [{"name": "gpu"}]}, True),
        "a device plugin": ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}, True),
        "none of them": ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "0", "cpu": "1"}}}]}, False),
        "no resources": ({"containers": [{"name": "notebook"}]}, False),
        "nothing": ({}, False),
    },
)
def test_which_pods_have_devices(spec: dict[str, Any], found: bool) -> None:
    assert has_devices({"spec": spec}) is found
    assert not has_devices({})


def test_the_sentence_for_the_user() -> None:
    assert idle_sentence(1800) == "Nobody used it for 30 min, so its devices are free for others now."


async def test_a_profiles_limit_is_kept_over_a_restart_and_not_for_the_next_start(nowhere: HubSide) -> None:
    nowhere.spawner_config.devices_idle_timeout = 1200
    nowhere.spawner_config.profile_list = [
        {"display_name": slug, "slug": slug, "kubespawner_override": override}
        for slug, override in (
            ("cpu", {}),
            ("gpu", {"devices_idle_timeout": 600}),
            ("never", {"devices_idle_timeout": 0}),
        )
    ]
    spawner = nowhere.user("ada").spawner
    for slug, limit in (("gpu", 600), ("never", 0), ("cpu", 1200), ("gpu", 600)):
        spawner.clear_state()
        spawner.user_options = {"profile": slug}
        await spawner.load_user_options()
        parts_of(spawner).home.record_place(parts_of(spawner).page.progress, None)
        assert parts_of(spawner).home.idle_timeout() == limit
        restarted = nowhere.user("eve").spawner
        restarted.load_state(spawner.get_state())
        assert parts_of(restarted).home.idle_timeout() == limit
    assert ServerRecord.of_state({"dra_spawner": {"idle_timeout": True}}) == ServerRecord()
    for wrong in (1, 359, -1):
        with pytest.raises(TraitError):
            spawner.devices_idle_timeout = wrong
