"""Every command of the documentation: its syntax by the program itself, and its effect where it can run here."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jsonschema
import pytest
import yaml

from dra_spawner.cli import command_parser, main
from dra_spawner.scale_ahead.rehearsal.rehearsal_line import read_rehearsal_line
from dra_spawner.service.http.openapi import openapi_document
from dra_spawner.service.http.web_application import ADDRESSES
from tests.all_of_them import all_of_them
from tests.chart.rendering import CHART, ROOT, run_helm
from tests.docs.command_lines import KUBECTL, CommandLine, command_lines, commands_of, options_of
from tests.docs.pages import Page
from tests.placeholders.planner.objects import SHARE, node_objects

COMMANDS: Final = command_lines()

NOT_RUN: Final = {
    "kubectl": "it needs a cluster; its commands and options are compared with a list",
    "helm": "it needs a cluster; its options are compared with Helm's own help, and the chart is rendered with these values",
    "curl": "test_requests.py sends these requests to a service; here they are compared with its OpenAPI document",
    "pip": "it would install something",
    "docker": "nothing builds images here; tests/images executes the commands of the image files",
    "cosign": "it would ask a registry; tests/images/test_releases.py runs the step that signs",
    "uv": "it would ask a registry",
    "pytest": "these are the tests",
    "pre-commit": "it would change the checkout",
    "sphinx-build": ".ci/run runs it",
}
"""Programs whose commands are checked and not run, each with the reason."""

NOT_HERE: Final = {
    "doctor": "it needs a cluster; tests/doctor does",
    "status": "it asks a service; tests/commands/asking does",
    "drain": "it asks a service; tests/commands/asking does",
    "try": "it needs a hub; tests/integration/test_try.py does",
    "demo": "tests/browser/test_demo.py starts it and clicks through it",
    "whoami": "it asks the hub of a server; tests/integration/test_my_devices.py does",
    "uninstall": "it needs a cluster; tests/commands/removing does",
    "service": "it runs until it is ended; tests/service does",
    "history": "it needs a database with a history; tests/commands/history_files does",
    "budgets": "it needs a database with a history; tests/commands/budgeting does",
    "fit": "it needs files of a cluster; tests/commands/cluster_files does",
    "utilization": "it needs files of a cluster; tests/commands/cluster_files does",
    "replay": "it needs a trace; tests/scale_ahead/replay does",
}
"""Commands of dra-spawner that are parsed here and run elsewhere."""


def ids(command: CommandLine) -> str:
    return str(command)


def of(program: str) -> list[CommandLine]:
    return [each for each in COMMANDS if each.program == program]


def test_no_program_is_unknown() -> None:
    known = {"dra-spawner", "python", "python3", *NOT_RUN}
    assert {each.program for each in COMMANDS} - known == set(), "say how its commands are checked"


@all_of_them("command", of("dra-spawner"))
def test_dra_spawner_takes_it(command: CommandLine) -> None:
    command_parser().parse_args(command.words[1:])


@pytest.mark.parametrize("command", [*of("python"), *of("python3")], ids=ids)
def test_the_module_exists(command: CommandLine) -> None:
    assert command.words[1] == "-m"
    assert importlib.util.find_spec(command.words[2]) is not None


@all_of_them("command", of("kubectl"))
def test_kubectl_has_it(command: CommandLine) -> None:
    own = command.words[: command.words.index("--")] if "--" in command.words else command.words
    assert own[1] in KUBECTL
    assert set(options_of(own)) <= set(KUBECTL[own[1]])


@cache
def help_of_helm(*command: str) -> str:
    return run_helm(*command, "--help")


@all_of_them("command", of("helm"))
def test_helm_has_it(helm: Path, command: CommandLine) -> None:
    text = help_of_helm(*command.words[1 : 3 if command.words[1] == "get" else 2])
    assert [each for each in options_of(command.words) if not re.search(rf"{each}\b", text)] == []
    if any("/chart" in word for word in command.words):
        assert (ROOT / "helm-values/chart") == CHART


@pytest.mark.parametrize("command", [each for each in of("helm") if each.words[1] == "install"], ids=ids)
def test_helm_renders_what_it_installs(helm: Path, command: CommandLine, directory: Any) -> None:
    """With the options of the page, and the files that it describes."""
    directory(command)
    words = [str(CHART) if word == "helm-values/chart" else word for word in command.words[2:]]
    names = {each["kind"] for each in yaml.safe_load_all(run_helm("template", *words)) if each}
    assert {"Deployment", "PriorityClass"} <= names, "with the service, and with placeholders"


@pytest.mark.parametrize("command", of("curl"), ids=ids)
def test_the_service_has_the_address(command: CommandLine) -> None:
    assert {*options_of(command.words)} <= {"-H", "-d"}
    (address,) = [word for word in command.words if "/services/dra-spawner/" in word]
    path = urlsplit(address).path.partition("/services/dra-spawner")[2]
    document = openapi_document(ADDRESSES, "/services/dra-spawner/")
    question = command.words[command.words.index("-d") + 1] if "-d" in command.words else ""
    operation = document["paths"][path]["post" if question else "get"]
    if question:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.validate(json.loads(question), schema)


# ---- commands that run here ------------------------------------------------------------------------------------------


def file_blocks(page: str) -> dict[str, str]:
    """The YAML of a page, by the names of files that the words before it give."""
    found: dict[str, str] = {}
    for block in Page(ROOT / page).blocks:
        if block.language == "yaml" and (name := re.search(r"`([\w-]+\.yaml)`", block.before)):
            found.setdefault(name[1], block.text)
    return found


def example_cluster() -> list[dict[str, Any]]:
    """One node with a shared GPU, and the classes that the pages name."""
    names = {
        word for page in ROOT.glob("docs/**/*.md") for word in re.findall(r"device_class: ([\w.-]+)", page.read_text())
    }
    classes = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}
        for name in sorted(names)
    ]
    return [*node_objects("a", "10", 2, "80Gi", SHARE.images, "2026-11-01T00:00:00Z", {}), *classes]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[CommandLine], Path]:
    """Makes a directory with the files that a command reads, and changes to it."""

    def prepared(command: CommandLine) -> Path:
        shipped = {path.name: path.read_text() for path in (ROOT / "helm-values").glob("*.yaml")}
        files = {"hub.yaml": shipped["full.yaml"], **shipped, **file_blocks(command.page)}
        slices = {"singleuser": {"profileList": [gpu_slice()]}}
        for name in ("values.yaml", "profiles.yaml"):
            files.setdefault(name, first_values(command.page) or yaml.safe_dump(slices))
        files.setdefault("prod.yaml", "singleuser: {}")
        (tmp_path / "helm-values").mkdir(exist_ok=True)
        for name, text in (*files.items(), *((f"helm-values/{name}", text) for name, text in shipped.items())):
            (tmp_path / name).write_text(text)
        (tmp_path / "cluster.json").write_text(
            json.dumps({"kind": "List", "apiVersion": "v1", "items": example_cluster()})
        )
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return prepared


def gpu_slice() -> dict[str, Any]:
    claims = {"gpu": {"device_class": "gpu.example.com", "capacity": {"memory": "10Gi"}}}
    larger = {"device_claims": {"gpu": {"capacity": {"memory": "20Gi"}}}}
    choices = {"large": {"display_name": "20 GiB", "kubespawner_override": larger}}
    return {
        "display_name": "GPU slice",
        "slug": "gpu-slice",
        "kubespawner_override": {"device_claims": claims},
        "profile_options": {"memory": {"display_name": "Memory", "choices": choices}},
    }


def first_values(page: str) -> str:
    """The first YAML of a page that has profiles of zero-to-jupyterhub."""
    for block in Page(ROOT / page).blocks:
        if block.language == "yaml" and "profileList" in block.text:
            return block.text
    return ""


RUN: Final = [
    each
    for each in of("dra-spawner")
    if each.words[1] in ("check", "render", "schema", "completion")
    and "networks.json" not in each.words  # of drivers with networks; tests/commands/checking has such files
    and any(not word.startswith("-") and word.endswith((".yaml", "1", "schema", "bash")) for word in each.words)
]


@pytest.mark.parametrize("command", RUN, ids=ids)
def test_it_runs(command: CommandLine, directory: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """With files of a cluster where the page has a real one, and without it: what the page shows works."""
    directory(command)
    words = list(command.words[1:])
    for option in ("--kubeconfig", "--namespace" if words[0] == "check" else ""):
        if option in words:
            del words[words.index(option) : words.index(option) + 2]
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    captured = capsys.readouterr()
    assert code == 0, captured.out + captured.err
    assert captured.out


def test_each_other_command_is_run_elsewhere() -> None:
    left = {each.words[1] for each in of("dra-spawner") if len(each.words) > 1} - {each.words[1] for each in RUN}
    assert left - {"rehearse"} <= NOT_HERE.keys()


def rehearsed() -> list[str]:
    """The lines that the pages rehearse, by the command and by the service."""
    lines = [each.words[2] for each in of("dra-spawner") if each.words[1] == "rehearse"]
    questions = [json.loads(each.words[each.words.index("-d") + 1]) for each in of("curl") if "-d" in each.words]
    return sorted({*lines, *(each["line"] for each in questions if "line" in each)})


@pytest.mark.parametrize("line", rehearsed())
def test_a_rehearsed_line_can_be_read(line: str) -> None:
    assert read_rehearsal_line(line, datetime(2026, 11, 23, tzinfo=UTC)).demand.users > 0


def test_a_shell_is_taken_apart(tmp_path: Path) -> None:
    text = "a 'b c' --d=e | f -g > h && i \\\n  j # k\nl -f - <<'END'\nm\nEND\n"
    (tmp_path / "page.md").write_text(f"```shell\n{text}```\n\n```console\n$ n\no\n```\n")
    assert list(commands_of(Page(tmp_path / "page.md"))) == [
        ("a", "b c", "--d=e"),
        ("f", "-g"),
        ("i", "j"),
        ("l", "-f", "-"),
        ("n",),
    ]
