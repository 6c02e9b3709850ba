"""Combinations of values that the documentation names: lint finds nothing, and a real API server takes every object."""

from __future__ import annotations

import json
from pathlib import Path

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesError
from tests.chart.applied import FOREIGN, create_object
from tests.chart.rendering import CHART, EVERYTHING, IMAGE, hub_values, objects_of, parent_chart, rendered, run_helm
from tests.chart.z2jh import VERSIONS, documented_yaml, merged, z2jh_objects
from tests.cluster.object_paths import has_namespace
from tests.cluster.under_test import ClusterUnderTest

BELOW: JsonObject = {"hub": {"baseUrl": "/jupyter/", "fullname": "z2jh-hub", "serviceName": "gpus"}}
NAMED: JsonObject = {"fullnameOverride": "devices"}
COMBINATIONS: dict[str, JsonObject] = {
    "below-a-base-url": BELOW,
    "another-name": NAMED,
    "all-options-below-a-base-url": merged(EVERYTHING, BELOW, NAMED),
    "no-policies": {**EVERYTHING, "admissionPolicy": {"create": False}, "networkPolicy": {"enabled": False}},
    "roles-of-others": {**EVERYTHING, "rbac": {"create": False}},
    "accounts-of-others": {"serviceAccount": {"create": False, "name": "mine"}},
    "networks-in-one-namespace": {"rbac": {"hub": {"networkAttachments": True}}},
    "a-volume": {"service": {"replicas": 1}, "history": {"persistence": {"enabled": True}}},
    "a-database": {
        "history": {"url": "postgresql://db/history", "passwordSecret": {"name": "database", "key": "password"}}
    },
}


async def all_are_valid(cluster: ClusterUnderTest, objects: list[JsonObject]) -> None:
    """Each object would be created; an unknown field is an error."""
    assert objects
    for obj in objects:
        if obj["kind"] in FOREIGN:
            continue
        if has_namespace(obj["kind"]):
            obj["metadata"].setdefault("namespace", cluster.namespace)
        if obj["metadata"].get("namespace", cluster.namespace) in (cluster.namespace, "default"):
            try:
                await create_object(cluster.admin, obj, dry_run=True)
            except KubernetesError as error:
                # The hub's account, which is there for all tests: the object is valid.
                if not error.already_exists:
                    raise


def documented() -> list[JsonObject]:
    """Values of this chart in README and docs."""
    known = json.loads((CHART / "values.schema.json").read_text())["properties"].keys() - {"hub"}
    return [each for each in documented_yaml() if isinstance(each, dict) and each.keys() <= known]


async def test_of_this_chart(real_cluster: ClusterUnderTest, tmp_path: Path) -> None:
    assert len(documented()) >= 3
    found = [{**IMAGE, **each} for each in (*COMBINATIONS.values(), *documented())]
    for values in found:
        run_helm("lint", "--strict", str(CHART), values=values)
        await all_are_valid(
            real_cluster, rendered(values, release="gpus", namespace=real_cluster.namespace, with_tests=True)
        )
    parent = str(parent_chart(tmp_path / "parent"))
    values = {"dra-spawner": EVERYTHING}
    run_helm("lint", parent, values=values)
    text = run_helm("template", "jhub", parent, "--namespace", real_cluster.namespace, values=values)
    await all_are_valid(real_cluster, objects_of(text))


async def test_of_the_hub(real_cluster: ClusterUnderTest) -> None:
    """With the values that the notes print."""
    for ours, theirs in ((IMAGE, {}), (merged(EVERYTHING, BELOW), {"fullnameOverride": "z2jh"})):
        printed = hub_values(ours, release="gpus", namespace=real_cluster.namespace)
        for version in VERSIONS:
            objects = z2jh_objects(version, merged(theirs, printed), namespace=real_cluster.namespace)
            await all_are_valid(real_cluster, objects)
