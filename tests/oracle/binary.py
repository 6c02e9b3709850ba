"""Builds the Go allocator behind a pipe once a machine, and asks it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness_binary import BinaryUnavailable, BuildFailed, built_once, cache_directory, run_go

__all__ = ["BinaryUnavailable", "BuildFailed", "ask", "binary_or_skip", "oracle", "oracle_binary"]

MODULE = Path(__file__).parent
_CHUNK = 250


def oracle_binary() -> Path:
    """The binary for this source, built if need be (about a minute).

    Raises
    ------
    BinaryUnavailable
        If there is neither a binary built earlier nor Go.
    BuildFailed
        If Go could not build it.
    """
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go", "selectors.go"):
        digest.update((MODULE / name).read_bytes() + b"\0")
    binary = cache_directory() / f"allocator-oracle-{digest.hexdigest()[:16]}"
    flags = ("-trimpath", "-ldflags", "-s -w")
    return built_once(
        binary, lambda unfinished: run_go(MODULE, "build", *flags, "-o", unfinished, "."), "the allocator's oracle"
    )


def binary_or_skip() -> Path:
    """The binary for a test, which is skipped where there is none."""
    try:
        return oracle_binary()
    except BinaryUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The binary; a test that takes it needs Go once."""
    return binary_or_skip()


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
