"""Checks of the images without building them; `tests.images.executed` executes their commands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from tests.all_of_them import all_of_them
from tests.images.containerfile import IMAGES, ROOT, Containerfile, Stage, read_containerfile

FILES = sorted(IMAGES.glob("*.Containerfile"))


each_file = all_of_them("containerfile", {path.stem: read_containerfile(path) for path in FILES})


def last_stage(containerfile: Containerfile) -> Stage:
    return containerfile.stages[-1]


def test_both_images_are_here() -> None:
    assert [path.stem for path in FILES] == ["hub", "service"]


@each_file
def test_the_image_runs_as_a_number_that_is_not_root(containerfile: Containerfile) -> None:
    assert re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", last_stage(containerfile).texts("USER")[-1])


@each_file
def test_bases_have_a_version(containerfile: Containerfile) -> None:
    names = {stage.name for stage in containerfile.stages}
    for stage in containerfile.stages:
        base = re.sub(r"\$\{(\w+)\}", lambda found: containerfile.arguments[found[1]], stage.base)
        assert base in names or re.search(r":\d[^:/]*$", base), base


@each_file
def test_nothing_else_is_fetched_or_cached(containerfile: Containerfile) -> None:
    for stage in containerfile.stages:
        assert not stage.texts("ADD")
        for command in stage.commands():
            for install in re.findall(r"pip (?:install|wheel) [^&]*", command):
                assert "--no-cache-dir" in install
            assert "apt-get" not in command
    words = " ".join([*containerfile.arguments, *last_stage(containerfile).texts("ENV")]).lower()
    assert not re.search("password|token|secret", words)


@each_file
def test_what_builds_the_wheel_is_locked_with_hashes(containerfile: Containerfile) -> None:
    """An isolated build would fetch the newest release of everything that builds."""
    (command,) = containerfile.stages[0].commands()
    tools, wheel = command.split("&&")
    assert "--require-hashes" in tools
    assert "-r /src/requirements/build.lock" in tools
    assert {"--no-index", "--no-deps", "--find-links"} <= set(wheel.split())


def test_the_locks_of_tools_have_all_that_is_needed() -> None:
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    for name, wanted in (
        ("build", requires),
        ("release", ["build", "twine", "cyclonedx-bom", *requires]),
        ("publish", ["uv"]),
    ):
        text = (ROOT / "requirements" / f"{name}.lock").read_text()
        entries = re.findall(r"^([\w.-]+)==\S+.*\n((?: +--hash=sha256:[0-9a-f]{64}.*\n)+)", text, re.MULTILINE)
        assert {each for each, _ in entries} >= set(wanted), name
        assert len(entries) == len(re.findall(r"^\w", text, re.MULTILINE)), name
        assert "http" not in text


@each_file
def test_copied_files_are_in_the_context(containerfile: Containerfile) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert (ROOT / ".containerignore").read_text() == (ROOT / ".dockerignore").read_text()
    assert all((ROOT / each).exists() for each in let_in)
    for stage in containerfile.stages:
        sources = [text.split()[0] for text in stage.texts("COPY") if not text.startswith("--from")]
        assert set(sources) <= {*let_in, "."}


@each_file
def test_the_wheel_has_nothing_of_this_machine(containerfile: Containerfile) -> None:
    """It is built once, for all architectures."""
    assert containerfile.stages[0].commands()[0].startswith("python -m pip wheel")
    for path in FILES:
        assert "FROM --platform=$BUILDPLATFORM ${PYTHON_IMAGE} AS wheel" in path.read_text()


def test_the_init_container_keeps_the_versions_that_the_image_keeps() -> None:
    values = yaml.safe_load((ROOT / "helm-values" / "hub-without-image.yaml").read_text())
    hub = read_containerfile(IMAGES / "hub.Containerfile")
    excluded = [
        re.findall(r"--exclude (\S+)", text)
        for text in (last_stage(hub).commands()[0], values["hub"]["initContainers"][0]["command"][2])
    ]
    assert excluded[0] == excluded[1] != []
    assert values["hub"]["initContainers"][0]["image"].endswith(f":{hub.arguments['HUB_VERSION']}")


def test_comments_and_options_are_read(tmp_path: Path) -> None:
    path = tmp_path / "Containerfile"
    path.write_text(
        "ARG A=1\nFROM --platform=x a:${A} AS b\n# no\nRUN --mount=type=bind,source=/a one \\\n # no\n && two\n"
    )
    found = read_containerfile(path)
    assert found.arguments == {"A": "1"}
    (stage,) = found.stages
    assert (stage.base, stage.name) == ("a:${A}", "b")
    assert [" ".join(each.split()) for each in stage.commands()] == ["one && two"]
