"""The settings as the store sees them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.controller.sources.override_store import OverrideStore
from dra_spawner.placeholders.planner.targets.overrides import (
    Override,
    OverrideKind,
    Overrides,
    overrides_data,
)
from tests.cluster.under_test import ClusterUnderTest
from tests.polling import eventually
from tests.service.replica import publish_settings

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
OBSERVING = Override(OverrideKind.OBSERVING, "service", "user ada", NOW, None, "test", None)


def version(number: int, settings: Overrides) -> dict[str, Any]:
    metadata = {"name": names.SETTINGS_CONFIG_MAP, "namespace": "hub", "resourceVersion": str(number)}
    return {"metadata": metadata, "data": overrides_data(settings)}


async def test_a_late_event_of_a_watch_brings_no_older_settings(embedded_cluster: ClusterUnderTest) -> None:
    changes: list[bool] = []
    store = OverrideStore(embedded_cluster.admin, "hub", now=lambda: NOW, on_change=lambda: changes.append(True))
    observing = Overrides().with_setting(OBSERVING)
    store.put(version(9, Overrides()))
    store.put(version(10, observing))
    store.put(version(9, Overrides()))
    assert (store.present.settings, changes) == (observing.settings, [True])
    store.put(version(11, Overrides()))
    assert (store.present.settings, changes) == ({}, [True, True])


async def test_settings_are_unknown_until_they_are_read(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await publish_settings(cluster)
    store = OverrideStore(cluster.admin, cluster.namespace, now=lambda: NOW)
    assert store.unknown_because == "", "nothing is followed"
    async with store:
        assert store.unknown_because == f"ConfigMap {names.SETTINGS_CONFIG_MAP} was not read yet"
        await eventually(lambda: not store.unknown_because, "they are read")
        assert store.present.settings == {}
