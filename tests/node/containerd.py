"""The container runtime of a real node: containers with devices (CDI), images, and the pods' network."""

from __future__ import annotations

import json
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.programs import Programs

from .images import PAUSE
from .network import Bridge
from .node_binaries import NodeBinaries
from .node_space import NodeSpace

__all__ = ["CONTAINERD_SOCKET", "Containerd"]

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_NAME = "containerd"
_READY_SOCKET = "/run/containerd-ready.sock"
_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Containerd:
    """containerd of one node; its data stays while it is not running."""

    programs: Programs
    space: NodeSpace
    binaries: NodeBinaries
    directory: Path
    snapshotter: str
    """How images are kept, see `Machine.snapshotter`."""
    bridge: Bridge

    def __post_init__(self) -> None:
        (self.directory / "cni").mkdir(exist_ok=True)
        (self.directory / "cni" / "10-bridge.conflist").write_text(json.dumps(_pod_network(self.bridge)))
        (self.directory / "containerd.toml").write_text(self._configuration())

    def start(self) -> None:
        """Start it; returns when the kubelet's requests (CRI) are answered.

        containerd says so as to systemd (sd_notify), when the CRI plugin has recovered its state. Without that plugin it
        ends.
        """
        ready = self.space.path(_READY_SOCKET)
        ready.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as said:
            said.bind(str(ready))
            said.setblocking(False)
            command = (self.binaries[_NAME], "--config", self.directory / "containerd.toml")
            self.programs.start(_NAME, "env", f"NOTIFY_SOCKET={_READY_SOCKET}", *command)
            self.programs.until(lambda: _is_ready(said), lambda: "containerd is ready", _START_SECONDS)

    def restart(self) -> None:
        """End it and start it again; containers go on."""
        self.programs.end(_NAME, signal.SIGTERM)
        self.start()

    @property
    def is_running(self) -> bool:
        return _NAME in self.programs

    def import_image(self, archive: Path) -> None:
        """Bring an image to the node, as a pull does."""
        self._ctr("images", "import", "--snapshotter", self.snapshotter, archive)

    def remove_image(self, name: str) -> None:
        self._ctr("images", "remove", "--sync", name)

    def tasks(self) -> list[str]:
        """Ids of containers with a process, sandboxes included."""
        return self._ctr("tasks", "list", "--quiet").split()

    def _ctr(self, *arguments: str | Path) -> str:
        """Run containerd's client."""
        return self.space.run(self.binaries["ctr"], "--namespace", "k8s.io", *arguments)

    def _configuration(self) -> str:
        runtime = "plugins.'io.containerd.cri.v1.runtime'"
        return f"""
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
imports = []
required_plugins = ["io.containerd.grpc.v1.cri"]

[plugins.'io.containerd.cri.v1.images']
snapshotter = "{self.snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE}"

[{runtime}]
cdi_spec_dirs = ["/run/cdi"]
# A container may itself not be allowed to lower this.
restrict_oom_score_adj = true
disable_apparmor = true
[{runtime}.cni]
bin_dirs = ["{self.binaries.directory}"]
conf_dir = "{self.directory}/cni"

[plugins.'io.containerd.internal.v1.opt']
path = "/var/lib/containerd/opt"
[plugins.'io.containerd.nri.v1.nri']
disable = true
"""


def _is_ready(said: socket.socket) -> bool:
    try:
        return b"READY=1" in said.recv(1024).splitlines()
    except BlockingIOError:
        return False


def _pod_network(bridge: Bridge) -> dict[str, Any]:
    """CNI's: addresses behind the node's bridge, no translation, nothing else on the machine changed."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": bridge.subnet, "gateway": bridge.address}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugin = {"type": "bridge", "bridge": bridge.name, "isGateway": False, "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "node", "plugins": [plugin]}
