"""Builds the programs that a node runs beside the kubelet, once a machine, and finds them again.

The container runtime and its network plugins come as Go modules, which ``programs/`` names with the versions that the
control plane has (``tests/cluster/test_go_modules.py``), and the images' programs from ``tests/cluster/harness``. kubelet
and the DRA driver are in the control plane's binary (`tests.cluster.harness_binary`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.harness_binary import (
    HARNESS,
    BinaryUnavailable,
    Report,
    built_once,
    cache_directory,
    find_go,
    go_platform,
    run_go,
)

MODULE = Path(__file__).parent / "programs"
PROGRAMS = (
    *(f"github.com/containerd/containerd/v2/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
    # A pod's network: an address of the bridge's subnet.
    *(
        f"github.com/containernetworking/plugins/plugins/{name}"
        for name in ("main/bridge", "main/loopback", "ipam/host-local")
    ),
)
IMAGES = ("pause", "quick-server")

_FLAGS = ("-trimpath", "-ldflags", "-s -w")


@dataclass(frozen=True, slots=True)
class NodeBinaries:
    """Where the programs are."""

    directory: Path
    harness: Path
    """The control plane's binary."""

    def __getitem__(self, name: str) -> Path:
        return self.directory / name


def node_binaries(harness: Path, report: Report = lambda _: None) -> NodeBinaries:
    """The programs of this source, built if need be.

    Raises
    ------
    BinaryUnavailable
        If there is neither a cache nor Go.
    BuildFailed
        If Go could not build them.
    """
    cache = cache_directory()
    stem = f"node-{_source_hash()}"
    go = find_go()
    if go is None:
        cached = sorted(path for path in cache.glob(f"{stem}-*") if path.is_dir())
        if cached:
            return NodeBinaries(cached[-1], harness)
        raise BinaryUnavailable(f"no Go toolchain (install Go 1.26), and nothing built earlier in {cache}/{stem}-*")
    directory = cache / f"{stem}-{'-'.join(go_platform(go))}"
    what = "a node's container runtime for tests (once, 2 minutes on 2 cores)"
    return NodeBinaries(built_once(directory, _build, what, report), harness)


def _source_hash() -> str:
    digest = hashlib.sha256(repr((PROGRAMS, _FLAGS)).encode())
    sources = [MODULE / "go.mod", MODULE / "go.sum", *(HARNESS / "images" / image / "main.go" for image in IMAGES)]
    for path in sources:
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build(unfinished: Path) -> None:
    unfinished.mkdir()
    run_go(MODULE, "build", *_FLAGS, "-o", unfinished, *PROGRAMS)
    run_go(HARNESS, "build", *_FLAGS, "-o", unfinished, *(f"./images/{image}" for image in IMAGES))
