"""Builds Helm once a machine from the Go module in ``helm/``, and finds it again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from tests.cluster.harness_binary import BinaryUnavailable, BuildFailed, built_once, cache_directory, run_go

__all__ = ["BinaryUnavailable", "BuildFailed", "helm_binary"]

MODULE = Path(__file__).parent / "helm"
_PACKAGE = "helm.sh/helm/v3/cmd/helm"
# As in Helm's Makefile: without them `helm template` takes Kubernetes for 1.20, which charts refuse.
_LDFLAGS = (
    "-s -w -X helm.sh/helm/v3/internal/version.version=v3.21.4"
    " -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37"
)
_BUILD_ARGUMENTS = ("build", "-trimpath", "-ldflags", _LDFLAGS)


def helm_binary(report: Callable[[str], None] = lambda _: None) -> Path:
    """The binary for this ``go.mod``, built if need be (about a minute on two cores).

    Raises
    ------
    BinaryUnavailable
        If there is neither a binary built earlier nor Go.
    BuildFailed
        If Go could not build it.
    """
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes() + b"\0")
    digest.update(" ".join(_BUILD_ARGUMENTS).encode())
    binary = cache_directory() / f"helm-{digest.hexdigest()[:16]}"
    return built_once(
        binary,
        lambda unfinished: run_go(MODULE, *_BUILD_ARGUMENTS, "-o", unfinished, _PACKAGE),
        "Helm for tests (once, about a minute on 2 cores)",
        report,
    )
