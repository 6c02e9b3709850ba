"""How ``dra-spawner fit`` talks: the table, exit codes, messages about bad input, progress."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dra_spawner.cli import main
from dra_spawner.commands.cluster_files.kubernetes_release import feature_gate, kubernetes_release, rules_of_objects
from dra_spawner.common.json_types import JsonObject
from tests.all_of_them import all_of_them
from tests.commands.cluster_files.inputs import api_list, claim, device_class, fit, gpu, gpu_slice, node

CLUSTER = [
    device_class(),
    *(item for at in range(14) for item in (node(f"n{at:02}"), gpu_slice(f"n{at:02}", gpu(shared=True)))),
    *(claim(f"used-{at}", "33Gi", device=(f"n{at:02}", "gpu-0")) for at in range(12)),
]


@pytest.mark.promise("`dra-spawner fit` says on which nodes a claim fits, and why not on others.")
def test_the_table_groups_nodes_by_reason():
    code, output, messages = fit(stdin=json.dumps([*CLUSTER, claim(memory="15Gi")]))
    assert (code, messages) == (0, "")
    assert output == (
        "team/wanted fits on 2 of 14 nodes\n"
        "   2 nodes: fits: a share of gpu.example.com (memory 15Gi)  n12, n13\n"
        "  12 nodes: memory: 7Gi left, 15Gi needed                   n00, n01, n02 and 9 more\n"
        "for example on n12:\n"
        "  team/wanted, request gpu: gpu-0 of pool n12, a share of gpu.example.com (memory 15Gi)\n"
    )


def test_all_names():
    _, output, _ = fit(stdin=json.dumps([*CLUSTER, claim(memory="15Gi")]), all_names=True)
    assert "n00, n01, n02, n03, n04, n05, n06, n07, n08, n09, n10, n11\n" in output


def test_a_claim_fits_nowhere():
    code, output, _ = fit(stdin=json.dumps([*CLUSTER, claim(memory="41Gi")]))
    assert code == 1
    assert output.splitlines() == [
        "team/wanted fits nowhere",
        "  14 nodes: memory: 40Gi at most, 41Gi needed  n00, n01, n02 and 11 more",
    ]


def test_one_of_several_questions_fits_nowhere():
    lines = [{"name": name, "objects": [claim(memory=memory)]} for name, memory in (("a", "1Gi"), ("b", "41Gi"))]
    code, output, _ = fit(stdin=json.dumps(CLUSTER) + "\n".join(map(json.dumps, lines)))
    assert code == 1
    assert output.startswith("a\nteam/wanted fits on 14 of 14 nodes\n")
    assert "\n\nb\nteam/wanted fits nowhere\n" in output


def two_claims(memory: str):
    return [*CLUSTER, claim("a", memory), claim("b", memory)]


@all_of_them(
    "objects, sentence",
    {
        "node": ([claim(), device_class()], "No node was given, so there is nowhere for team/wanted to fit."),
        "claim": ([node("n1")], "No claim without allocation was given, so there is nothing to fit."),
        "two": (two_claims("1Gi"), "team/a, team/b fit together on 14 of 14 nodes"),
        "two, nowhere": (two_claims("30Gi"), "team/a, team/b fit together nowhere"),
    },
)
def test_the_headline(objects, sentence):
    assert fit(stdin=json.dumps(objects))[1].splitlines()[0] == sentence


LIST = json.dumps(api_list(node("n1"), node("n2")), indent=1)


@all_of_them(
    "text, message",
    {
        "empty": ("", "standard input: has no objects in it"),
        "only a comment": ("# nothing\n", "standard input: has no objects in it"),
        "cut in a text": (LIST[: LIST.index("n2") + 1], "line 19: items[1].metadata.name: the text ends"),
        "cut before a value": (LIST[: LIST.index('"n2"')], "line 19: items[1].metadata.name: the text"),
        "cut near the end": (LIST[:-3], "line 21: items: the text ends in the middle of it"),
        "broken": (LIST.replace('"n2"', "n2"), "line 19: items[1].metadata.name: is not JSON"),
        "NaN": ('{"kind": NaN}', "line 1: is not JSON: NaN is not a JSON value"),
        "second value": ('{"kind": "Pod"}\n{"kind": "Node"', "line 2: the text ends in the middle of it"),
        "foreign": ('\n{"a": 1}', "line 2: has no kind; expected an API object, a List, or"),
        "item": ('{"kind": "List", "items":\n[1]}', "line 2: items[0]: must be an API object, not a num"),
        "items": ('{"kind": "List",\n"items": {}}', "line 2: items: must be a list of API objects"),
        "kind": ('{"kind":\n 1}', "line 2: kind: must be a string"),
        "nameless": ('{"kind": "Node", "metadata":\n{}}', "line 2: metadata.name: is required"),
        "name of a question": ('{"name": 1, "objects": []}', "line 1: name: must be a string"),
        "objects of a question": ('{"name": "a", "objects":\n3}', "line 2: objects: must be a list"),
        "deep": ("[" * 100_000, "is nested too deeply"),
        "text": ("hello", "line 1: must be an API object, not a string"),
        "broken YAML": ("kind: Node\nmetadata: [1,\n", "line 3: is not YAML: "),
        "key in YAML": ("kind: Node\n1: x\n", "the key 1 must be a string: put it in quotes"),
        "YAML's line": ("kind: Node\nmetadata:\n  name: [n]\n", "line 3: metadata.name: must be a string"),
        "old version": (
            "kind: DeviceClass\napiVersion: resource.k8s.io/v1alpha3\n",
            "line 2: apiVersion: 'resource.k8s.io/v1alpha3' cannot be read, only resource.k8s.io/v1;"
            " ask the cluster for deviceclasses.v1.resource.k8s.io",
        ),
    },
)
def test_bad_input_is_reported_by_file_line_and_field(text, message):
    code, output, messages = fit(stdin=text)
    assert (code, output) == (2, "")
    assert messages.startswith("dra-spawner fit: standard input")
    assert message in messages
    assert messages.count("\n") == 1


def test_a_text_that_is_no_text():
    code, _, messages = fit(stdin=b'{"kind": "Node",\n"a": "\xff"}')
    assert (code, messages) == (2, "dra-spawner fit: standard input, line 2: is not UTF-8 text\n")


def test_a_file_that_is_not_there(tmp_path):
    code, _, messages = fit(tmp_path / "none.json")
    assert (code, messages) == (2, f"dra-spawner fit: {tmp_path / 'none.json'}: No such file or directory\n")


def test_progress_is_shown_on_a_terminal_only():
    text = json.dumps([*CLUSTER, claim(memory="15Gi")])
    code, output, messages = fit(stdin=text, terminal=True)
    assert messages.startswith("\rreading standard input")
    assert messages.endswith(" \r")
    assert (code, output, "") == fit(stdin=text)


def test_the_command_itself():
    command = Path(sys.executable).with_name("dra-spawner")
    text = json.dumps([*CLUSTER, claim(memory="41Gi")])
    done = subprocess.run([command, "fit", "-"], input=text, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("team/wanted fits nowhere\n")


STEPS: JsonObject = {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}
IN_STEPS = [device_class(), node("n1"), gpu_slice("n1", gpu(shared=True, **STEPS))]


def test_a_claim_that_consumes_too_little_is_a_warning():
    text = json.dumps([*IN_STEPS, claim(memory="10e18")])
    code, output, _ = fit(stdin=text, release=(1, 36))
    assert code == 0
    assert output.splitlines()[-1] == (
        "warning: claim team/wanted, request gpu: asks for 10e18 of memory and consumes nothing of the device."
        " Kubernetes counts in 64 bits and does not notice an overflow. The device is overcommitted."
    )
    for options in ({"release": (1, 36), "without_quirks": True}, {"release": (1, 37)}):
        code, output, _ = fit(stdin=text, **options)
        assert (code, "warning" in output) == (1, False)
        assert "capacity memory: the size cannot be counted in 64 bits" in output


def test_an_allocated_claim_that_consumes_too_little_is_a_warning_too():
    held = claim("held", "10e18", device=("n1", "gpu-0"))
    held["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"]["memory"] = "0"
    _, output, _ = fit(stdin=json.dumps([*IN_STEPS, held, claim(memory="5Gi")]))
    assert output.splitlines()[-1].startswith("warning: claim team/held, request gpu: asks for 10e18")
    _, output, _ = fit(stdin=json.dumps([*IN_STEPS, held, claim(memory="5Gi")]), as_json=True)
    assert json.loads(output)["warnings"][0].startswith("claim team/held")


@all_of_them(
    "text, found",
    {
        "1.36": ("1.36", (1, 36)),
        "with patch": ("v1.37.2", (1, 37)),
        "of a provider": ("v1.36.1-gke.5+x", (1, 36)),
        "a newer one": ("1.99", (1, 99)),
        "no number": ("newest", None),
        "only major": ("1", None),
        "too old": ("1.30", None),
    },
)
def test_the_version_is_an_option(text, found):
    if found is None:
        with pytest.raises(argparse.ArgumentTypeError, match=r"is not a version of Kubernetes from 1\.3"):
            kubernetes_release(text)
    else:
        assert kubernetes_release(text) == found


def endless(name: str = "endless"):
    """A claim with more ways to choose than anybody can try, and none that will do."""
    found = claim()
    found["metadata"]["name"] = name
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    requests: list[JsonObject] = [{"name": f"r{at}", "exactly": dict(exactly)} for at in range(20)]
    requests[9]["exactly"]["selectors"] = [{"cel": {"expression": "device.driver == 'nobody'"}}]
    found["spec"] = {"devices": {"requests": requests}}
    return found


MANY = [
    device_class(),
    *(item for at in range(3) for item in (node(f"n{at}"), gpu_slice(f"n{at}", *(gpu(f"gpu-{n}") for n in range(12))))),
]


def test_a_search_ends_when_its_time_is_over():
    code, output, messages = fit(stdin=json.dumps([*MANY, endless()]), timeout=0.01)
    assert (code, messages) == (3, "")
    assert output.startswith(
        "It is not known whether team/endless fits: the search was stopped on 3 of 3 nodes\n"
        "  3 nodes: not known: the search for devices was stopped after "
    )
    assert output.endswith(" steps: the time for it is over  n0, n1, n2\n")


def test_stopped_searches_in_json():
    _, output, _ = fit(stdin=json.dumps([*MANY, endless()]), timeout=0.01, as_json=True)
    nodes = json.loads(output)["nodes"]
    assert [list(verdict) for verdict in nodes.values()] == [["stopped"]] * 3


@all_of_them(
    "claims, code", [([claim()], 3), ([claim(), claim("large", capacity={"requests": {"memory": "500Gi"}})], 1)]
)
def test_other_questions_have_their_own_time(claims, code):
    """The worst of them is the exit code: one that fits nowhere, then one of which that is not known."""
    asked = [endless(), *claims]
    lines = [json.dumps({"name": f"q{at}", "objects": [each]}) for at, each in enumerate(asked)]
    found, output, _ = fit(stdin="\n".join([json.dumps([*MANY]), *lines]), timeout=0.01, as_json=True)
    answers = [json.loads(line)["nodes"]["n0"] for line in output.splitlines()]
    assert list(answers[0]) == ["stopped"]
    assert list(answers[1]) == ["allocations"]
    assert found == code


@all_of_them("value", ["-1", "nan", "1e9", "soon", ""])
def test_a_timeout_that_is_none(value, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["fit", f"--timeout={value}"])
    assert caught.value.code == 2
    assert "is not a number of seconds like 0, 2.5 or 60" in capsys.readouterr().err


#: Shares of a half, of which a device has three.
HALVES: JsonObject = {"default": "500m", "validRange": {"min": "500m", "step": "500m"}}


@all_of_them(
    "release, gates, fits",
    {
        "by default": ((1, 37), {}, False),
        "with the gate": ((1, 37), {"DRAFractionalCapacityRange": True}, True),
        "1.38": ((1, 38), {}, True),
        "1.38 without it": ((1, 38), {"DRAFractionalCapacityRange": False}, False),
        "without a release": (None, {"DRAFractionalCapacityRange": True}, True),
    },
)
def test_feature_gates_decide(release: tuple[int, int] | None, gates: dict[str, bool], fits: bool) -> None:
    device = gpu(memory="1500m", shared=True, **HALVES)
    asked = json.dumps([device_class(), node("n1"), gpu_slice("n1", device), claim(memory="1500m")])
    assert fit(stdin=asked, release=release, gates=gates)[0] == (0 if fits else 1)


@all_of_them(
    "text, found",
    {
        "on": ("DRAFractionalCapacityRange=true", ("DRAFractionalCapacityRange", True)),
        "off": ("DRADeviceTaints=false", ("DRADeviceTaints", False)),
        "no value": ("DRADeviceTaints", None),
        "another value": ("DRADeviceTaints=True", None),
        "another gate": ("InPlacePodVerticalScaling=true", None),
        "nothing": ("", None),
    },
)
def test_gates_of_the_command_line(text: str, found: tuple[str, bool] | None) -> None:
    if found is None:
        with pytest.raises(argparse.ArgumentTypeError, match="one of DRAAdminAccess, DRA"):
            feature_gate(text)
    else:
        assert feature_gate(text) == found


def test_gates_of_a_rehearsal() -> None:
    nodes = [{"kind": "Node", "status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}}]
    for gate, on in (("DRAFractionalCapacityRange", True), ("DRADeviceTaints", False)):
        rules = rules_of_objects(nodes, {gate: on})
        assert rules.release == (1, 36)
        assert (rules.features.fractional_capacity_range, rules.features.device_taints) == (on, on)
