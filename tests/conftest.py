"""Fixtures of all tests."""

from .cluster.fixtures import (
    background_loop,
    cluster,
    control_plane,
    control_plane_path,
    control_plane_report,
    embedded_cluster,
    real_cluster,
)

__all__ = [
    "background_loop",
    "cluster",
    "control_plane",
    "control_plane_path",
    "control_plane_report",
    "embedded_cluster",
    "real_cluster",
]
