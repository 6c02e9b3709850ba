"""Images that come to the node and go show in its status."""

from __future__ import annotations

from pathlib import Path

from dra_spawner.json_types import JsonObject
from tests.cluster.under_test import ClusterUnderTest

from .images import NOTEBOOK, PAUSE, QUICK_SERVER, notebook_image, write_image
from .real_node import RealNode

IMAGE = "images.test/course:2"


def names(found: JsonObject) -> set[str]:
    return {name for image in found["status"].get("images") or [] for name in image["names"] or []}


async def test_images_show_in_the_status_of_the_node(node: RealNode, node_cluster: ClusterUnderTest, tmp_path: Path):
    path = f"/api/v1/nodes/{node.name}"
    await node_cluster.wait_for(path, lambda found: {PAUSE, QUICK_SERVER, NOTEBOOK} <= names(found))
    node.containerd.import_image(write_image(tmp_path / "image.tar", IMAGE, {"course": b"text"}))
    node.containerd.remove_image(NOTEBOOK)
    try:
        # A kubelet lists images every 30 s.
        await node_cluster.wait_for(path, lambda found: IMAGE in names(found) and NOTEBOOK not in names(found))
        assert {PAUSE, QUICK_SERVER} <= names(node.node())
    finally:
        node.containerd.remove_image(IMAGE)
        node.containerd.import_image(notebook_image(tmp_path / "image.tar"))
