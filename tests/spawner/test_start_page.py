"""How long a failed start looks for a smaller choice that is free."""

import asyncio

from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.smaller_choice import SmallerChoice
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from tests.all_of_them import all_of_them

SMALLER = SmallerChoice("GPU slice, 5 GiB", {"profile": "slice"}, "slice")


@all_of_them(
    "answer_after, jupyterhub_waits, is_told",
    {
        "as long as JupyterHub waits": (1.3, 60.0, True),
        "a second in any case": (0.1, 0.0, True),
        "not longer": (60.0, 0.0, False),
    },
)
async def test_a_smaller_choice_is_told_if_it_is_found_in_time(nowhere, answer_after, jupyterhub_waits, is_told):
    spawner = nowhere.user("ada").spawner
    refusal = SpawnRefused("All devices are in use.", RefusalReason.TIMEOUT, 503)
    loop = asyncio.get_running_loop()

    async def search():
        found = loop.create_future()
        loop.call_later(answer_after, found.set_result, SMALLER)
        return await found

    await parts_of(spawner).page.explain_failure(refusal, asyncio.create_task(search()), loop.time() + jupyterhub_waits)
    assert ("GPU slice, 5 GiB" in refusal.jupyterhub_html_message) is is_told
    assert "All devices are in use." in refusal.jupyterhub_html_message
