"""``dra-spawner manifests``."""

from __future__ import annotations

import argparse
import sys

from dra_spawner.manifests.manifest_text import Installation, manifest_text

__all__ = ["run_manifests"]

_EXIT_INPUT = 2


def run_manifests(options: argparse.Namespace) -> int:
    """Print the objects; returns the exit code."""
    try:
        installation = Installation(
            options.namespace,
            options.image,
            options.base_url,
            options.hub,
            options.user_namespaces,
        )
    except ValueError as error:
        sys.stderr.write(f"dra-spawner manifests: {error}\n")
        return _EXIT_INPUT
    sys.stdout.write(manifest_text(installation))
    return 0
