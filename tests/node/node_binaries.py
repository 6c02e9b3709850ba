"""Builds the programs that a node runs beside the kubelet, once a machine, and finds them again.

The container runtime and its network plugins come as Go modules, the images' programs from ``tests/cluster/harness``;
kubelet and the DRA driver are in the control plane's binary (`tests.cluster.harness_binary`).
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

CONTAINERD = ("v2.4.2", "github.com/containerd/containerd/v2/cmd/", ("containerd", "containerd-shim-runc-v2", "ctr"))
# A pod's network: an address of the bridge's subnet.
PLUGINS = (
    "v1.9.1",
    "github.com/containernetworking/plugins/plugins/",
    ("main/bridge", "main/loopback", "ipam/host-local"),
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
    digest = hashlib.sha256(repr((CONTAINERD, PLUGINS, _FLAGS)).encode())
    for image in IMAGES:
        digest.update((HARNESS / "images" / image / "main.go").read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build(unfinished: Path) -> None:
    unfinished.mkdir()
    for version, prefix, names in (CONTAINERD, PLUGINS):
        run_go(HARNESS, "install", *_FLAGS, *(f"{prefix}{name}@{version}" for name in names), GOBIN=str(unfinished))
    for image in IMAGES:
        run_go(HARNESS, "build", *_FLAGS, "-o", unfinished / image, f"./images/{image}")
