"""The hub learns from the service when drained nodes are back, and does without if it cannot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind
from dra_spawner.service.http.api.override_handlers import setting_json
from dra_spawner.spawner.placement.drain_ends import drain_ends
from dra_spawner.spawner.placement.service_address import ServiceAddress
from tests.local_server import serving_app
from tests.ports import free_port

AT = datetime(2036, 11, 29, 14, tzinfo=UTC)


async def test_ends_of_drains() -> None:
    answers: list[web.Response] = []

    async def settings(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "token secret"
        return answers.pop()

    app = web.Application()
    app.router.add_get("/api/settings", settings)
    async with serving_app(app) as url:
        address = ServiceAddress(f"{url}/", "secret")

        async def found(body: Any, status: int = 200) -> Any:
            answers.append(web.json_response(body, status=status))
            return await drain_ends(address)

        drained = [
            setting_json(Override(kind, name, "user ada", AT, until, "fan"))
            for kind, name, until in (
                (OverrideKind.DRAINING, "n1", AT),
                (OverrideKind.DRAINING, "n2", None),
                (OverrideKind.DEVICES, "gpu.example.com/n3/gpu-0", AT),
            )
        ]
        assert await found({"items": drained}) == {"n1": AT}
        assert await found({"items": drained}, 403) == {}, "an older service does not answer the hub"
        strange: tuple[Any, ...] = (None, 1, [], {"kind": "draining"}, {**drained[0], "name": ["n1"]})
        strange += tuple({**drained[0], "until": each} for each in ("tomorrow", "2036-11-29T14:00:00", 5, "x" * 999))
        assert await found({"items": [*strange, drained[0]]}) == {"n1": AT}
        others: tuple[Any, ...] = ([], {}, {"items": 5}, "x")
        assert [await found(body) for body in others] == [{}] * 4
        answers.append(web.Response(body=b"[" * 100_000))
        assert await drain_ends(address) == {}
        answers.append(web.Response(status=302, headers={"Location": f"{url}/api/settings"}))
        assert await drain_ends(address) == {}, "the token goes nowhere else"
    assert await drain_ends(ServiceAddress(f"http://127.0.0.1:{free_port()}/", "secret")) == {}
    assert await drain_ends(None) == {}
