"""Who reads whose server was idle: administrators alone, by no address and no filter."""

from __future__ import annotations

from datetime import UTC, datetime

from dra_spawner import names
from dra_spawner.history.decision_log import Decision, DecisionLog, NumberedDecision
from dra_spawner.placeholders.lifecycle import IdleAction
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.api.handlers import decision_json
from dra_spawner.service.web_settings import WebSettings
from tests.local_server import get
from tests.service.open_service import whole_service

NOW = datetime(2026, 11, 23, tzinfo=UTC)
ADDRESSES = ("api/decisions", "api/decisions?node=n1", "decisions", "decisions?search=jupyter-ada", "decisions?node=n1")


def decided() -> ServiceContext:
    context = ServiceContext(WebSettings("/"), DecisionLog(), max_staleness_seconds=60)
    for kind in IdleAction:
        context.decisions.append(Decision(NOW, kind, "Pod hub/jupyter-ada", "No kernel computes.", "idle", "n1"))
    # Of placeholders, and so of servers that get one, readers know all.
    context.decisions.append(Decision(NOW, "reserve-placeholder", "Pod hub/jupyter-bob", "It is free.", node="n2"))
    return context


async def test_only_administrators_read_whose_server_was_idle() -> None:
    found: dict[str, list[bool]] = {}
    for scope in (names.ADMIN_SCOPE, names.READ_SCOPE):
        async with whole_service(decided(), scope) as url:
            texts = [(await get(f"{url}{each}"))[1].replace("search=jupyter-ada", "") for each in ADDRESSES]
        found[scope] = ["Pod hub/jupyter-ada" in each for each in texts]
        assert "Pod hub/jupyter-bob" in texts[0]
        assert "No kernel computes." in texts[0]
    assert found == {names.ADMIN_SCOPE: [True] * 5, names.READ_SCOPE: [False] * 5}
    shown = NumberedDecision(1, Decision(NOW, IdleAction.STOP, "Pod hub/jupyter-ada", "", node="n1"))
    assert (decision_json(shown, with_names=False)["node"], decision_json(shown, with_names=True)["node"]) == ("", "n1")
