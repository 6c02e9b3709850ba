"""Uninstalling knows every name that this project writes to a cluster."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

import dra_spawner
from dra_spawner.uninstall import marks
from dra_spawner.uninstall.found import Found, Kind, Pod, Surveyed
from dra_spawner.uninstall.plan import Unmarking, plan_removal

PACKAGE = Path(dra_spawner.__file__).parent
HELM_VALUES = PACKAGE.parent / "helm-values"
NOW = datetime(2030, 1, 1, tzinfo=UTC)

#: Keys of labels and annotations, begins of them included, and the group of consumers.
KEY = re.compile(r"([a-z]+\.)?hub\.jupyter\.org(/[A-Za-z0-9._-]*)?")
NAME = re.compile(r"dra-spawner(-[a-z-]+)?")
#: Texts that look like names in a cluster and are not, and why.
ELSEWHERE = {
    "hub.jupyter.org/": "begin of the annotations that informers keep",
    "dra-spawner-probe-": "created by dry run only",
    "dra-spawner-service": "name of the application for traitlets",
    "dra-spawner-placeholder": "PriorityClass of helm-values/placeholders.yaml, an administrator's",
}


def names_in(package: Path) -> dict[str, str]:
    """Each text in the source that looks like a name in a cluster, and where it is."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.parts[0] in ("uninstall", "devcluster"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and (KEY.fullmatch(text) or NAME.fullmatch(text)):
                found.setdefault(text, f"{inside}:{node.lineno}")
    return found


def unknown(package: Path) -> dict[str, str]:
    known = {*marks.known_names(), *ELSEWHERE}
    return {name: where for name, where in names_in(package).items() if name not in known}


def test_every_name_is_known():
    """Add yours to dra_spawner/uninstall/marks.py, and see that uninstalling does what it should about it."""
    assert unknown(PACKAGE) == {}
    assert len(names_in(PACKAGE)) > 30


@pytest.mark.parametrize(
    "text",
    [
        'X = "hub.jupyter.org/new"',
        'X = "other.hub.jupyter.org/"',
        'X = f"hub.jupyter.org/by-{1}"',
        'X = "dra-spawner-new"',
    ],
)
def test_a_new_name_is_found(tmp_path: Path, text: str):
    (tmp_path / "module.py").write_text(text)
    assert len(unknown(tmp_path)) == 1


@pytest.mark.parametrize("label", marks.NODE_LABELS)
def test_a_label_of_nodes_is_taken_off(label: str):
    node = Found(Kind("v1", "nodes", "Node", namespaced=False), "", "n1", "u", "1", {label: "", "mine": "yes"})
    plan = plan_removal(Surveyed(nodes=(node,)), NOW)
    assert plan.unmarkings == (Unmarking(node, (label,)),)


@pytest.mark.parametrize("key", [*marks.POD_LABELS, *marks.POD_ANNOTATIONS])
def test_a_mark_of_pods_is_taken_off_when_the_pod_is_over_and_told_before(key: str):
    found = Found(Kind("v1", "pods", "Pod"), "ns", "jupyter-ada", "u", "1", {key: "1"}, {key: "1"})
    over = plan_removal(Surveyed(pods=(Pod(found, phase="Succeeded"),)), NOW)
    (unmarking,) = over.unmarkings
    assert key in unmarking.labels + unmarking.annotations
    running = plan_removal(Surveyed(pods=(Pod(found, phase="Running"),)), NOW)
    assert running.changes_nothing
    assert [(each.object, each.reason) for each in running.left] == [(found, "a server")]


def test_what_administrators_apply_is_looked_for():
    plurals = {plural for _, plural in marks.ADMINISTRATORS_KINDS}
    versions = {version for version, _ in marks.ADMINISTRATORS_KINDS}
    for path in HELM_VALUES.glob("*.yaml"):
        for obj in yaml.safe_load_all(path.read_text()):
            if not obj or "kind" not in obj:
                continue
            kind, name = obj["kind"].lower(), obj["metadata"]["name"]
            assert obj["apiVersion"] in versions, (path, obj["apiVersion"])
            assert plurals & {f"{kind}s", f"{kind}es", f"{kind[:-1]}ies"}, (path, kind)
            assert marks.is_administrators_name(name), (path, name)
            assert kind != "configmap" or name == f"{marks.MANAGER}-service", (path, name)
