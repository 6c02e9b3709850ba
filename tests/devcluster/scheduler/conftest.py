"""Fixtures of the scheduler's tests."""

from __future__ import annotations

import pytest

from dra_spawner.devcluster.api.resource_types import DEVICECLASSES
from tests.devcluster.cluster_objects import SHARE_CLASS, device_class
from tests.devcluster.scheduler.scheduled_store import ScheduledStore


@pytest.fixture
def cluster():
    made = ScheduledStore()
    made.create(DEVICECLASSES, device_class(), device_class(SHARE_CLASS, "device.allowMultipleAllocations"))
    return made
