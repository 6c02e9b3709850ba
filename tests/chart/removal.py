"""The steps of docs/how-to/uninstall.md, for an installed hub whose servers run."""

from __future__ import annotations

import asyncio
import io
import json
from functools import partial
from typing import Any

from dra_spawner.commands.removing.uninstall_command import UninstallOptions, run_uninstall
from tests.chart.hub_release import HubRelease
from tests.commands.removing.left_objects import marked_objects
from tests.polling import eventually

_GONE_SECONDS = 120


async def remove_as_documented(hub: HubRelease, user: str) -> None:
    """Remove this project while a server of the user runs, and again when the user has stopped it."""
    await hub.remove_from_hub()
    await hub.uninstall_chart()
    # `helm uninstall` removes the right of the service to give up its Lease, which is valid for some seconds more.
    code, found, problems = await eventually(partial(_uninstall_if_no_replica_leads, hub), "no replica leads")
    assert (code, problems) == (0, ""), (problems, found)
    removed = {each["kind"] for each in found["removed"]}
    assert {"ConfigMap", "Lease", "Pod", "ResourceClaim"} <= removed, found
    assert "Node" in {each["kind"] for each in found["unmarked"]}, found
    assert {each["leftTo"] for each in found["left"]} == {"users"}, found
    async with await hub.browser(user) as browser:
        await browser.stop()

        async def is_gone() -> bool:
            return await hub.server_of(user) is None

        await eventually(is_gone, "the server is gone", shows=hub.cluster.logs)
    code, found, problems = await _uninstall(hub)
    assert (code, problems, found["left"]) == (0, "", []), (problems, found)
    code, found, problems = await _uninstall(hub)
    assert (code, problems, found["removed"], found["unmarked"], found["left"]) == (0, "", [], [], []), found
    left = await marked_objects(hub.cluster.api)
    assert left == {}, left


async def _uninstall_if_no_replica_leads(hub: HubRelease) -> tuple[int, Any, str] | None:
    code, found, problems = await _uninstall(hub)
    return None if found["leaders"] else (code, found, problems)


async def _uninstall(hub: HubRelease) -> tuple[int, Any, str]:
    """Exit code, report and messages of ``dra-spawner uninstall``."""
    options = UninstallOptions(
        kubeconfig=str(hub.cluster.plane.admin_kubeconfig), as_json=True, gone_seconds=_GONE_SECONDS
    )
    output, messages = io.StringIO(), io.StringIO()
    code = await asyncio.to_thread(partial(run_uninstall, options, output, messages))
    return code, json.loads(output.getvalue() or "null"), messages.getvalue()
