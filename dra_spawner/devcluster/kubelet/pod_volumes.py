"""A pod's volumes as directories of this machine.

A process has no mount namespace of its own here, so a volume's directory cannot appear at its ``mountPath``. Instead,
each path at or below a ``mountPath`` in the pod's command, arguments, environment or working directory is replaced by
the volume's directory. A claim's directory outlives the pod, like the claim.
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.kubelet.pod_environment import expand


class VolumeProblem(Exception):
    """Raised if a volume cannot be provided, or not yet; the message is that of the pod's event."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One ``volumeMounts`` entry of a container."""

    mount_path: str
    directory: Path
    persistent: bool
    read_only: bool


@dataclass(frozen=True, slots=True)
class NodeDirectories:
    """Directories of a node's pods and volumes."""

    root: Path

    def pod(self, pod: JsonObject) -> Path:
        """Directory of a pod, removed with it."""
        metadata: JsonObject = pod["metadata"]
        return self.root / "pods" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"

    def container(self, pod: JsonObject, container: str) -> Path:
        """Directory for a container's HOME, as it has no file system of its own."""
        return self.pod(pod) / "containers" / container

    def temporary(self, pod: JsonObject, container: str) -> Path:
        """Directory for a container's temporary files, outside its user's directories."""
        return self.pod(pod) / "tmp" / container

    def log(self, pod: JsonObject, container: str, restart: int) -> Path:
        return self.pod(pod) / "logs" / container / f"{restart}.log"

    def persistent_volume_claim(self, claim: JsonObject) -> Path:
        """Directory of a claim; a later claim of the same name gets another one."""
        metadata: JsonObject = claim["metadata"]
        return self.root / "volumes" / str(metadata["namespace"]) / f"{metadata['name']}-{metadata['uid'][:8]}"

    def remove_pod(self, pod: JsonObject) -> None:
        shutil.rmtree(self.pod(pod), ignore_errors=True)


def volume_references(pod: JsonObject) -> set[tuple[str, str]]:
    """The ConfigMaps, Secrets and PersistentVolumeClaims of the volumes, as pairs (plural, name)."""
    found = set()
    for volume in pod["spec"].get("volumes") or []:
        if "configMap" in volume:
            found.add(("configmaps", volume["configMap"].get("name", "")))
        if "secret" in volume:
            found.add(("secrets", volume["secret"].get("secretName", "")))
        if "persistentVolumeClaim" in volume:
            found.add(("persistentvolumeclaims", volume["persistentVolumeClaim"]["claimName"]))
    return found


def prepare_volumes(
    pod: JsonObject, directories: NodeDirectories, sources: Mapping[tuple[str, str], JsonObject]
) -> dict[str, Path]:
    """Create the directory of each volume, with the files of its ConfigMap or Secret; return them by volume name.

    Parameters
    ----------
    sources
        The existing objects of `volume_references`.

    Raises
    ------
    VolumeProblem
        If an object is missing, or the volume's kind cannot be provided here.
    """
    paths = {}
    for volume in pod["spec"].get("volumes") or []:
        path = directories.pod(pod) / "volumes" / volume["name"]
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = sources.get(("persistentvolumeclaims", name))
            if claim is None:
                raise _failed(volume, f'persistentvolumeclaim "{name}" not found')
            path = directories.persistent_volume_claim(claim)
        path.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            _write_files(path, volume, volume["configMap"], "configmap", volume["configMap"].get("name", ""), sources)
        elif "secret" in volume:
            _write_files(path, volume, volume["secret"], "secret", volume["secret"].get("secretName", ""), sources)
        elif "persistentVolumeClaim" not in volume and "emptyDir" not in volume:
            kind = ", ".join(key for key in volume if key != "name")
            raise _failed(volume, f"a development node does not support volumes of kind {kind}")
        paths[volume["name"]] = path
    return paths


def container_mounts(
    container: JsonObject, volumes: Mapping[str, Path], environment: Mapping[str, str], pod: JsonObject
) -> list[Mount]:
    """A container's mounts, the longest ``mountPath`` first.

    Raises
    ------
    VolumeProblem
        If a ``subPath`` leaves its volume.
    """
    kinds = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
    mounts = []
    for entry in container.get("volumeMounts") or []:
        directory = volumes[entry["name"]]
        sub_path = entry.get("subPath") or expand(entry.get("subPathExpr") or "", environment)
        if sub_path:
            if ".." in PurePosixPath(sub_path).parts or sub_path.startswith("/"):
                raise _failed(kinds[entry["name"]], f"subPath {sub_path!r} must be a relative path without ..")
            directory /= sub_path
            # It may also be a file, such as one key of a ConfigMap.
            if not directory.exists():
                directory.mkdir(parents=True)
        mounts.append(
            Mount(
                mount_path=entry["mountPath"].rstrip("/") or "/",
                directory=directory,
                persistent="persistentVolumeClaim" in kinds[entry["name"]],
                read_only=bool(entry.get("readOnly")),
            )
        )
    return sorted(mounts, key=lambda mount: -len(mount.mount_path))


def translate(text: str, mounts: list[Mount]) -> str:
    """Replace paths at or below a ``mountPath``, also after ``=``, ``:`` or ``,``."""
    if not mounts:
        return text
    by_path = {mount.mount_path: str(mount.directory) for mount in mounts}
    paths = "|".join(re.escape(path) for path in by_path if path != "/")
    if not paths:
        return text
    # No match inside a longer path or a URL (https://host/home/…), or inside a name (/home in /homes).
    return re.sub(rf"(?<![\w./-])(?:{paths})(?![\w.-])", lambda match: by_path[match[0]], text)


def working_directory(container: JsonObject, mounts: list[Mount], private: Path) -> Path:
    """The directory of ``workingDir`` in a mount, else of the only writable claim, else the container's own."""
    wanted = container.get("workingDir")
    if wanted and (translated := translate(wanted, mounts)) != wanted:
        path = Path(translated)
        path.mkdir(parents=True, exist_ok=True)
        return path
    persistent = {mount.directory for mount in mounts if mount.persistent and not mount.read_only}
    return persistent.pop() if len(persistent) == 1 else private


def _write_files(
    path: Path,
    volume: JsonObject,
    reference: JsonObject,
    kind: str,
    name: str,
    sources: Mapping[tuple[str, str], JsonObject],
) -> None:
    obj = sources.get((f"{kind}s", name))
    if obj is None:
        if reference.get("optional"):
            return
        raise _failed(volume, f'{kind} "{name}" not found')
    data = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    if kind == "secret":
        data = {key: base64.b64decode(value) for key, value in data.items()}
    data |= {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}
    files = {item["path"]: item["key"] for item in reference.get("items") or []} or {key: key for key in data}
    for relative, key in files.items():
        if key not in data:
            if reference.get("optional"):
                continue
            raise _failed(volume, f"references non-existent {kind} key: {key}")
        target = path / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data[key])


def _failed(volume: JsonObject, why: str) -> VolumeProblem:
    return VolumeProblem(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {why}')
