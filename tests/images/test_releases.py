"""A release: its tag, notes, chart, metadata and workflow must agree."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import check_jsonschema
import jsonschema
import pytest
import yaml

from dra_spawner import __version__
from tests.all_of_them import all_of_them
from tests.chart.rendering import objects_of, of_kind, run_helm
from tests.images.containerfile import ROOT
from tests.loose_modules import load

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
DIGEST = f"sha256:{'a' * 64}"


release = load(".ci/release.py")
hatch_build = load("hatch_build.py")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that is ready for the release of 1.2.0rc3."""
    (tmp_path / "dra_spawner").mkdir()
    (tmp_path / "dra_spawner" / "__init__.py").write_text('"""x"""\n\n__version__ = "1.2.0rc3"\n')
    chart = tmp_path / "helm-values" / "chart"
    chart.mkdir(parents=True)
    (chart / "Chart.yaml").write_text('name: x\nversion: 1.2.0-rc.3\nappVersion: "1.2.0rc3"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.0rc3\n")
    text = "# Changelog\n\n## Unreleased\n\n## 1.2.0rc3 - 2026-12-01\n\n### Added\n\n- This.\n\n## 1.1.0 - 2026-11-01\n\n- That.\n"
    (tmp_path / "CHANGELOG.md").write_text(text)
    return tmp_path


def test_a_release_that_agrees(checkout: Path) -> None:
    assert list(release.problems("v1.2.0rc3", checkout)) == []
    changelog = (checkout / "CHANGELOG.md").read_text()
    assert release.notes(changelog, "1.2.0rc3") == "### Added\n\n- This."
    assert release.notes(changelog, "1.1.0") == "- That."
    assert release.notes(changelog, "1.1") == ""


DISAGREEING = (
    ("dra_spawner/__init__.py", "rc3", "rc4", "The tag is v1.2.0rc3, but dra_spawner/__init__.py says 1.2.0rc4"),
    ("dra_spawner/__init__.py", "1.2.0rc3", "1.2", "'1.2' is no version such as 0.1.0"),
    ("dra_spawner/__init__.py", "rc3", ".dev3", "is a version of a checkout"),
    ("helm-values/chart/Chart.yaml", "-rc.3", "rc3", "Chart.yaml: version is 1.2.0rc3, expected 1.2.0-rc.3."),
    ("helm-values/chart/Chart.yaml", '"1.2.0rc3"', '"1"', "Chart.yaml: appVersion is 1, expected 1.2.0rc3."),
    ("CITATION.cff", "rc3", "rc2", "CITATION.cff: version is 1.2.0rc2, expected 1.2.0rc3."),
    ("CHANGELOG.md", " - 2026-12-01", "", "has no section `## 1.2.0rc3 - <year>-<month>-<day>`"),
    ("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n- More.\n", "what is under Unreleased belongs"),
)
"""File, what it says, what is wrong, and the problem."""


def test_disagreeing_files_are_named(checkout: Path) -> None:
    @all_of_them("file, before, after, problem", DISAGREEING)
    def check(file: str, before: str, after: str, problem: str) -> None:
        path = checkout / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))
        assert problem in "\n".join(release.problems("v1.2.0rc3", checkout))
        path.write_text(text)

    check()


def test_this_checkout_lacks_only_files_that_a_release_writes() -> None:
    chart = yaml.safe_load((ROOT / "helm-values" / "chart" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (release.chart_version(__version__), __version__)
    assert not any(
        file in each for file in ("Chart.yaml", "CITATION.cff") for each in release.problems(f"v{__version__}", ROOT)
    )


def test_the_published_chart_needs_no_image(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "release.py", "chart", tmp_path, "ghcr.io/example/dra-spawner-service", DIGEST],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    chart = done.stdout.strip()
    run_helm("lint", "--strict", chart)
    for values in ({}, {"image": None}):
        objects = objects_of(run_helm("template", "x", chart, "--skip-tests", values=values))
        (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"ghcr.io/example/dra-spawner-service@{DIGEST}"
    assert not {"home", "sources", "icon"} & yaml.safe_load((Path(chart) / "Chart.yaml").read_text()).keys()
    home = "https://git.example.org/x"
    for where, ref in ((home, "v1 ; x"), ("http://x", "v1"), (f"{home}\nicon: y", "v1"), ("", "v1")):
        with pytest.raises(ValueError, match="expected an address"):
            release.write_chart(tmp_path / "no", "ghcr.io/example/a", DIGEST, ROOT, where, ref)
    addressed = release.write_chart(tmp_path / "addressed", "ghcr.io/example/a", DIGEST, ROOT, home, "v1.2.0")
    run_helm("lint", "--strict", addressed)
    content = yaml.safe_load((addressed / "Chart.yaml").read_text())
    assert (content["home"], content["sources"]) == (home, [home])
    assert (ROOT / content["icon"].removeprefix(f"{home}/raw/v1.2.0/")).is_file()
    assert yaml.safe_load(content["annotations"]["artifacthub.io/links"])[1]["url"] == f"{home}/issues"
    with pytest.raises(ValueError, match="expected an image"):
        release.write_chart(tmp_path / "other", "ghcr.io/example/a", "sha256:1", ROOT)


def test_links_of_the_readme_work_from_an_index() -> None:
    text = (ROOT / "README.md").read_text()
    relative = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [each for each in relative if not (ROOT / each).exists()] == []
    readme = hatch_build.readme_for_an_index(text, "https://git.example.org/x", "v1.2.0")
    assert re.findall(r"\]\((?!https?:)[^)]*\)", readme) == []
    assert (
        "![JupyterHub's spawn form with five profiles](https://git.example.org/x/raw/v1.2.0/docs/pictures/demo-form.png)"
        in readme
    )
    assert "(https://git.example.org/x/blob/v1.2.0/docs/reference/doctor.md)" in readme
    assert "install -q 'dra-spawner[demo]'" in readme
    again = "[a](https://a.example.org/b) [c](#here) [d](mailto:e@example.org)"
    title, badge, rest = hatch_build.readme_for_an_index(
        f"# x\n\n{again}", "https://git.example.org/x", "v1.2.0"
    ).split("\n\n")
    assert (title, rest) == ("# x", again)
    assert badge.endswith("(https://git.example.org/x/actions/workflows/ci.yaml)")


def test_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRA_SPAWNER_REF", "v1.2.0")
    for home, count in (("https://git.example.org/x/", 6), ("", 0)):
        monkeypatch.setenv("DRA_SPAWNER_HOME", home)
        metadata: dict[str, Any] = {}
        hatch_build.CustomMetadataHook(str(ROOT), {}).update(metadata)
        assert len(metadata["urls"]) == count
        assert metadata["urls"].get("Issues", "https://git.example.org/x/issues") == "https://git.example.org/x/issues"
        assert metadata["readme"]["content-type"] == "text/markdown"


def strings_of(tree: ast.AST) -> Iterator[ast.Constant]:
    """Strings of a module, but for docstrings, help of settings, and arguments of `where`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) or (isinstance(node, ast.keyword) and node.arg == "help"):
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "where":
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node
        yield from strings_of(node)


def test_messages_name_files_by_their_address() -> None:
    """An installed package has no docs/ and no helm-values/. Absolute paths are those of other machines."""
    found = [
        f"{path.relative_to(ROOT)}:{each.lineno}"
        for path in (ROOT / "dra_spawner").rglob("*.py")
        for each in strings_of(ast.parse(path.read_text()))
        if re.search(r"(?<!/)\b(docs|helm-values|jupyterhub_config\.d)/", str(each.value))
    ]
    assert found == []


def test_files_that_messages_name_exist() -> None:
    named = {
        found[1]
        for path in (ROOT / "dra_spawner").rglob("*.py")
        for found in re.finditer(r"where\(['\"]([^'\"]+)['\"]\)", path.read_text())
    }
    assert len(named) > 3
    assert [each for each in named if not (ROOT / each.partition("#")[0]).exists()] == []


def test_the_list_of_parts(tmp_path: Path) -> None:
    path = tmp_path / "parts.json"
    tool = [str(Path(sys.executable).with_name("cyclonedx-py")), "requirements", "requirements/service.lock"]
    options = ["--pyproject", "pyproject.toml", "--output-reproducible", "-o", str(path)]
    subprocess.run([*tool, *options], cwd=ROOT, check=True, capture_output=True, timeout=240)
    parts = json.loads(path.read_text())
    assert parts["metadata"]["component"]["name"] == "dra-spawner"
    lock = (ROOT / "requirements" / "service.lock").read_text()
    locked = set(re.findall(r"^([a-z0-9][\w.-]*)==", lock, re.MULTILINE | re.IGNORECASE))
    assert {each["name"] for each in parts["components"]} == locked
    assert all(each["externalReferences"][0]["hashes"] for each in parts["components"])
    # The command of the workflow.
    assert " ".join(["cyclonedx-py", *tool[1:], *options[:-1]]) in (ROOT / ".github/workflows/release.yaml").read_text()


def schema_of(name: str) -> Any:
    return json.loads(
        (Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor" / f"{name}.json").read_text()
    )


FORMS = {
    path: (path, schema)
    for path, schema in {
        ".github/dependabot.yml": "dependabot",
        ".github/ISSUE_TEMPLATE/config.yml": "github-issue-config",
        ".readthedocs.yaml": "readthedocs",
        "CITATION.cff": "citation-file-format",
        **{
            str(path.relative_to(ROOT)): "github-issue-forms"
            for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml"))
        },
    }.items()
}


@all_of_them("path, schema", FORMS)
def test_files_that_hosts_read(path: str, schema: str) -> None:
    jsonschema.validate(yaml.safe_load((ROOT / path).read_text()), schema_of(schema))


@all_of_them("path", {path.stem: path for path in WORKFLOWS})
def test_workflows(path: Path) -> None:
    text = path.read_text()
    # YAML 1.1 reads the key `on` as true.
    workflow = {("on" if key is True else key): value for key, value in yaml.safe_load(text).items()}
    jsonschema.validate(workflow, schema_of("github-workflows"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 150
        for step in job["steps"]:
            # A tag can be moved to other code, a commit cannot.
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", f"a/b@{'0' * 40}"))
            # An expression in a command would be code that others may write.
            assert "${{" not in step.get("run", "")
            assert step.get("with", {}).get("persist-credentials", False) is False
    for used in set(re.findall(r"(?:images|\.ci|requirements|tests)/[\w./-]+\w", text)):
        assert (ROOT / used).exists(), used
    assert "secrets." not in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_commands_of_the_workflows_are_shell() -> None:
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, check=True, timeout=240)


def test_only_the_jobs_that_publish_may_write() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]
    writing = {
        name: sorted(key for key, value in job.get("permissions", {}).items() if value == "write")
        for name, job in jobs.items()
    }
    assert writing == {
        "build": [],
        "package": ["id-token"],
        "images": ["id-token", "packages"],
        "chart": ["id-token", "packages"],
        "release": ["contents"],
    }
    versions = {each.get("arguments") for each in jobs["images"]["strategy"]["matrix"]["include"]}
    assert versions == {"", "HUB_VERSION=4.0.0", "HUB_VERSION=4.4.0"}


def test_a_release_needs_a_gate_of_a_push_to_main() -> None:
    """A run for a pull request, also of a fork, is for the same commit and may have another gate."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}, "YAML 1.1 reads the key `on` as true"
    (gate,) = [each for each in workflow["jobs"]["build"]["steps"] if each.get("name", "").startswith("The gate")]
    query = dict(each.split("=", 1) for each in gate["env"]["RUNS"].partition("?")[2].split("&"))
    assert {key: query.pop(key) for key in ("status", "event", "branch")} == {
        "status": "success",
        "event": "push",
        "branch": "main",
    }
    (expression,) = re.findall(r"--jq '([^']+)'", gate["run"])
    home = {"event": "push", "head_branch": "main", "head_repository": {"full_name": "example/x"}}
    others = (
        {**home, "event": "pull_request"},
        {**home, "event": "workflow_dispatch"},
        {**home, "head_branch": "theirs"},
        {**home, "head_repository": {"full_name": "fork/x"}},
    )
    for runs, expected in (([home, *others], "1"), (others, "0")):
        if shutil.which("jq"):
            done = subprocess.run(
                ["jq", expression],
                input=json.dumps({"workflow_runs": runs}),
                env={**os.environ, "GITHUB_REPOSITORY": "example/x"},
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            )
            assert done.stdout.strip() == expected


def test_every_tool_of_the_release_is_locked_with_hashes() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    installs = re.findall(r"pip install (.*)", text)
    assert len(installs) == 2
    assert all(re.search(r"--require-hashes -r requirements/\w+\.lock$", each) for each in installs)
    # An isolated build would fetch tools of its own.
    assert re.findall(r"python -m build\b(.*)", text) == [" --no-isolation"]


def test_nothing_is_published_that_was_not_tested_and_the_package_is_last() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]
    before = {
        name: {job["needs"]} if isinstance(job.get("needs"), str) else set(job.get("needs", ()))
        for name, job in jobs.items()
    }
    assert before["package"] == {"build", "images", "chart"}
    assert before["release"] >= {"package"}
    assert [name for name, needs in before.items() if "build" not in needs] == ["build"]
    first = next(step for step in jobs["build"]["steps"] if "run" in step)
    assert "workflows/ci.yaml/runs?status=success&head_sha=${{ github.sha }}" in first["env"]["RUNS"]


#: Programs of the steps that publish: each writes its command line down, and says what the real one says.
STAND_INS = {
    "docker": 'echo "docker $*" >> log; for last; do :; done; case "$*" in *metadata.json*) '
    f'echo \'{{"containerimage.digest": "{DIGEST}"}}\' > metadata.json;; esac',
    "helm": f'echo "helm $*" >> log; if [ "$1" = push ]; then echo "Pushed: $3:1.2.0"; echo "Digest: {DIGEST}"; fi >&2',
    "python3": 'echo "python3 $*" >> log; mkdir -p chart/dra-spawner; touch dra-spawner-1.2.0.tgz',
    "cosign": 'echo "cosign $*" >> log',
}


@pytest.mark.skipif(shutil.which("bash") is None or shutil.which("jq") is None, reason="needs bash and jq")
@all_of_them("job, signed", [("images", "ghcr.io/example/service"), ("chart", "ghcr.io/example/charts/dra-spawner")])
def test_what_is_published_is_signed_by_its_digest(job: str, signed: str, tmp_path: Path) -> None:
    """A tag can be moved to something else; the signature of a digest cannot."""
    directory = tmp_path / job
    (directory / "bin").mkdir(parents=True)
    for name, text in STAND_INS.items():
        (directory / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (directory / "bin" / name).chmod(0o755)
    if job == "chart":
        (directory / "digest").mkdir()
        (directory / "digest" / "image").write_text(f"ghcr.io/example/service {DIGEST} 1.2.0\n")
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"][job]["steps"]
    assert any(each.get("uses", "").startswith("sigstore/cosign-installer@") for each in steps)
    (command,) = [each["run"] for each in steps if "run" in each]
    environment = {"IMAGE": "ghcr.io/Example/service", "TAG": "1.2.0", "OWNER": "Example", "FILE": "f", "TOKEN": "t"}
    path = f"{directory / 'bin'}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-ec", command],
        env={**environment, "ACTOR": "a", "PATH": path},
        cwd=directory,
        check=True,
        timeout=240,
    )
    done = (directory / "log").read_text().splitlines()
    assert done[-1] == f"cosign sign --yes {signed}@{DIGEST}"
    assert any(" login ghcr.io" in each for each in done)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@all_of_them("tag, kind", [("v1.2.0", "--latest"), ("v1.2.0rc3", "--prerelease")])
def test_a_candidate_is_no_latest_release_and_each_has_the_digests(tag: str, kind: str, tmp_path: Path) -> None:
    for name in ("service", "hub"):
        directory = tmp_path / "parts" / f"image-{name}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "image").write_text(f"ghcr.io/example/{name} {DIGEST} 1.2.0\n")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yaml").read_text())["jobs"]
    command = jobs["release"]["steps"][-1]["run"].replace("gh release", "echo")
    created = subprocess.run(
        ["bash", "-ec", command],
        env={"TAG": tag},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert created.stdout.startswith(f"create {tag} {kind} ")
    assert created.stdout.split()[-1] == "images.txt"
    digests = (tmp_path / "images.txt").read_text().splitlines()
    assert digests == [f"ghcr.io/example/{name} {DIGEST} 1.2.0" for name in ("hub", "service")]
