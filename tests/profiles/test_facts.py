"""Whether all devices of a cluster are known, so that what none of them can do is impossible."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dra_spawner.dra.model.objects import ResourceSlice
from dra_spawner.profiles.facts import has_cloud_nodes, published_devices, unpublished_devices

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
OLD, NEW = "2026-11-24T09:00:00Z", "2026-11-24T11:55:00Z"


def node(name: str, *, ready: str = "True", created: Any = OLD, provider: str = "") -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": created}
    return {
        "metadata": metadata,
        "spec": {"providerID": provider},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def slice_of(name: str, driver: str = "gpu", generation: int = 1, count: int = 1, part: int = 0) -> ResourceSlice:
    pool = {"name": name, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": [{"name": f"gpu-{part}"}]}
    return ResourceSlice.from_json({"metadata": {"name": f"{name}-{driver}-{generation}-{part}"}, "spec": spec})


def test_devices_may_be_missing() -> None:
    """Only where nothing of this is so, a choice is impossible."""
    one = [slice_of("a")]
    rows: dict[str, tuple[list[dict[str, Any]], list[ResourceSlice], Any]] = {
        "": ([node("a"), node("cpu")], one, {}),
        "node b is not ready, and publishes no device": ([node("a"), node("b", ready="Unknown")], one, {}),
        "node b has just been added, and publishes no device yet": ([node("a"), node("b", created=NEW)], one, {}),
        "node c has just been added, and publishes no device yet": ([node("a"), node("c", created="soon")], one, {}),
        "node a publishes fewer devices of nic than before": (
            [node("a")],
            one,
            published_devices([slice_of("a", "nic")]),
        ),
        "node a publishes fewer devices of gpu than before": ([node("a")], one, {("a", "gpu"): 2}),
        "pool gpu/a is being updated": ([node("a")], [slice_of("a"), slice_of("a", generation=2, count=2)], {}),
    }
    found = {why: unpublished_devices(nodes, slices, before, NOW) for why, (nodes, slices, before) in rows.items()}
    assert {why: each for why, each in found.items() if why != each} == {}
    silent = unpublished_devices([node("a", ready="False", created=NEW)], one, {}, NOW)
    assert silent == "", "what such a node publishes is known"
    gone = published_devices([slice_of("removed")])
    assert unpublished_devices([node("a")], one, gone, NOW) == ""


def test_clouds_add_nodes() -> None:
    providers = ("", "kind://docker/kind/a", "k3s://a", "aws:///eu-central-1a/i-0123", "gce://p/z/n", "openstack:///x")
    found = [provider for provider in providers if has_cloud_nodes([node("own"), node("a", provider=provider)])]
    assert found == ["aws:///eu-central-1a/i-0123", "gce://p/z/n", "openstack:///x"]
