"""``dra-spawner utilization``: both figures of every node, in a table and in JSON, and messages about bad input."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.cli import main
from dra_spawner.commands.fitting.utilization_command import UtilizationOptions, run_utilization
from tests.all_of_them import all_of_them
from tests.commands.cluster_files.inputs import DRIVER, Terminal, api_list, claim, device_class, gpu, gpu_slice, node
from tests.simulator.utilization_examples import EXAMPLES


def utilization(*objects: Any, stdin: str | bytes = "", terminal: bool = False, **options: Any) -> tuple[int, str, str]:
    """Exit code, output and messages."""
    output, messages = io.StringIO(), Terminal() if terminal else io.StringIO()
    text = stdin or json.dumps(objects)
    content = text.encode() if isinstance(text, str) else text
    code = run_utilization(UtilizationOptions(**options), io.BytesIO(content), output, messages)
    return code, output.getvalue(), messages.getvalue()


def figures(*objects: Any, **options: Any) -> Any:
    """The answer in JSON."""
    code, output, messages = utilization(*objects, as_json=True, **options)
    assert (code, messages) == (0, "")
    return json.loads(output)


def table(*objects: Any, refused: bool = False, **options: Any) -> list[str]:
    """Lines of the table; with ``refused``, of objects of which the API server would refuse one."""
    code, output, messages = utilization(*objects, **options)
    if refused:
        assert code == 2
        assert messages.startswith("dra-spawner utilization: the API server would refuse this: ")
        assert messages.count("\n") == 1
    else:
        assert (code, messages) == (0, "")
    return output.splitlines()


def pod(name: str, on: str, *claims: str, namespace: str = "team") -> Any:
    """A pod on a node with claims that it names."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "main", "image": "example.com/image:1"}],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
        },
    }


def nic_slice(node_name: str) -> Any:
    item = gpu_slice(node_name, {"name": "nic-0"})
    item["metadata"]["name"] = f"{node_name}-nic"
    item["spec"]["driver"] = "nic.example.com"
    return item


def nic_claim(name: str, node_name: str) -> Any:
    item = claim(name, device=(node_name, "nic-0"))
    item["status"]["allocation"]["devices"]["results"][0]["driver"] = "nic.example.com"
    return item


def in_use(at: int, memory: str) -> list[Any]:
    """A node of which so much is in use."""
    name = f"n{at:02}"
    held = claim(f"c{at:02}", memory, device=(name, "gpu-0"))
    return [node(name), gpu_slice(name, gpu(shared=True)), held, pod(f"p{at:02}", name, f"c{at:02}")]


CLUSTER = [
    device_class(),
    *(item for at in range(12) for item in in_use(at, "33Gi")),
    *in_use(12, "5Gi"),
    node("idle"),
    gpu_slice("idle", gpu(shared=True)),
    node("plain-1"),
    node("plain-2"),
]


@pytest.mark.promise("`dra-spawner utilization` prints how full each node is.")
@all_of_them("slices, results, autoscaler, ours", EXAMPLES)
def test_worked_examples(slices, results, autoscaler, ours):
    held = claim("c")
    held["status"] = {"allocation": {"devices": {"results": results}}}
    found = figures(node("n1"), *slices, held, pod("user", "n1", "c"))["nodes"]["n1"]
    expected = [float(Fraction(each)) if each is not None else None for each in (autoscaler, ours)]
    assert [found["autoscaler"], found["weighted"]] == expected
    assert found.keys() == {"autoscaler", "weighted", "differsStrongly", "pools"}
    differences = [abs(found["autoscaler"] - found["weighted"])] if None not in expected else []
    assert found["differsStrongly"] == any(each >= 0.25 for each in differences)


def test_the_table():
    assert table(*CLUSTER) == [
        "16 nodes, busiest first; the figures of 1 differ strongly (!)",
        "  nodes  autoscaler  weighted  by driver (autoscaler | weighted)  names",
        "     12       100 %      83 %  gpu.example.com 100 % | 83 %       n00, n01, n02 and 9 more",
        "!     1       100 %      13 %  gpu.example.com 100 % | 13 %       n12",
        "      1         0 %       0 %  gpu.example.com 0 % | 0 %          idle",
        "      2           -         -  no devices of its own              plain-1, plain-2",
    ]


def test_all_names():
    assert table(*CLUSTER, all_names=True)[2].endswith("  n00, n01, n02, n03, n04, n05, n06, n07, n08, n09, n10, n11")


@all_of_them(
    "memory, shown",
    {
        "hardly anything is not nothing": ("1Mi", "<1 %"),
        "almost everything is not everything": ("40959Mi", ">99 %"),
        "everything": ("40Gi", "100 %"),
        "rounded half up": ("5Gi", "13 %"),
    },
)
def test_percentages(memory, shown):
    assert f" | {shown}  " in table(*in_use(1, memory))[2]


def test_pools_of_one_node_and_weights():
    objects = [
        *(node("n1"), gpu_slice("n1", gpu("gpu-0"), gpu("gpu-1"), gpu("gpu-2")), nic_slice("n1")),
        *(device_class(), nic_claim("nic", "n1"), pod("p", "n1", "nic")),
    ]
    found = figures(*objects)["nodes"]["n1"]
    assert found == {
        "autoscaler": 1.0,
        "weighted": 0.25,
        "differsStrongly": True,
        "pools": [
            {"driver": DRIVER, "pool": "n1", "autoscaler": 0.0, "weighted": 0.0},
            {"driver": "nic.example.com", "pool": "n1", "autoscaler": 1.0, "weighted": 1.0},
        ],
    }
    # One NIC of 1 + 3 * 3.
    assert figures(*objects, weights={"gpu": Fraction(3)})["nodes"]["n1"]["weighted"] == 0.1
    assert table(*objects)[2] == (
        "!     1       100 %      25 %  gpu.example.com 0 % | 0 %; nic.example.com 100 % | 100 %  n1"
    )


def test_the_example_of_the_documentation():
    objects = [
        *(device_class(), node("n1"), gpu_slice("n1", gpu(shared=True)), nic_slice("n1")),
        *(claim("c", "5Gi", device=("n1", "gpu-0")), pod("p", "n1", "c")),
    ]
    page = Path(__file__).parents[3] / "docs" / "reference" / "simulator.md"
    assert "```\n" + "\n".join(table(*objects)) + "\n```" in page.read_text()
    # (5/40 + 0) / 2, and (9 * 5/40 + 0) / 10
    assert figures(*objects)["nodes"]["n1"]["weighted"] == 0.0625
    assert figures(*objects, weights={"gpu": Fraction(9)})["nodes"]["n1"]["weighted"] == 0.1125


def test_busiest_first_in_json_too():
    names = list(figures(*in_use(1, "1Gi"), *in_use(2, "9Gi"), *in_use(3, "5Gi"), node("none"))["nodes"])
    assert names == ["n02", "n03", "n01", "none"]


def incomplete(name: str) -> list[Any]:
    item = gpu_slice(name, gpu())
    item["spec"]["pool"]["resourceSliceCount"] = 2
    return [node(name), item]


BROKEN_SLICE = "ResourceSlice n1-gpu: spec.devices[0].capacity[memory].value: '12Q' is not a quantity"


BROKEN_NODE = {"kind": "Node", "metadata": {"name": "n1", "labels": 1}}
BROKEN_POD = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": 1}}
LABELS = "metadata.labels: must be an object, not an integer (standard input, line 1)  n1"


@all_of_them(
    "objects, cells, row",
    {
        "incomplete pools": (
            [*incomplete("n1"), *incomplete("n2")],
            ["2", "unknown", "unknown"],
            "gpu.example.com: incomplete, generation 1 has 1 of 2 slices  n1, n2",
        ),
        "claim not allocated": (
            [node("n1"), gpu_slice("n1", gpu()), claim("c"), pod("p", "n1", "c")],
            ["1", "unknown", "0 %"],
            "autoscaler: claim team/c not allocated  n1",
        ),
        "only ours unknown": (
            [node("n1"), gpu_slice("n1", gpu(), gpu())],
            ["1", "0 %", "unknown"],
            "weighted: gpu.example.com: device gpu-0 ",
        ),
        "slice": (
            [node("n1"), gpu_slice("n1", gpu(memory="12Q"))],
            ["1", "unknown", "unknown"],
            f"{BROKEN_SLICE} (standard input, line 1)  n1",
        ),
        "node": ([BROKEN_NODE], ["1", "unknown", "unknown"], f"Node n1: {LABELS}"),
        "pod": (
            [node("n1"), gpu_slice("n1", gpu()), BROKEN_POD],
            ["1", "unknown", "0 %"],
            "autoscaler: Pod p: spec.containers: ",
        ),
    },
)
def test_unknown_and_why(objects, cells, row):
    refused = row.startswith((BROKEN_SLICE, "Node n1", "autoscaler: Pod p"))
    headline, _, busy, shown, *notes = table(*objects, *in_use(5, "33Gi"), refused=refused)
    assert headline.endswith("with an unknown figure")
    assert busy.endswith("n05")
    assert notes == []
    assert [each.strip() for each in shown.split("  ") if each.strip()][:3] == cells
    assert row in shown


def test_unknown_figures_in_json():
    found = figures(*incomplete("n1"))["nodes"]["n1"]
    problem = "generation 1 has 1 of 2 slices"
    assert found == {
        "autoscaler": None,
        "weighted": None,
        "differsStrongly": False,
        "pools": [
            {
                "driver": DRIVER,
                "pool": "n1",
                "autoscaler": None,
                "weighted": None,
                "problem": f"incomplete, {problem}",
            }
        ],
        "autoscalerProblem": f"pool {DRIVER}/n1: {problem}",
        "weightedProblems": [f"pool {DRIVER}/n1: incomplete, {problem}"],
    }


def test_without_pods_every_allocated_claim_counts():
    objects = [item for item in CLUSTER if item["kind"] != "Pod"]
    assert figures(*objects)["nodes"] == figures(*CLUSTER)["nodes"]
    assert figures(*objects)["notes"] == [table(*objects)[-1]]
    assert table(*objects)[-1].startswith("No Pod was given: ")
    assert "notes" not in figures(*CLUSTER)


def test_missing_pods_are_reported():
    held = claim("c", device=("n1", "gpu-0"))
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "gone", "uid": "gone"}]
    shown = table(node("n1"), gpu_slice("n1", gpu()), held, pod("other", "n1"))
    assert shown[2].split() == ["!", "1", "0", "%", "100", "%", DRIVER, "0", "%", "|", "100", "%", "n1"]
    assert shown[3].endswith("which cluster-autoscaler's figure leaves out: team/c")


def test_broken_objects_that_affect_no_node_are_reported():
    objects = [*CLUSTER, {"kind": "DeviceClass", "metadata": {"name": "bad"}, "spec": {"selectors": 1}}]
    *others, last = table(*objects, refused=True)
    assert others == table(*CLUSTER)
    assert last == "DeviceClass bad: spec.selectors: must be a list, not an integer (standard input, line 1)"


def test_questions_have_objects_of_their_own():
    one, two = in_use(1, "10Gi"), in_use(2, "30Gi")
    lines = [{"name": "a", "objects": one}, {"name": "b", "objects": [*one, *two]}, {"name": "c", "objects": two}]
    text = "\n".join(map(json.dumps, [device_class(), *lines]))
    code, output, _ = utilization(stdin=text, as_json=True)
    answers = [json.loads(line) for line in output.splitlines()]
    assert code == 0
    assert [(answer["name"], list(answer["nodes"])) for answer in answers] == [
        *(("a", ["n01"]), ("b", ["n02", "n01"]), ("c", ["n02"]))
    ]
    shown = utilization(stdin=text)[1]
    assert shown.startswith("a\n1 node, busiest first; ")
    assert "\n\nb\n2 nodes, busiest first; " in shown


def test_the_last_object_of_a_name_counts():
    assert figures(*in_use(1, "10Gi"), *in_use(1, "20Gi"))["nodes"]["n01"]["weighted"] == 0.5


def test_no_node():
    assert table(device_class()) == ["No node was given, so there is nothing to show."]


def test_lists_whose_items_do_not_say_their_kind():
    _, item, held, user = in_use(1, "10Gi")
    nodes = {"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n01"}}]}
    assert figures(nodes, api_list(item, held, user))["nodes"]["n01"]["weighted"] == 0.25


def test_wrong_input_is_reported(tmp_path):
    """As by ``fit``, which reads the same files by the same code."""
    missing = str(tmp_path / "none.json")
    for found, message in (
        (utilization(stdin=b" "), "standard input: has no objects in it"),
        (utilization(stdin=b'{"kind": "Pod",\n"metadata": 1}'), "standard input, line 2: metadata.name: is required"),
        (
            utilization(stdin=b'{"kind": "Node", "metadata": {\n"name": 1}}'),
            "standard input, line 2: metadata.name: must",
        ),
        (utilization(files=(missing,)), f"{missing}: No such file or directory\n"),
    ):
        assert found[:2] == (2, "")
        assert found[2].startswith(f"dra-spawner utilization: {message}")


@all_of_them(
    "objects, there",
    {
        "another": (CLUSTER, "it has gpu"),
        "none": ([node("n1")], "it has none"),
    },
)
def test_a_weight_that_would_do_nothing(objects, there):
    code, output, messages = utilization(*objects, weights={"gpus": Fraction(2)})
    assert (code, output) == (2, "")
    assert messages == f"dra-spawner utilization: --weight: the input has no DeviceClass gpus; {there}\n"


def test_progress_is_for_terminals_and_leaves_nothing_behind():
    code, output, messages = utilization(*CLUSTER, terminal=True)
    assert messages.startswith("\rreading standard input")
    assert messages.endswith(" \r")
    assert (code, output, "") == utilization(*CLUSTER)


@all_of_them("text", ["gpu", "=1", "gpu=", "gpu=-1", "gpu=1e9", "gpu=nan", "gpu=1/3", "gpu=.5"])
def test_weights_that_are_none(text, capsys):
    with pytest.raises(SystemExit) as end:
        main(["utilization", "--weight", text])
    assert end.value.code == 2
    assert f"'{text}' is not CLASS=NUMBER" in capsys.readouterr().err


def test_the_command_itself(tmp_path, capsys):
    (tmp_path / "cluster.json").write_text(json.dumps(api_list(*CLUSTER)))
    assert main(["utilization", "--weight", "gpu=2.5", "--format", "json", str(tmp_path / "cluster.json")]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert json.loads(shown.out)["nodes"]["n12"]["weighted"] == 0.125
