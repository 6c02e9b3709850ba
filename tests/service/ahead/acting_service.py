"""A service that acts on forecasts, without an API server: what its watch has read is given."""

from __future__ import annotations

from datetime import UTC
from typing import Final

from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode, read_calendar_entries
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead, ScaleAheadSettings
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.policies import DemandPolicy
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.placeholders.planner.objects import NAMESPACE, SHARE, node_objects
from tests.placeholders.planner.simulated_cluster import START
from tests.service.unstarted_watch import UnstartedWatch, unstarted_controller

#: An entry of users of its one choice.
PHYSICS: Final = {"users": "20 of gpu-slice", "begins": "2026-03-02 10:00", "name": "physics"}


class TwoNodes(UnstartedWatch):
    """Two nodes that run eight servers each, all read."""

    is_read = True

    def __init__(self, nodes: str = "ab") -> None:
        super().__init__()
        for name in nodes:
            node, gpus = node_objects(name, "10", 2, "40Gi", SHARE.images, START.isoformat())
            self.put(Kind.NODE, node)
            self.put(Kind.RESOURCE_SLICE, gpus)
        self.put(Kind.DEVICE_CLASS, {"kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}, "spec": {}})

    @property
    def synced(self) -> bool:
        return self.is_read


def controller(
    most: int = 100,
    nodes: str = "ab",
    mode: ScaleAheadMode = ScaleAheadMode.ACT,
    policies: dict[str, DemandPolicy] | None = None,
    *,
    has_autoscaler: bool = True,
) -> ScaleAheadController:
    """It acts, and there is an autoscaler."""
    settings = ControllerSettings(
        NAMESPACE,
        {"gpu-slice": ReplicaRange(0, most)},
        placeholders=PlaceholderSettings(NAMESPACE),
        has_autoscaler=has_autoscaler,
    )
    ahead = ScaleAhead(ScaleAheadSettings(mode, policies=policies or {}))
    found = unstarted_controller(settings, TwoNodes(nodes), now=lambda: START, scale_ahead=ahead)
    found.shapes.put(published_config_map(PublishedShapes({"gpu-slice": SHARE}), NAMESPACE, {}))
    return found


def announce(service: ScaleAheadController, *entries: object) -> None:
    """Let the service's calendar be these entries."""
    service.scale_ahead.calendars = CalendarBook(read_calendar_entries(list(entries), UTC))
