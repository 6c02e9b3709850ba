"""The settings as the store sees them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.api_errors import RequestTarget
from dra_spawner.placeholders.controller.sources.override_store import OverrideStore, OverridesUnavailable
from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data
from dra_spawner.placeholders.planner.targets.overrides import (
    Override,
    OverrideKind,
    Overrides,
)
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.jumping_loop import let_pass, run_jumping
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
    store.remove(ObjectKey("hub", names.SETTINGS_CONFIG_MAP))
    store.put(version(8, observing))
    assert store.present.settings == observing.settings, "an informer says so of an object that a backup brought back"


def test_followers_hear_of_the_end_of_a_setting_when_its_time_is_over() -> None:
    async def refuse(path: str, **_: object) -> None:
        raise KubernetesError(RequestTarget.from_path("list", path), status=500, reason="", message="")

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        heard: list[tuple[float, int]] = []

        def seconds() -> float:
            return loop.time() - began

        api = cast(KubernetesApi, SimpleNamespace(list=refuse))
        store = OverrideStore(api, "hub", now=lambda: NOW + timedelta(seconds=seconds()))
        store.on_change(lambda: heard.append((round(seconds()), len(store.present.settings))))
        async with store:
            drains = [
                Override(OverrideKind.DRAINING, node, "user ada", NOW, NOW + timedelta(minutes=minutes))
                for node, minutes in (("node-a", 2), ("node-b", 1))
            ]
            store.put(version(1, Overrides().with_setting(drains[0]).with_setting(drains[1])))
            store.put(version(2, Overrides().with_setting(replace(drains[0], until=None)).with_setting(drains[1])))
            store.put(version(3, Overrides().with_setting(drains[0]).with_setting(drains[1])))
            await let_pass(600)
        assert heard == [(0, 2), (0, 2), (0, 2), (60, 1), (120, 0)]

    run_jumping(scene())


async def test_settings_are_unknown_until_they_are_read(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await publish_settings(cluster)
    store = OverrideStore(cluster.admin, cluster.namespace, now=lambda: NOW)
    assert store.unknown_because == "", "nothing is followed"
    async with store:
        assert store.unknown_because == f"ConfigMap {names.SETTINGS_CONFIG_MAP} was not read yet"
        await eventually(lambda: not store.unknown_because, "they are read")
        assert store.present.settings == {}


async def test_a_mistake_in_the_configmap_takes_no_settings_and_is_not_overwritten(
    embedded_cluster: ClusterUnderTest,
) -> None:
    cluster = embedded_cluster
    await publish_settings(cluster)
    path = resource_path("v1", "configmaps", cluster.namespace, names.SETTINGS_CONFIG_MAP)

    async def edit(text: str) -> None:
        obj = await cluster.admin.get(path)
        await cluster.admin.replace(path, {**obj, "data": {**obj["data"], "settings.json": text}})

    async with OverrideStore(cluster.admin, cluster.namespace, now=lambda: NOW) as store:
        await store.change(lambda present: present.with_setting(OBSERVING))
        await edit("[{,}]")
        await eventually(lambda: store.problem, "the mistake is seen")
        assert "settings.json is no valid JSON" in store.problem
        assert store.present.settings == {OBSERVING.key: OBSERVING}
        with pytest.raises(
            OverridesUnavailable, match=r"its key settings\.json is no valid JSON; mend it, or empty it"
        ):
            await store.change(lambda present: present.without(OBSERVING.key, "user ada", NOW))
        assert (await cluster.admin.get(path))["data"]["settings.json"] == "[{,}]"
        await edit("")
        await eventually(lambda: not store.problem, "it is mended")
        assert store.present.settings == {}
