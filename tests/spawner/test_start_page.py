"""How long a failed start looks for a smaller choice that is free."""

import asyncio

import pytest

from dra_spawner.spawner.smaller_choice import SmallerChoice
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused

SMALLER = SmallerChoice("GPU slice, 5 GiB", {"profile": "slice"}, "slice")


@pytest.mark.parametrize(
    ("answer_after", "jupyterhub_waits", "is_told"),
    [
        pytest.param(1.3, 60.0, True, id="as long as JupyterHub waits"),
        pytest.param(0.1, 0.0, True, id="a second in any case"),
        pytest.param(60.0, 0.0, False, id="not longer"),
    ],
)
async def test_a_smaller_choice_is_told_if_it_is_found_in_time(nowhere, answer_after, jupyterhub_waits, is_told):
    spawner = nowhere.user("ada").spawner
    refusal = SpawnRefused("All devices are in use.", RefusalReason.TIMEOUT, 503)
    loop = asyncio.get_running_loop()

    async def search():
        found = loop.create_future()
        loop.call_later(answer_after, found.set_result, SMALLER)
        return await found

    await spawner.explain_failure(refusal, asyncio.create_task(search()), loop.time() + jupyterhub_waits)
    assert ("GPU slice, 5 GiB" in refusal.jupyterhub_html_message) is is_told
    assert "All devices are in use." in refusal.jupyterhub_html_message
