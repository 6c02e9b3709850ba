"""Uninstalling knows every name that this project writes to a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import yaml

import dra_spawner
from dra_spawner import names
from dra_spawner.commands.removing import marks
from dra_spawner.commands.removing.found_objects import ApiKind, FoundObject, FoundPod, SurveyedObjects
from dra_spawner.commands.removing.plan import Unmarking, plan_removal
from tests.all_of_them import all_of_them
from tests.cluster.access import manifests

PACKAGE = Path(dra_spawner.__file__).parent
HELM_VALUES = PACKAGE.parent / "helm-values"
NOW = datetime(2030, 1, 1, tzinfo=UTC)

#: Names with this project's or the hub's domain that are not marks of objects, and why.
NOT_MARKS = {
    names.HUB_PREFIX: "beginning of the annotations that informers keep",
    names.CONSUMER_GROUP: "consumers of claims, which the plan releases",
    names.LEADER: "label of the pod of the replica that leads: it goes with the pod, which is an administrator's",
}


def unmarked(texts: Iterable[str]) -> set[str]:
    known = {
        *NOT_MARKS,
        *(*marks.NODE_LABELS, *marks.POD_LABELS, *marks.POD_ANNOTATIONS, *marks.OBJECT_MARKS, *marks.HUBS_NAMES),
    }
    return {text for text in texts if "hub.jupyter.org" in text} - known


def test_uninstalling_knows_every_name():
    """Add a new name to dra_spawner/commands/removing/marks.py, and make sure that uninstalling treats it correctly."""
    texts = [value for value in vars(names).values() if isinstance(value, str)]
    assert unmarked(texts) == set()
    assert unmarked([*texts, "hub.jupyter.org/new"]) == {"hub.jupyter.org/new"}


@all_of_them("label", marks.NODE_LABELS)
def test_a_label_of_nodes_is_taken_off(label: str):
    node = FoundObject(ApiKind("v1", "nodes", "Node", namespaced=False), "", "n1", "u", "1", {label: "", "mine": "yes"})
    plan = plan_removal(SurveyedObjects(nodes=(node,)), NOW)
    assert plan.unmarkings == (Unmarking(node, (label,)),)


@all_of_them("key", [*marks.POD_LABELS, *marks.POD_ANNOTATIONS])
def test_a_mark_of_pods_is_taken_off_when_the_pod_is_over_and_reported_before(key: str):
    found = FoundObject(ApiKind("v1", "pods", "Pod"), "ns", "jupyter-ada", "u", "1", {key: "1"}, {key: "1"})
    over = plan_removal(SurveyedObjects(pods=(FoundPod(found, phase="Succeeded"),)), NOW)
    (unmarking,) = over.unmarkings
    assert key in unmarking.labels + unmarking.annotations
    running = plan_removal(SurveyedObjects(pods=(FoundPod(found, phase="Running"),)), NOW)
    assert (running.removals, running.unmarkings, running.releases) == ((), (), ())
    assert [(each.object, each.reason) for each in running.left] == [(found, "a server")]


def test_objects_that_administrators_apply_are_looked_for():
    plurals = {plural for _, plural in marks.ADMINISTRATORS_KINDS}
    versions = {version for version, _ in marks.ADMINISTRATORS_KINDS}
    rules = [obj for obj in yaml.safe_load_all((HELM_VALUES / "rbac.yaml").read_text()) if obj]
    for obj in [*rules, *manifests("jupyterhub")]:
        kind, name = obj["kind"].lower(), obj["metadata"]["name"]
        assert obj["apiVersion"] in versions, obj["apiVersion"]
        assert plurals & {f"{kind}s", f"{kind}es", f"{kind[:-1]}ies"}, kind
        assert marks.is_administrators_name(name), name
        assert kind != "configmap" or name in (f"{names.MANAGER}-service", names.SETTINGS_CONFIG_MAP), name
