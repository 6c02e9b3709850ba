"""A service that goes on deciding beside whatever is in the cluster."""

from __future__ import annotations

from dra_spawner.placeholders.planner.shapes import Shape
from tests.placeholders.controller.objects import shape
from tests.service.replica import Replica

PLAIN = shape({})


async def still_decides(service: Replica, count: int, of: Shape = PLAIN) -> None:
    """A placeholder that goes is made anew."""
    await service.until_warm(of, count)
    gone = service.controller.view().warm(of.id)[0].key
    await service.cluster.admin.delete(service.cluster.path("pods", gone.name), grace_period_seconds=0)
    await service.until(lambda: gone not in service.placeholders(), "the placeholder is gone")
    await service.until_warm(of, count)
