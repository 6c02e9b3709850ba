"""What a user reads who waits while what could run the server is closed, and what an administrator reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dra_spawner.placeholders.controller.answers.pending_servers import pending_servers
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.refusal_text import CLOSED, NO_MACHINE
from tests.placeholders.planner.objects import user_manifest
from tests.service.ahead.acting_service import TwoNodes, controller


@pytest.mark.parametrize(
    ("nodes", "sentence", "cause"),
    [("ab", CLOSED.waiting, "`kubectl uncordon a` opens it"), ("", NO_MACHINE.waiting, "there is no node")],
)
def test_cordoned_nodes_and_no_node_are_said(
    nodes: str, sentence: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TwoNodes, "staleness_seconds", lambda _: 0.0)
    service = controller(nodes=nodes)
    watch = service.watch
    for name in nodes:
        watch.snapshot.put(replace(watch.snapshot.nodes[name].node, is_unschedulable=True))
    watch.put(Kind.POD, user_manifest("ada", cpu="1"))
    (found,) = pending_servers(service)
    assert (found.sentence, cause in found.cause, found.needs_node) == (sentence, True, True), found.cause
