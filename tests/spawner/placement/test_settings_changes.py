"""The hub hears from the service when people change its settings."""

from __future__ import annotations

from aiohttp import web

from dra_spawner.service.change_feed import ChangeFeed
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub
from dra_spawner.spawner.placement.settings_changes import settings_changes
from tests.local_server import serving_app
from tests.polling import eventually
from tests.spawner.service_stand_in import PREFIX, TOKEN, service_of_the_hub


async def test_changes_of_settings_are_heard_and_others_are_not() -> None:
    feed, asked = ChangeFeed(), list[str]()

    async def events(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"token {TOKEN}"
        asked.append(request.headers.get("Last-Event-ID", ""))
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        with feed.stream(asked[-1], 60) as found:
            async for each in found:
                await answer.write(each)
        return answer

    app = web.Application()
    app.router.add_get(f"{PREFIX}api/events", events)
    async with serving_app(app) as url:
        assert settings_changes("dra-spawner").heard() == 0, "there is no service"
        with service_of_the_hub(url):
            changes = settings_changes("dra-spawner")
            await eventually(lambda: changes.heard() and feed.streams, "a stream is open; what was before is not known")
            before = changes.heard()
            feed.note(["settings", "nodes"])
            await eventually(lambda: changes.heard() > before, "the change is heard")
            feed.note(["nodes"])
            await eventually(lambda: feed.last_id.endswith("-2"), "another change is published")
            feed.publish("decision", {"resources": ["settings"]})
            feed.note(["settings"])
            await eventually(lambda: changes.heard() > before + 1, "the next change is heard")
            assert changes.heard() == before + 2
            forget_hub()
    assert asked == [""], "one stream for all who ask"
