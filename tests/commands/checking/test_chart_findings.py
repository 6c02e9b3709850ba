"""What the values of a hub make impossible for its profiles."""

from __future__ import annotations

import io
import json
from textwrap import dedent
from typing import Any

import yaml

from dra_spawner.commands.checking.check_command import CheckOptions, run_check
from tests.all_of_them import all_of_them

TAINT = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
OURS = {"config": {"JupyterHub": {"spawner_class": "dra"}}}
OTHER = {"config": {"JupyterHub": {"spawner_class": "kubespawner.KubeSpawner"}}}
CLASS = "hub.config.JupyterHub.spawner_class"
SCHEDULER = "scheduling.userScheduler.enabled"
OVERRIDE = "singleuser.profileList[0].kubespawner_override"


def values(hub: Any = OURS, enabled: object = False, claims: bool = True, override: Any = None, **more: Any) -> Any:
    asked = {"device_claims": {"gpu": {"device_class": "gpu.example.com"}}} if claims else {}
    profile = {"display_name": "GPU", "kubespawner_override": {**asked, **(override or {})}}
    scheduling: dict[str, Any] = {} if enabled is None else {"userScheduler": {"enabled": enabled}}
    scheduling |= more.pop("scheduling", {})
    singleuser = {"profileList": [profile], **more.pop("singleuser", {})}
    return {"hub": hub, "scheduling": scheduling, "singleuser": singleuser, **more}


def code(*pieces: str, **more: Any) -> Any:
    return {"extraConfig": {f"{number:02}": dedent(piece) for number, piece in enumerate(pieces)}, **more}


SETUP = "from dra_spawner.hub import setup\nsetup(c)"
RESET = "from kubespawner import KubeSpawner\nclass Other(KubeSpawner): pass\nc.JupyterHub.spawner_class = Other"
DERIVED = "from dra_spawner.spawner import DRASpawner\nclass Ours(DRASpawner): pass\nc.JupyterHub.spawner_class = Ours"


@all_of_them(
    "found, expected",
    {
        "sound": (values(), []),
        "sound, with setup(c)": (values(code(SETUP)), []),
        "sound, with a class of its own": (values(code(DERIVED)), []),
        "no devices": (values(OTHER, None, claims=False), []),
        "the chart's scheduler": (values(enabled=True), [("error", SCHEDULER)]),
        "the chart's scheduler by default": (values(enabled=None), [("warning", SCHEDULER)]),
        "another scheduler": (values(OURS | {"config": {**OURS["config"], "KubeSpawner": {"scheduler_name": "x"}}}, True), []),
        "another scheduler in the pod": (values(enabled=True, singleuser={"extraPodConfig": {"schedulerName": "x"}}), []),
        "another scheduler in the profile": (values(enabled=True, override={"scheduler_name": "default-scheduler"}), []),
        "another scheduler by code": (values(code(SETUP, "c.KubeSpawner.scheduler_name = 'x'"), True), []),
        "the chart's scheduler in the profile": (
            values(override={"scheduler_name": "user-scheduler"}), [("error", f"{OVERRIDE}.scheduler_name")],
        ),
        "another class": (values(OTHER), [("error", CLASS)]),
        "no class": (values({}), [("warning", CLASS)]),
        "a class that is not here": (values({"config": {"JupyterHub": {"spawner_class": "of.the.Image"}}}), [("warning", CLASS)]),
        "another class, and code that was not read": (
            values(code("import of_the_image", **OTHER)), [("warning", "hub.extraConfig.00"), ("warning", CLASS)],
        ),
        "the chart's placeholders": (
            values(scheduling={"userPlaceholder": {"replicas": 2}}), [("warning", "scheduling.userPlaceholder")],
        ),
        "placeholders that are off": (values(scheduling={"userPlaceholder": {"enabled": False, "replicas": 2}}), []),
        "a puller that skips nodes": (values(override={"tolerations": TAINT}), [("warning", f"{OVERRIDE}.tolerations")]),
        "a puller that reaches them": (values(override={"tolerations": TAINT}, prePuller={"extraTolerations": TAINT}), []),
        "users that tolerate it": (values(override={"tolerations": TAINT}, singleuser={"extraTolerations": TAINT}), []),
        "no puller": (
            values(override={"tolerations": TAINT}, prePuller={"hook": {"enabled": False}, "continuous": {"enabled": False}}), [],
        ),
    },
)  # fmt: skip
def test_what_values_make_impossible(tmp_path, found, expected):
    path = tmp_path / "values.yaml"
    trees = [("", found), ("a.jupyterhub.", {"a": {"jupyterhub": found}})]
    # Code takes a process, so it is run once.
    for prefix, tree in trees[: 1 if "extraConfig" in found["hub"] else 2]:
        path.write_text(yaml.safe_dump(tree))
        output = io.StringIO()
        run_check(CheckOptions((str(path),), as_json=True), io.BytesIO(), output, io.StringIO())
        general = json.loads(output.getvalue())["general"]
        assert [(each["level"], each["path"]) for each in general] == [
            (level, prefix + where) for level, where in expected
        ]


def test_the_last_piece_that_sets_the_class_is_named(tmp_path):
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values(code(SETUP, RESET, "x = 1"))))
    output = io.StringIO()
    run_check(CheckOptions((str(path),)), io.BytesIO(), output, io.StringIO())
    assert "Other is no DRASpawner" in output.getvalue()
    assert "hub.extraConfig.01 sets it last" in output.getvalue()
