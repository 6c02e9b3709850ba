"""Which release of Kubernetes the input of an offline command comes from."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from typing import Final

from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, GATES, RULES, Release, SchedulerRules, rules_of
from dra_spawner.versions import kubelet_version

_RELEASE: Final = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})")


def kubelet_release(node: Mapping[str, object]) -> Release | None:
    """Release of a node's kubelet; None if the node does not tell."""
    found = kubelet_version(node)
    return found[0] if found is not None else None


def kubernetes_release(text: str) -> Release:
    """The value of the option ``--kubernetes-version``.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is no version, or one of a release before device allocation.
    """
    found = re.fullmatch(rf"{_RELEASE.pattern}([.+-].*)?", text)
    release = (int(found[1]), int(found[2])) if found else None
    oldest = min(RULES)
    if release is None or release < oldest:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version of Kubernetes from {oldest[0]}.{oldest[1]} on")
    return release


def feature_gate(text: str) -> tuple[str, bool]:
    """The value of the option ``--feature-gate``.

    Raises
    ------
    argparse.ArgumentTypeError
        If it is no gate that changes how devices are allocated, or neither ``true`` nor ``false``.
    """
    name, _, value = text.partition("=")
    if name not in GATES or value not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=true or NAME=false with one of {', '.join(GATES)}")
    return name, value == "true"


def add_feature_gate(command: argparse.ArgumentParser) -> None:
    """Add the option to a command."""
    command.add_argument(
        "--feature-gate",
        type=feature_gate,
        action="append",
        default=[],
        metavar="NAME=true|false",
        help="decide as a kube-scheduler with this feature gate, such as DRAFractionalCapacityRange=true;"
        " may be repeated",
    )


def rules_of_objects(objects: Iterable[object], gates: Mapping[str, bool]) -> SchedulerRules:
    """The rules by which a cluster allocates devices: those of its newest kubelet, as no API server is older.

    Parameters
    ----------
    objects
        API objects; those of other kinds are passed over.
    gates
        Feature gates of kube-scheduler that the cluster has otherwise than by default.
    """
    nodes = [each for each in objects if isinstance(each, Mapping) and each.get("kind") == "Node"]
    release = max((found for node in nodes if (found := kubelet_release(node))), default=None)
    return rules_of(release or DEFAULT_RULES.release, gates)
