"""Builds the Go allocator of each release behind a pipe once a machine, and asks it.

``releases/`` has a Go module for each release: its versions, and what its API has of its own. The rest is common.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from dra_spawner.dra.scheduler_rules import Release
from tests import examples
from tests.cluster.harness_binary import BinaryUnavailable, BuildFailed, built_once, cache_directory, run_go

__all__ = [
    "RELEASES",
    "BinaryUnavailable",
    "BuildFailed",
    "Oracles",
    "ask",
    "binary_or_skip",
    "oracle",
    "oracle_binary",
    "oracles",
]

MODULE: Final = Path(__file__).parent
_CHUNK = 250
_FLAGS: Final = ("-trimpath", "-ldflags", "-s -w")

_ALLOCATOR: Final = "k8s.io/dynamic-resource-allocation"
#: A release with this file visits pools in the random order of Go's maps.
_IN_ORDER: Final = "ids_in_order.go.txt"
_OVER_POOLS: Final = re.compile(r"for (_|poolID), (\w+) := range pools \{")

#: Binaries by release, those that could be built.
Oracles: TypeAlias = Mapping[Release, Path]


def _versions() -> dict[Release, str]:
    found = {}
    for path in sorted(MODULE.glob("releases/*/go.mod")):
        major, minor = path.parent.name.split(".")
        version = re.search(r"k8s\.io/dynamic-resource-allocation v0\.(\S+)", path.read_text())
        assert version is not None, path
        found[int(major), int(minor)] = f"1.{version[1]}"
    return found


#: Version of each release's allocator.
RELEASES: Final = _versions()
#: The release of tests that ask one allocator alone. The tests' control plane is built from the same versions of the same
#: modules (`tests.cluster.harness_binary`), so that Go compiles hardly anything anew.
REFERENCE: Final[Release] = (1, 37)


def oracle_binary(release: Release = REFERENCE) -> Path:
    """The binary for this source, built if need be (about a minute).

    Raises
    ------
    BinaryUnavailable
        If there is neither a binary built earlier nor Go, or not the Go that this release needs.
    BuildFailed
        If Go could not build it.
    """
    name = ".".join(map(str, release))
    sources = _sources(name)
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    binary = cache_directory() / f"allocator-oracle-{name}-{digest.hexdigest()[:16]}"
    return built_once(binary, lambda unfinished: _build(sources, unfinished), f"the allocator's oracle of {name}")


def _sources(name: str) -> list[Path]:
    """Files of the program; a release's own file replaces the common one of this name."""
    files = {path.name: path for directory in (MODULE, MODULE / "releases" / name) for path in directory.glob("*.go")}
    files |= {path.name: path for path in (MODULE / "releases" / name).glob("*.*")}
    return [files[key] for key in sorted(files)]


def _build(sources: Iterable[Path], binary: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        module = Path(directory)
        for path in sources:
            shutil.copy(path, module)
        go_version = re.search(r"^go (\S+)$", (module / "go.mod").read_text(), re.MULTILINE)
        assert go_version is not None
        # A newer Go is loaded only if this one is too old.
        environment = {"GOTOOLCHAIN": "auto"}
        try:
            run_go(module, "version", **environment)
        except BuildFailed as error:
            raise BinaryUnavailable(f"Go {go_version[1]} cannot be had: {error}") from None
        if (module / _IN_ORDER).exists():
            _visit_pools_in_order(module, go_version[1])
        run_go(module, "build", *_FLAGS, "-o", binary, ".", **environment)


def _visit_pools_in_order(module: Path, go_version: str) -> None:
    """Let an allocator that visits pools in the random order of Go's maps visit them by name, as later ones do."""
    helper = (module / _IN_ORDER).read_text()
    (module / _IN_ORDER).unlink()
    run_go(module, "mod", "vendor", "-o", "unused")
    copied = module / "allocator"
    shutil.move(module / "unused" / _ALLOCATOR, copied)
    shutil.rmtree(module / "unused")
    (copied / "go.mod").write_text(f"module {_ALLOCATOR}\n\ngo {go_version}\n")
    for path in copied.glob("structured/internal/*/pools_*.go"):
        text, changed = _OVER_POOLS.subn(_in_order, path.read_text())
        assert changed == 1, path
        path.write_text(text)
        (path.parent / "ids_in_order.go").write_text(helper.replace("package main", f"package {path.parent.name}"))
    run_go(module, "mod", "edit", f"-replace={_ALLOCATOR}=./allocator")


def _in_order(loop: re.Match[str]) -> str:
    key = "id" if loop[1] == "_" else loop[1]
    return f"for _, {key} := range idsInOrder(pools) {{\n\t\t{loop[2]} := pools[{key}]"


def binary_or_skip(release: Release = REFERENCE) -> Path:
    """The binary for a test, which is skipped where there is none."""
    try:
        return oracle_binary(release)
    except BinaryUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The binary; a test that takes it needs Go once."""
    return binary_or_skip()


@pytest.fixture(scope="session")
def oracles() -> Oracles:
    """The binaries of all releases in the tier *long*, and that of `REFERENCE` in other tiers.

    Each takes a minute or two to build. A release is left out if it needs a Go that cannot be loaded.
    """
    found = {}
    for release in RELEASES if examples.are_all_wanted() else (REFERENCE,):
        try:
            found[release] = oracle_binary(release)
        except BinaryUnavailable:
            continue
    if not found:
        pytest.skip("no allocator could be built: Go is missing")
    return found


def ask(binary: Path, scenarios: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each scenario with the Go allocator's answer."""
    remaining = iter(scenarios)
    while chunk := list(islice(remaining, _CHUNK)):
        text = "".join(json.dumps(scenario) + "\n" for scenario in chunk)
        done = subprocess.run([binary], input=text, capture_output=True, text=True, timeout=240)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or len(answers) != len(chunk):
            raise RuntimeError(f"the allocator oracle failed on one of {len(chunk)} scenarios: {done.stderr[-2000:]}")
        yield from zip(chunk, answers, strict=True)
