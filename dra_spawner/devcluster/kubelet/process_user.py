"""The user of a container's processes: the user of its security context, if possible."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dra_spawner.common.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class ProcessUser:
    """Numbers of a user and of the user's groups; they need no names on this machine.

    Attributes
    ----------
    groups
        Supplementary groups, without groups of the kubelet's user.
    """

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def can_switch_users() -> bool:
    """Whether processes can run as other users: on Linux, as root."""
    return sys.platform == "linux" and os.geteuid() == 0


def process_user(pod: JsonObject, container: JsonObject) -> ProcessUser | None:
    """The user of ``runAsUser``; None for the kubelet's own user, also if the kubelet cannot switch users.

    The container's security context overrides the pod's. Without ``runAsGroup`` the group has the user's number: a
    container would get root's group, but that owns files on this machine.
    """
    of_pod = pod["spec"].get("securityContext") or {}
    context = {**of_pod, **{k: v for k, v in (container.get("securityContext") or {}).items() if v is not None}}
    uid = context.get("runAsUser")
    if not uid or not can_switch_users():
        return None
    group = context.get("runAsGroup")
    further = {*(of_pod.get("supplementalGroups") or ()), *([of_pod["fsGroup"]] if of_pod.get("fsGroup") else ())}
    return ProcessUser(uid, uid if group is None else group, tuple(sorted(further)))


def give_directories(user: ProcessUser, root: Path, pod: Path, owned: Iterable[Path], *, is_only_user: bool) -> None:
    """Give directories to the user, and close the pod's directory to others.

    Parameters
    ----------
    root
        Parent of all directories; its mode does not change.
    pod
        The pod's directory. Root stays its owner, so that its logs and volumes cannot be replaced by links.
    owned
        Directories below `root` whose parents belong to root.
    is_only_user
        Whether all containers of the pod run as this user.
    """
    for directory in owned:
        for parent in list(directory.relative_to(root).parents)[:-1]:
            (root / parent).chmod(0o711)
        if directory.lstat().st_uid == os.geteuid():
            directory.chmod(0o700)
            os.chown(directory, user.uid, user.gid)
    os.chown(pod, -1, user.gid)
    pod.chmod(0o710 if is_only_user else 0o711)
