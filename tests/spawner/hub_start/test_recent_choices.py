"""Choices whose devices are gone for a short time."""

from __future__ import annotations

from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.spawner.hub_start.recent_choices import RecentChoices
from tests.placeholders.planner.objects import GPU, SHARE


def test_choices_stay_while_a_driver_withdraws_its_devices() -> None:
    """Else the service deletes their placeholders, and users miss them for minutes after the devices are back."""
    recent = RecentChoices()
    whole = PublishedShapes({"gpu": GPU, "gpu/memory=5Gi": SHARE}, titles={"gpu/memory=5Gi": "GPU, 5 GiB"})
    fewer = PublishedShapes({"gpu": GPU})
    assert recent.completed(whole, 0.0) is whole
    assert recent.completed(fewer, 600.0) == whole, "the devices may come back"
    refused = PublishedShapes({"gpu": GPU}, skipped={"gpu/memory=5Gi": "no longer allowed"})
    assert recent.completed(refused, 700.0) is refused, "its reason is known"
    assert recent.completed(fewer, 710.0) is fewer
    recent.completed(whole, 1000.0)
    assert recent.completed(fewer, 4599.0) == whole
    assert recent.completed(fewer, 4601.0) is fewer, "they are gone for an hour"
