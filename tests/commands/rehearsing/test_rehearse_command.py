"""``dra-spawner rehearse`` from files to a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.cli import main
from dra_spawner.commands.rehearsing.rehearse_command import RehearseOptions
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import NodeLeadTime
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from tests.all_of_them import all_of_them
from tests.placeholders.planner.objects import NAMESPACE, SHARE, Json, node_objects

STAMP = "2026-11-01T00:00:00Z"
CLASS = {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu.example.com"}, "spec": {}}
NODES = """
zone: Europe/Berlin
nodes:
  - {name: a100-8, slots: 8, lead_minutes: [6, 8], image_minutes: 2, max_nodes: 5, starts_per_minute: 2, labels: {pool: a}}
  - {name: absent, slots: 4, lead_minutes: 3}
"""

Run = Callable[..., tuple[int, str, str]]


def quota(pods: str, namespace: str = NAMESPACE) -> Json:
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": namespace},
        "spec": {"hard": {"pods": pods}},
        "status": {"used": {"pods": "0"}},
    }


def profiles(namespace: str = NAMESPACE) -> Json:
    return published_config_map(PublishedShapes({"gpu-slice": SHARE, "gpu slice": SHARE}), namespace, {})


def cluster(*more: Json) -> list[Json]:
    """Two nodes that run eight servers each."""
    nodes = [obj for name in "ab" for obj in node_objects(name, "10", 2, "40Gi", SHARE.images, STAMP, {"pool": "a"})]
    return [*nodes, CLASS, *more]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the command on objects; without any, on the usual cluster. Scale-ahead acts there, with an autoscaler."""

    def command(line: str, *options: str, objects: list[Json] | None = None) -> tuple[int, str, str]:
        listed = objects if objects is not None else cluster(profiles())
        (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": listed}))
        known = () if "--mode" in options else ("--mode", "act", "--autoscaler")
        code = main(["rehearse", line, "--objects", str(tmp_path / "cluster.json"), *known, *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def verdict(run: Run, line: str, *options: str, **more: Any) -> tuple[int, Json]:
    code, out, err = run(line, *options, "--format", "json", **more)
    assert err == ""
    return code, json.loads(out)


@pytest.mark.promise("`dra-spawner rehearse` says whether a class can start in time.")
def test_yes_and_no(run: Run) -> None:
    code, out, err = run("16 of gpu-slice tomorrow at 17:00")
    assert (code, err) == (0, "")
    assert out.startswith("Yes: 16 users can start on 20")
    assert out.splitlines()[0].endswith("at 17:00 on the present nodes.")
    code, out, _ = run("17 of gpu-slice tomorrow at 17:00", "--no-new-nodes")
    assert code == 1
    assert out.startswith("No: 1 of 17 users cannot start on ")


def test_what_is_assumed_without_a_description(run: Run) -> None:
    code, out, _ = run("24 of gpu-slice tomorrow at 17:00")
    assert code == 0
    assert "1 node of g2 is ordered at 16:45.\n" in out
    assert "note: no lead time of g2 is known: 10 minutes are assumed\n" in out
    options = ("--lead-minutes", "30", "--image-minutes", "4.5", "--margin-minutes", "0")
    _, found = verdict(run, "24 of gpu-slice tomorrow at 17:00", *options)
    assert datetime.fromisoformat(found["begins"]) - datetime.fromisoformat(found["first_order_at"]) == timedelta(
        minutes=34.5
    )


def test_a_description_of_nodes(run: Run, tmp_path: Path) -> None:
    """As `dra-spawner replay` reads it: 3 more nodes of the pool, one minute after the other, then 2 of the other kind."""
    (tmp_path / "nodes.yaml").write_text(NODES)
    code, found = verdict(run, "48 of gpu-slice tomorrow at 17:00", "--nodes", str(tmp_path / "nodes.yaml"))
    assert code == 0
    assert found["begins"].endswith(("+01:00", "+02:00")), "the zone of the file"
    assert [(each["kind"], each["nodes"], each["servers"]) for each in found["orders"]] == [
        ("a100-8", 3, 24),
        ("absent", 2, 8),
    ]
    assert datetime.fromisoformat(found["begins"]) - datetime.fromisoformat(found["first_order_at"]) == timedelta(
        minutes=5 + 8 + 2 + 1
    )
    other = NODES.replace("absent, slots: 4", "absent, profiles: [other], slots: 4").replace(
        "8, lead", "8, profiles: [gpu-slice], lead", 1
    )
    (tmp_path / "nodes.yaml").write_text(other)
    code, found = verdict(run, "48 of gpu-slice tomorrow at 17:00", "--nodes", str(tmp_path / "nodes.yaml"))
    assert (code, found["lacking"]) == (1, 8), "the slots of a kind are those of its profiles"


def test_lead_times_of_the_history(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    database = HistoryDatabase.open(url)
    created = datetime(2026, 11, 1, tzinfo=UTC)
    leads = [NodeLeadTime(str(each), "n", "g2", created, images=created + timedelta(minutes=each)) for each in (20, 21)]
    database.add(leads)
    database.close()
    _, found = verdict(run, "24 of gpu-slice tomorrow at 17:00", "--history", url)
    assert found["orders"][0]["lead_seconds"] == 21 * 60
    assert found["problems"] == []


def test_quotas_and_limits(run: Run) -> None:
    line = "10 of gpu-slice tomorrow at 17:00"
    objects = cluster(profiles(), quota("4"), quota("1", "elsewhere"))
    code, found = verdict(run, line, objects=objects)
    assert (code, [each["code"] for each in found["problems"]]) == (1, ["quota"])
    assert "has pods for 4 more servers" in found["problems"][0]["message"]
    limit = ("--max-placeholders", "18")
    code, found = verdict(run, "30 of gpu-slice within 0 min tomorrow at 17:00", *limit)
    assert (code, found["problems"][0]["code"], found["problems"][0]["users"]) == (1, "placeholder-limit", 6)
    # Two placeholders bring a node with room for eight.
    assert verdict(run, "20 of gpu-slice tomorrow at 17:00", *limit)[0] == 0


def test_what_nobody_does_is_a_condition(run: Run) -> None:
    line = "24 of gpu-slice tomorrow at 17:00"
    code, out, _ = run(line, "--mode", "advise", "--autoscaler")
    assert (code, out.partition(":")[0]) == (1, "Only if 1 node of g2 is ordered at 16")
    assert "problem: scale-ahead only advises, so nothing orders 1 node of g2 before the users come" in out
    code, out, _ = run(line, "--mode", "act")
    assert (code, out.partition(" on ")[0]) == (1, "Only if 1 node of g2 is added by 16:55: 24 users can start")
    assert "problem: no autoscaler is named (--autoscaler), so nothing is certain to add 1 node of g2" in out


def test_the_profiles_of_the_right_hub(run: Run) -> None:
    line = "10 of gpu-slice tomorrow at 17:00"
    two = cluster(profiles(), profiles("other"))
    code, _, err = run(line, objects=two)
    assert (code, err.count("\n")) == (2, 1)
    assert "has dra-spawner-shapes in the namespaces hub, other: choose one by --namespace" in err
    assert run(line, "--namespace", "other", objects=two)[0] == 0
    code, _, err = run(line, objects=cluster())
    assert code == 2
    assert "has no ConfigMap dra-spawner-shapes, in which a hub with DRASpawner publishes its profiles" in err
    broken = profiles()
    broken["data"] = {"shapes.json": "{"}
    code, _, err = run(line, objects=cluster(broken))
    assert (code, "ConfigMap dra-spawner-shapes is invalid" in err) == (2, True)
    assert run('10 of "gpu slice" tomorrow at 17:00')[0] == 0


@all_of_them(
    "line, options, told",
    {
        "profile": ("10 of gpu tomorrow at 9:00", (), "found the profile 'gpu'; the hub publishes gpu slice, gpu-slice"),
        "no time": ("10 of gpu-slice", (), "found no time"),
        "past": ("10 of gpu-slice at 2020-01-01 9:00", (), "this one is past"),
        "zone": ("10 of gpu-slice now", ("--time-zone", "Mars"), "--time-zone: found 'Mars'; allowed is a time zone"),
        "nodes": ("10 of gpu-slice now", ("--nodes", "/none.yaml"), "/none.yaml: cannot be read: No such file"),
        "history": ("10 of gpu-slice now", ("--history", "nonsense"), "the database's URL cannot be used"),
        "two sources": ("10 of gpu-slice now", ("--kubeconfig", "x"), "--objects or a cluster"),
        "two supplies": ("10 of gpu-slice now", ("--nodes", "x", "--no-new-nodes"), "not both"),
    },
)  # fmt: skip
def test_wrong_input_is_told_in_a_sentence(run: Run, line: str, options: tuple[str, ...], told: str) -> None:
    code, out, err = run(line, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("dra-spawner rehearse: ")
    assert told in err


@all_of_them(
    "text, told",
    [
        (
            "nodes: [{name: a, slots: 8, lead_minutes: 6, labels: {pool: 3}}]",
            "labels: is {'pool': 3}; it must be a mapping of texts",
        ),
        ("nodes: [{name: a, slots: 8, lead_minutes: 600000}]", "nodes[0]: has a time of more than a week"),
        ("nodes: [{name: a, slots: 8, lead_minutes: 6, speed: 3}]", "speed: is not known; known are name"),
        ("a: 1\n---\nb: 2", "has 2 documents; it must have one"),
    ],
)
def test_a_wrong_description_is_told(run: Run, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "nodes.yaml").write_text(text)
    code, _, err = run("10 of gpu-slice now", "--nodes", str(tmp_path / "nodes.yaml"))
    assert code == 2
    assert told in err


@all_of_them("option, value", [("--lead-minutes", "-1"), ("--lead-minutes", "1e9"), ("--max-placeholders", "x")])
def test_numbers_of_options(run: Run, option: str, value: str) -> None:
    with pytest.raises(SystemExit) as end:
        run("10 of gpu-slice now", option, value)
    assert end.value.code == 2


def test_objects_that_make_no_sense_are_told(run: Run) -> None:
    broken = {"kind": "Node", "metadata": {"name": "c"}, "status": {"allocatable": {"cpu": "many"}}}
    code, out, _ = run("10 of gpu-slice tomorrow at 17:00", objects=cluster(profiles(), broken))
    assert code == 0
    assert "note: Node c is left out of the model: " in out
    assert "'many' is not a quantity" in out
    code, _, err = run("10 of gpu-slice now", objects=cluster(profiles(), {"kind": "Pod", "metadata": {}}))
    assert code == 2
    assert "metadata.name: must be a string" in err
    for wrong in ({"hard": [3]}, {"hard": {"pods": "1" * 5_000 + "x"}}):
        code, _, err = run("10 of gpu-slice now", objects=cluster(profiles(), {**quota("1"), "spec": wrong}))
        assert (code, err.count("\n")) == (2, 1)
        assert "an invalid ResourceQuota" in err
    elsewhere = profiles()
    elsewhere["metadata"]["namespace"] = ["hub"]
    code, _, err = run("10 of gpu-slice now", objects=cluster(elsewhere))
    assert (code, "metadata.namespace: must be a string" in err) == (2, True)


def test_a_cluster_that_cannot_be_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["rehearse", "10 of gpu-slice now", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "dra-spawner rehearse: The cluster cannot be found by " in capsys.readouterr().err


def test_the_clock_is_the_real_one() -> None:
    assert abs(RehearseOptions("").now() - datetime.now(UTC)) < timedelta(minutes=1)
