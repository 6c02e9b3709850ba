"""A real hub's own records, imported by all the ways in which it gives them out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dra_spawner.history.imports.jupyterhub_import import JupyterHubSource
from dra_spawner.history.records import Launch
from dra_spawner.history.user_names import UserNames
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, shareable
from tests.integration.hub_process import HubProcess

_EVENTS = """
import pytest
import logging
c.EventLogger.handlers = [logging.FileHandler("events.log")]
"""


def launches(source: Path | str, token_file: str = "") -> list[Launch]:
    # Log lines of this second are not later than the next second.
    now = datetime.now(UTC) + timedelta(seconds=1)
    found = list(JupyterHubSource(str(source), UserNames(b"k" * 32), now, token_file).rows())
    assert all(isinstance(each, Launch) for each in found), found
    return [each for each in found if isinstance(each, Launch)]


@pytest.mark.promise("Launches can be imported from the hub's REST API, database or event log.")
async def test_rest_api_database_and_event_log_show_the_same_servers(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await cluster.publish(*classes(), *node_with("node-a", shareable("gpu-0")))
    began = datetime.now(UTC)
    async with HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, _EVENTS) as hub:
        for user in ("ada", "bob"):
            await hub.spawn(user, {"profile": "gpu-slice"})
            await hub.until_ready(user)
        await hub.stop_server("bob")
        token = hub.directory / "token"
        token.write_text(hub.token)
        (from_api,) = await _in_thread(f"{hub.url}/hub/api", str(token))
        (from_database,) = await _in_thread(hub.directory / "hub.sqlite")
        ada, bob = sorted(await _in_thread(hub.directory / "events.log"), key=lambda each: each.user)
    assert (from_api.user, from_api.profile) == ("ada", "gpu-slice")
    assert from_api == from_database
    assert began <= from_api.asked < datetime.now(UTC)
    assert (ada.user, bob.user) == ("ada", "bob")
    assert ada.running is not None
    assert ada.running > from_api.asked, "the log shows a start when it has succeeded"
    assert ada.ended is None
    assert bob.ended is not None
    assert bob.running is not None
    assert bob.ended > bob.running


async def _in_thread(source: Path | str, token_file: str = "") -> list[Launch]:
    return await asyncio.to_thread(launches, source, token_file)
