"""Builds the Go allocator behind a pipe once a machine, and asks it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness_binary import BinaryUnavailable, BuildFailed, cache_directory, find_go

__all__ = ["BinaryUnavailable", "BuildFailed", "ask", "binary_or_skip", "oracle_binary"]

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
    if binary.exists():
        return binary
    go = find_go()
    if go is None:
        raise BinaryUnavailable(f"no Go toolchain (Go 1.26), and no allocator oracle built earlier as {binary}")
    binary.parent.mkdir(parents=True, exist_ok=True)
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}.unfinished")
    done = subprocess.run(
        [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", unfinished, "."],
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BuildFailed(f"`go build` in {MODULE} failed:\n{done.stderr[-4000:]}")
    unfinished.rename(binary)
    return binary


def binary_or_skip() -> Path:
    """The binary for a test, which is skipped where there is none."""
    try:
        return oracle_binary()
    except BinaryUnavailable as reason:
        pytest.skip(str(reason))


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
