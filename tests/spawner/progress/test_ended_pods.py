"""The last state of a pod that is gone is kept, whether the watch or a new list shows it."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from dra_spawner.spawner.progress.ended_pods import EndedPodsReflector


def pod(name: str, uid: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name, "uid": uid}}


class Api:
    """Lists of pods, one after the other."""

    def __init__(self, *lists: list[dict[str, Any]]) -> None:
        self.lists = list(lists)

    async def list_namespaced_pod(self, **_: Any) -> Any:
        listed = json.dumps({"metadata": {"resourceVersion": "7"}, "items": self.lists.pop(0)})

        async def read() -> str:
            return listed

        return SimpleNamespace(ok=True, read=read)


async def list_again(reflector: EndedPodsReflector) -> None:
    await reflector.start()
    reflector.watch_task.cancel()
    await asyncio.wait({reflector.watch_task})


async def test_pods_that_are_gone_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = pod("a", "1"), pod("b", "2")
    api = Api([a, b], [a], [a], [])
    monkeypatch.setattr("kubespawner.reflector.shared_client", lambda name: api)
    reflector = EndedPodsReflector(namespace="ns")

    await list_again(reflector)
    assert reflector.ended == {}
    await list_again(reflector)
    assert reflector.ended == {"ns/b": b}
    # An equal list; then the watch shows an eviction and the end.
    await list_again(reflector)
    reflector.resources["ns/a"] = pod("a", "evicted")
    reflector.resources.pop("ns/a", None)
    reflector.resources.pop("ns/c", None)
    assert reflector.ended == {"ns/b": b, "ns/a": pod("a", "evicted")}
    await list_again(reflector)
    assert reflector.pods == {}


async def test_a_cluster_that_hangs_is_silent_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that hangs is KubeSpawner's to notice, after a minute; that no list follows it is seen after 15 s."""
    now = 100.0
    monkeypatch.setattr("dra_spawner.spawner.progress.ended_pods.monotonic", lambda: now)
    monkeypatch.setattr("kubespawner.reflector.shared_client", lambda name: Api([], []))
    reflector = EndedPodsReflector(namespace="ns")
    assert not reflector.is_silent(), "it has not begun"
    await list_again(reflector)
    for now, is_silent in ((114.0, False), (116.0, True), (200.0, True)):
        assert reflector.is_silent() is is_silent, now
    await list_again(reflector)
    assert not reflector.is_silent()
    reflector.timeout_seconds = 0
    now = 1000.0
    assert not reflector.is_silent(), "a watch without an end"
