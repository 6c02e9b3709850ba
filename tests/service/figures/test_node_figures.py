"""Figures of all nodes: after updates by changes they equal figures that are computed anew."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_spawner.kube.cluster_watch import Change, ChangeType
from dra_spawner.service.figures.node_figures import NodeFigures
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim, allocated_devices
from dra_spawner.simulator.model.cluster_objects import BrokenObject, Kind
from dra_spawner.simulator.snapshot import Snapshot
from tests.examples import example_count
from tests.service.unstarted_watch import UnstartedWatch
from tests.simulator import strategies as some

KINDS: Mapping[str, Kind] = {
    "SchedulableNode": Kind.NODE,
    "Pod": Kind.POD,
    "TrackedClaim": Kind.RESOURCE_CLAIM,
    "ClaimTemplate": Kind.RESOURCE_CLAIM_TEMPLATE,
    "DeviceClass": Kind.DEVICE_CLASS,
    "ResourceSlice": Kind.RESOURCE_SLICE,
    "DeviceTaintRule": Kind.DEVICE_TAINT_RULE,
}


def put(watch: UnstartedWatch, item: Any) -> None:
    if isinstance(item, BrokenObject):
        kind, key = item.kind, item.key
    else:
        kind = KINDS[type(item).__name__]
        namespaced = kind in (Kind.POD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_CLAIM_TEMPLATE)
        name = item.key.name if isinstance(item, TrackedClaim) else item.name
        key = ObjectKey(some.NAMESPACE if namespaced else "", name)
    watch.snapshot.mirror(item)
    watch.notify(Change(ChangeType.CHANGED, kind, key, decides=True))


def forget(watch: UnstartedWatch, kind: Kind, key: ObjectKey) -> None:
    watch.snapshot.forget(kind, key)
    watch.notify(Change(ChangeType.REMOVED, kind, key, decides=True))


def allocated(snapshot: Snapshot, claim: TrackedClaim) -> TrackedClaim:
    """The claim with devices of the first node that has some for it."""
    for name in snapshot.nodes:
        try:
            found = snapshot.state.devices.allocate(name, [claim.claim])
        except Exception:
            return claim
        if isinstance(found, tuple):
            return claim.allocated(allocated_devices(found[0], claim.claim))
    return claim


def present(snapshot: Snapshot) -> list[tuple[Kind, ObjectKey]]:
    return [
        *((Kind.NODE, ObjectKey("", name)) for name in snapshot.nodes),
        *((Kind.RESOURCE_SLICE, ObjectKey("", name)) for name in snapshot.slices),
        *((Kind.DEVICE_CLASS, ObjectKey("", name)) for name in snapshot.classes),
        *((Kind.DEVICE_TAINT_RULE, ObjectKey("", name)) for name in snapshot.state.devices.taint_rules),
        *((Kind.RESOURCE_CLAIM, key) for key in snapshot.claims),
        *((Kind.POD, key) for key in snapshot.pods),
    ]


@settings(max_examples=example_count(60), suppress_health_check=list(HealthCheck))
@given(cluster=some.clusters(), data=st.data())
def test_figures_follow_any_changes(cluster: list[Any], data: st.DataObject):
    watch = UnstartedWatch()
    figures = NodeFigures(watch, ("zone",))
    for item in cluster:
        put(watch, item)
    for _ in range(data.draw(st.integers(1, 12))):
        change(watch, data)
        asyncio.run(figures.refresh())
        fresh = NodeFigures(watch, ("zone",))
        asyncio.run(fresh.refresh())
        assert figures.by_class == fresh.by_class
        assert figures.unknown_nodes == fresh.unknown_nodes


def change(watch: UnstartedWatch, data: st.DataObject) -> None:
    """One change; claims come and go with devices more often than anything else."""
    action = data.draw(st.sampled_from(["allocate", "allocate", "deallocate", "forget", "put"]))
    if action == "forget" and (found := present(watch.snapshot)):
        forget(watch, *data.draw(st.sampled_from(found)))
    elif action in ("allocate", "deallocate") and watch.snapshot.claims:
        claim = watch.snapshot.claims[data.draw(st.sampled_from(sorted(watch.snapshot.claims)))]
        if action == "deallocate":
            put(watch, claim.deallocated())
        elif not claim.claim.is_allocated:
            put(watch, allocated(watch.snapshot, claim))
    else:
        put(watch, data.draw(some.objects))


def test_pages_of_nodes():
    watch = UnstartedWatch()
    figures = NodeFigures(watch)
    for number in range(5):
        manifest = {"metadata": {"name": f"n{number}"}, "kind": "Node", "apiVersion": "v1"}
        watch.put(Kind.NODE, manifest)

    def names(**options: Any) -> tuple[list[str], str]:
        nodes, after = asyncio.run(figures.nodes(**options))
        return [node["name"] for node in nodes], after

    assert names(limit=2) == (["n0", "n1"], "n1")
    assert names(limit=2, after="n1") == (["n2", "n3"], "n3")
    # The node that a page ended with may be gone by now.
    watch.remove(Kind.NODE, ObjectKey("", "n3"))
    assert names(limit=2, after="n3") == (["n4"], "")
    assert names(name="n2") == (["n2"], "")
    assert names(name="missing") == ([], "")
    assert names(limit=0) == ([], "")
