"""Known defects of Kubernetes that hurt servers with devices, with the patch releases that mend them.

Each row was read in Kubernetes' own changelog, or in the source of the releases before and after the mend. A provider
may have mended its own build earlier. docs/reference/versions.md has the table, which a test compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from dra_spawner.versions import MinorVersion, version_text

#: A version whose patch number is None where it is unknown.
FoundVersion: TypeAlias = tuple[MinorVersion, int | None]


class Program(StrEnum):
    """The program of Kubernetes with the defect."""

    SCHEDULER = "kube-scheduler"
    CONTROLLER_MANAGER = "kube-controller-manager"
    KUBELET = "kubelet"


class Meets(StrEnum):
    """What meets a defect, as far as profiles or a cluster show it."""

    RUSH = "many starts with devices at once"
    SHARED_AND_OWN = "a claim that other servers use, beside one of the server's own"
    SHARED_PARTITIONS = "devices that are both shared and parts of others"
    ALL_OF_PARTITIONS = "all devices of a kind, among them parts of others"
    PARTITIONS = "devices that are parts of others"
    LATE_TEMPLATE = "a template that is made after the server"
    SEVERAL_TEMPLATES = "several claims from templates"
    TAINT_RULES = "taints that an administrator sets by rules"
    LARGE_CLUSTER = "hundreds of nodes with devices"


@dataclass(frozen=True, slots=True)
class KubernetesDefect:
    """One defect.

    Attributes
    ----------
    issue
        Number of the issue or pull request of kubernetes/kubernetes.
    happens
        What happens, as a sentence.
    mended
        For each affected release that is supported, the first patch that mends it; None where none is known.
    mended_by
        The first release that never had the defect, or was mended before it came out; None where none is known.
    advice
        What helps without an upgrade; empty where nothing is known.
    """

    issue: int
    program: Program
    meets: Meets
    happens: str
    mended: Mapping[MinorVersion, int | None]
    mended_by: MinorVersion | None
    advice: str = ""

    def affects(self, found: FoundVersion) -> bool:
        """Whether a version has the defect. Where its patch is unknown, only if no patch is known to mend it."""
        minor, patch = found
        if minor not in self.mended:
            return False
        first = self.mended[minor]
        return first is None or (patch is not None and patch < first)

    def remedy(self, minor: MinorVersion) -> str:
        """Name the upgrade that mends it, and what helps without one."""
        return f"{self.upgrade(minor)} Until then: {self.advice}" if self.advice else self.upgrade(minor)

    def upgrade(self, minor: MinorVersion) -> str:
        """Name the upgrade that mends it, for one affected release."""
        patch = self.mended.get(minor)
        if patch is not None:
            return f"Upgrade {self.program} to {version_text(minor)}.{patch} or later."
        if self.mended_by is not None:
            newer = version_text(self.mended_by)
            return f"Kubernetes {newer}.0 mends it; no patch of {version_text(minor)} is known to."
        return "No release is known to mend it."

    @property
    def address(self) -> str:
        """Where it is described."""
        return f"https://github.com/kubernetes/kubernetes/issues/{self.issue}"

    @property
    def versions(self) -> str:
        """The affected versions, such as ``1.34.0 to 1.34.3, 1.35.0``."""
        return ", ".join(_affected(minor, patch) for minor, patch in self.mended.items())


def _affected(minor: MinorVersion, mended: int | None) -> str:
    release = version_text(minor)
    match mended:
        case None:
            return release
        case 1:
            return f"{release}.0"
        case _:
            return f"{release}.0 to {release}.{mended - 1}"


DEFECTS: Final = (
    KubernetesDefect(
        136269,
        Program.SCHEDULER,
        Meets.RUSH,
        "When many servers start at once, kube-scheduler sometimes gives one device to two of them. The second does "
        "not start, or both use the device.",
        {(1, 34): 4, (1, 35): 1},
        (1, 36),
    ),
    KubernetesDefect(
        135901,
        Program.KUBELET,
        Meets.SHARED_AND_OWN,
        "A server does not start on a node where another server already uses one of its claims: the kubelet does not "
        "prepare the claims after that one.",
        {(1, 34): 4, (1, 35): 1},
        (1, 36),
        "Put these devices into one claim, or let servers share none.",
    ),
    KubernetesDefect(
        139034,
        Program.SCHEDULER,
        Meets.SHARED_PARTITIONS,
        "kube-scheduler forgets what shared partitions use of their device, and gives away partitions that exclude one "
        "another: two servers get the same hardware.",
        {(1, 34): None, (1, 35): None, (1, 36): 2},
        (1, 37),
    ),
    KubernetesDefect(
        138882,
        Program.SCHEDULER,
        Meets.ALL_OF_PARTITIONS,
        "One pod that asks for all devices of a kind (allocationMode: All) ends kube-scheduler where one of them is a "
        "partition: nothing starts any more while that pod waits.",
        {(1, 35): 6, (1, 36): 2},
        (1, 37),
        "Ask for a number of devices instead of all.",
    ),
    KubernetesDefect(
        140663,
        Program.SCHEDULER,
        Meets.PARTITIONS,
        "kube-scheduler counts partitions twice while it tries devices, so a server may wait although its partition is "
        "free.",
        {(1, 36): 3},
        (1, 37),
    ),
    KubernetesDefect(
        139681,
        Program.SCHEDULER,
        Meets.TAINT_RULES,
        "A DeviceTaintRule ends kube-scheduler when devices change, or later changes of rules are not noticed.",
        {(1, 36): 3},
        (1, 37),
        "Leave the feature gate DRADeviceTaintRules off.",
    ),
    KubernetesDefect(
        135835,
        Program.CONTROLLER_MANAGER,
        Meets.LATE_TEMPLATE,
        "A claim template that is made after the pod that names it is noticed after up to 1,000 seconds. Until then "
        "the pod has no claim, and waits.",
        {(1, 34): None, (1, 35): None},
        (1, 36),
        "Make the template first; a server that waits can be stopped and started again.",
    ),
    KubernetesDefect(
        138407,
        Program.CONTROLLER_MANAGER,
        Meets.SEVERAL_TEMPLATES,
        "A pod with two or more claims from templates is sometimes never scheduled: its status names one claim at "
        "a time, in turns. It was seen where hundreds of pods were created at once.",
        {(1, 34): None, (1, 35): None, (1, 36): None},
        (1, 37),
        "Put devices that belong together into one claim with several requests. Servers that get a placeholder are not "
        "concerned: their claims have fixed names.",
    ),
    KubernetesDefect(
        141046,
        Program.SCHEDULER,
        Meets.LARGE_CLUSTER,
        "Before 1.37 came out, pods with claims were scheduled more slowly than before in Kubernetes' own tests with "
        "500 nodes, some after seconds. The cause is not known.",
        {(1, 37): None},
        None,
        "Larger limits of requests help (client-limits), and warm claims of placeholders need fewer requests.",
    ),
)


def defects_of(program: Program, found: FoundVersion) -> Iterator[KubernetesDefect]:
    """The defects of one program in a version."""
    return (each for each in DEFECTS if each.program is program and each.affects(found))
