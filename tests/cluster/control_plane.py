"""A real control plane on loopback: etcd, kube-apiserver, kube-scheduler, kube-controller-manager.

RBAC is on. Nothing is a stand-in except the nodes: see `dra_spawner.devcluster.kubelet.kubelet`.
"""

from __future__ import annotations

import json
import secrets
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

from tests.ports import free_port

from .certificates import Certificates, write_certificates
from .programs import Programs, Startable, popen_for_life

_START_SECONDS = 240.0
_ANSWER_SECONDS = 60.0
_START_TRIES = 3
_NODE_GRACE_SECONDS = 3600


class ControlPlaneError(Exception):
    """A component did not start or has died; the message ends with the tail of its log."""


@dataclass(eq=False)
class ControlPlane(Startable):
    """One control plane with its own data, ports and processes."""

    binary: Path
    """Of `harness_binary.control_plane_binary`."""
    directory: Path
    """An empty directory of its own for data, keys, logs and kubeconfigs."""
    _: KW_ONLY
    client_qps: int | None = None
    """Client limit of the scheduler and the controller manager; None for Kubernetes' defaults (50 and 20 requests a
    second), which a benchmark wants and most tests do not."""
    node_grace_seconds: int | None = _NODE_GRACE_SECONDS
    """Time without a heartbeat after which a node counts as lost; None for Kubernetes' default (50). By default longer
    than any test: most nodes here have no kubelet, so they send no heartbeat."""
    feature_gates: Mapping[str, bool] | None = None
    """Of all components, as far as they differ from their defaults."""
    scheduler_profiles: Sequence[Mapping[str, Any]] | None = None
    """``profiles`` of a KubeSchedulerConfiguration; None for the default scheduler alone."""
    api_server_arguments: Sequence[str] = ()
    url: str = ""
    """Of the API server."""
    admin_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """Of a member of ``system:masters``."""

    def __post_init__(self) -> None:
        gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in (self.feature_gates or {}).items())
        self._gates = [f"--feature-gates={gates}"] if gates else []
        self.admin_kubeconfig = self.directory / "admin.kubeconfig"
        self._arguments: dict[str, Sequence[str]] = {}
        self._certificates: Certificates | None = None
        self._opener = urllib.request.OpenerDirector()
        self._programs = Programs(self.directory, ControlPlaneError, popen_for_life)

    def start(self) -> None:
        """Start all components; returns when the API server is ready.

        Raises
        ------
        ControlPlaneError
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        self._certificates = write_certificates(self.directory / "pki")
        context = ssl.create_default_context(cafile=str(self._certificates.authority))
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        tokens = self.directory / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        for tries_left in reversed(range(_START_TRIES)):
            try:
                self._start_once()
            except ControlPlaneError as error:
                self.stop()
                # A free port may have been taken between choosing and using it.
                if tries_left and "address already in use" in str(error):
                    continue
                raise
            except BaseException:
                self.stop()
                raise
            return

    def _start_once(self) -> None:
        assert self._certificates is not None
        client_port, peer_port, api_port = free_port(), free_port(), free_port()
        etcd, peers = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
        self._launch(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self.url = f"https://127.0.0.1:{api_port}"
        self._launch(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={api_port}",
            f"--tls-cert-file={self._certificates.server}",
            f"--tls-private-key-file={self._certificates.server_key}",
            f"--cert-dir={self.directory / 'pki'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            # As installers do: admission keeps pods from privileges.
            "--allow-privileged=true",
            # No pod here runs where a service account's token could be mounted.
            "--disable-admission-plugins=ServiceAccount",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._certificates.service_account_public_key}",
            f"--service-account-signing-key-file={self._certificates.service_account_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--shutdown-watch-termination-grace-period=0s",
            *self._gates,
            *self.api_server_arguments,
        )
        self.write_kubeconfig(self.admin_kubeconfig, self.admin_token)
        self._wait_ready()
        limits = []
        if self.client_qps is not None:
            limits = [f"--kube-api-qps={self.client_qps}", f"--kube-api-burst={2 * self.client_qps}"]
        client = [
            f"--kubeconfig={self.admin_kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            *limits,
            *self._gates,
        ]
        grace = []
        if self.node_grace_seconds is not None:
            grace = [f"--node-monitor-grace-period={self.node_grace_seconds}s"]
        self._launch("kube-scheduler", *client, *self._scheduler_configuration())
        self._launch(
            "kube-controller-manager",
            *client,
            f"--service-account-private-key-file={self._certificates.service_account_key}",
            f"--root-ca-file={self._certificates.authority}",
            *grace,
        )

    def _scheduler_configuration(self) -> list[str]:
        """Further arguments of the scheduler; a configuration overrides the flags of the same meaning."""
        if self.scheduler_profiles is None:
            return []
        connection: dict[str, Any] = {"kubeconfig": str(self.admin_kubeconfig)}
        if self.client_qps is not None:
            connection |= {"qps": self.client_qps, "burst": 2 * self.client_qps}
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
            "profiles": list(self.scheduler_profiles),
        }
        path = self.directory / "scheduler.json"
        path.write_text(json.dumps(configuration))
        return [f"--config={path}"]

    def _launch(self, name: str, *arguments: str) -> None:
        self._arguments[name] = arguments
        self._programs.start(name, self.binary, name, *arguments)

    def end(self, *names: str) -> None:
        """Kill components, as a lost machine does; the others go on without them."""
        for name in names:
            self._programs.end(name, signal.SIGKILL)

    def start_again(self, *names: str) -> None:
        """Start components that were ended, with their data and ports; returns when the API server is ready."""
        for name in names:
            self._launch(name, *self._arguments[name])
        self._wait_ready()

    def _wait_ready(self) -> None:
        answer = "no answer"

        def is_ready() -> bool:
            nonlocal answer
            try:
                with self._open("GET", "/readyz"):
                    return True
            except urllib.error.HTTPError as error:
                answer = f"{error.code}: {error.read().decode(errors='replace')[-500:]}"
            except OSError as error:
                answer = str(error)
            return False

        self._programs.until(is_ready, lambda: f"kube-apiserver is ready ({answer})", _START_SECONDS)

    def stop(self) -> None:
        """End every process started here, the clients first, and wait for each."""
        self._programs.end_all()

    def request(self, method: str, path: str) -> dict[str, Any]:
        """Ask the API server as an administrator; {} for an object that does not exist."""
        try:
            with self._open(method, path) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            raise

    def _open(self, method: str, path: str) -> HTTPResponse:
        headers = {"Authorization": f"Bearer {self.admin_token}"}
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        answer: HTTPResponse = self._opener.open(request, timeout=_ANSWER_SECONDS)
        return answer

    @property
    def certificate_authority(self) -> Path:
        """The certificate with which a client trusts the API server."""
        assert self._certificates is not None
        return self._certificates.authority

    def pids(self) -> dict[str, int]:
        """Process ids of the started components, by component."""
        return self._programs.pids()

    def write_kubeconfig(self, path: Path, token: str, *, namespace: str = "default", server: str = "") -> Path:
        """A kubeconfig with a token; JSON, which is YAML."""
        assert self._certificates is not None
        cluster: dict[str, str] = {"server": server or self.url}
        if not server:
            cluster["certificate-authority"] = str(self._certificates.authority)
        return write_kubeconfig(path, cluster, token, namespace)


def write_kubeconfig(path: Path, cluster: dict[str, str], token: str, namespace: str) -> Path:
    """A kubeconfig with one cluster, one user and one context; JSON, which is YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))
    return path
