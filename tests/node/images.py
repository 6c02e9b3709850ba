"""Container images without a registry: archives as ``docker save`` writes them, of a few files each."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAUSE = "images.test/pause:1"
QUICK_SERVER = "images.test/quick-server:1"
NOTEBOOK = "images.test/notebook:1"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def program_image(path: Path, name: str, program: Path) -> Path:
    """An image with one static program."""
    return write_image(path, name, {f"{program.name}": program.read_bytes()}, entrypoint=[f"/{program.name}"])


def notebook_image(path: Path) -> Path:
    """An image for this machine's own Python, which `notebook_volumes` brings into the container."""
    return write_image(
        path,
        NOTEBOOK,
        {"etc/passwd": b"root:x:0:0::/root:/bin/sh\njovyan:x:1000:1000::/home/jovyan:/bin/sh\n"},
        directories=["home/jovyan", "tmp", "root"],
        links={name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin") if Path("/", name).is_symlink()},
    )


def notebook_volumes() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes and mounts, all read-only, with which a container of `NOTEBOOK` runs this environment's programs."""
    system = [Path("/usr"), *(path for path in (Path("/lib"), Path("/lib64")) if not path.is_symlink())]
    wanted = [*system, *(Path(path) for path in (sys.base_prefix, sys.prefix))]
    paths = [path for path in dict.fromkeys(wanted) if not any(parent in wanted for parent in path.parents)]
    volumes = [{"name": f"host-{i}", "hostPath": {"path": str(path)}} for i, path in enumerate(paths)]
    mounts = [{"name": f"host-{i}", "mountPath": str(path), "readOnly": True} for i, path in enumerate(paths)]
    return volumes, mounts


def write_image(
    path: Path,
    name: str,
    files: Mapping[str, bytes],
    *,
    directories: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
    entrypoint: Sequence[str] = (),
) -> Path:
    """Write an archive with one image of one layer to `path`."""
    layer = _tar({**dict.fromkeys(directories), **files}, links or {})
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    contents = {"layer.tar": layer, "config.json": _json(config), "manifest.json": _json(manifest)}
    path.write_bytes(_tar(contents, {}))
    return path


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tar(contents: Mapping[str, bytes | None], links: Mapping[str, str]) -> bytes:
    """An archive; None for a directory, which all may write to."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.mode = 0o755 if content is not None else 0o1777
            info.type = tarfile.REGTYPE if content is not None else tarfile.DIRTYPE
            info.size = len(content or b"")
            archive.addfile(info, io.BytesIO(content or b""))
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return buffer.getvalue()
