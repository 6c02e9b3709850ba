"""When people close and open nodes, and nothing else of a node, is told."""

from __future__ import annotations

from typing import Any

from dra_spawner.kube.cordons import on_cordon
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.service.unstarted_watch import UnstartedWatch


def test_cordons() -> None:
    watch, told = UnstartedWatch(), list[None]()
    on_cordon(watch, lambda: told.append(None))

    def put(number: int, name: str, **spec: Any) -> None:
        labels = {"number": f"{number}"}
        watch.put(Kind.NODE, {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec})

    seen = []
    states = {"new": ("a", 0), "new, closed": ("b", 1), "closed": ("a", 1), "stays so": ("a", 1), "open": ("a", 0)}
    for number, (state, (name, is_closed)) in enumerate(states.items()):
        before = len(told)
        put(number, name, unschedulable=bool(is_closed))
        seen += [state] * (len(told) - before)
    assert seen == ["new, closed", "closed", "open"]
    watch.remove(Kind.NODE, ObjectKey("", "a"))
    assert len(told) == 3
    watch.remove(Kind.NODE, ObjectKey("", "b"))
    assert len(told) == 4, "a closed one has gone"
