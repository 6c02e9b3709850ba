"""Tells when people close nodes to new pods, or open them, as by ``kubectl cordon``."""

from __future__ import annotations

from collections.abc import Callable

from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.simulator.model.cluster_objects import Kind


def on_cordon(watch: ClusterWatch, callback: Callable[[], None]) -> None:
    """Call a function after a node was closed or opened, and after a closed one came or went; it must not raise."""
    closed = set[str]()

    def look(change: Change) -> None:
        # All else of a node, as its heartbeats, changes often.
        if change.kind is not Kind.NODE or not change.decides:
            return
        name = change.key.name
        state = watch.snapshot.nodes.get(name)
        if (state is not None and state.node.is_unschedulable) != (name in closed):
            closed.symmetric_difference_update((name,))
            callback()

    watch.on_change(look)
