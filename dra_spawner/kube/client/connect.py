"""Finding the cluster: from within a pod, by a kubeconfig, or by an address."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

from dra_spawner.kube.client.api import KubernetesApi

ACCOUNT_DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's service account."""

_FINGERPRINT_DIGITS: Final = 12
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


class ClusterNotFound(Exception):
    """The address or the credentials of the cluster are unknown; the message says what to set."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Address and credentials of the API server; with all fields empty, `connect` finds them.

    Attributes
    ----------
    kubeconfig, context
        A kubeconfig file, and a context other than its current one.
    server
        URL of the API server, for use with `token_file` and `certificate_authority`.
    token_file
        Read again every minute; by default that of the pod's service account.
    certificate_authority
        File with the CA certificates; by default that of the pod's service account.
    """

    kubeconfig: str = ""
    context: str = ""
    server: str = ""
    token_file: str = ""
    certificate_authority: str = ""


async def connect(
    address: ClusterAddress | None = None,
    *,
    timeout_seconds: float = 10.0,
    environment: Mapping[str, str] | None = None,
    account: Path = ACCOUNT_DIRECTORY,
) -> KubernetesApi:
    """Connect to the cluster; nothing is sent yet.

    Without an address: as the pod's own service account where one is mounted, else by ``$KUBECONFIG`` or
    ``~/.kube/config``. A service that the hub manages runs in the hub's pod, but without the variables that name the
    API server; then ``kubernetes.default.svc`` is used.

    Raises
    ------
    ClusterNotFound
    """
    address = address or ClusterAddress()
    _require_file(address.kubeconfig)
    environment = os.environ if environment is None else environment
    has_account = (account / "token").is_file()
    try:
        if address.server or (has_account and not (address.kubeconfig or address.context)):
            configuration = _by_token(address, environment, account)
            return KubernetesApi(
                ApiClient(configuration=configuration), timeout_seconds=timeout_seconds, owns_client=True
            )
        return await KubernetesApi.from_kubeconfig(
            address.kubeconfig or None, context=address.context or None, timeout_seconds=timeout_seconds
        )
    except (config.ConfigException, OSError, ValueError) as error:
        where = address.server or address.kubeconfig
        hint = "" if where else " No service account is mounted here, and there is no usable kubeconfig."
        raise ClusterNotFound(
            f"The cluster cannot be found{f' by {where}' if where else ''}: {error}.{hint}"
        ) from error
    except (TypeError, LookupError, AttributeError) as error:
        # The library does not check types in a kubeconfig.
        raise ClusterNotFound(f"{address.kubeconfig or 'the kubeconfig'} cannot be used: {error}") from None


def cluster_fingerprint(api: KubernetesApi) -> str:
    """What tells a cluster from others without a right: a hash of its certificate authority; empty if none is known.

    Clusters behind one proxy may share it.
    """
    path = api.connection.client.configuration.ssl_ca_cert
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:_FINGERPRINT_DIGITS] if path else ""
    except OSError:
        return ""


def _require_file(kubeconfig: str) -> None:
    """Raise for a named kubeconfig that does not exist; the client would report a missing key."""
    paths = kubeconfig.split(os.pathsep) if kubeconfig else []
    if paths and not any(Path(each).expanduser().exists() for each in paths):
        raise ClusterNotFound(f"The cluster cannot be found by {kubeconfig}: there is no such file.")


def _by_token(address: ClusterAddress, environment: Mapping[str, str], account: Path) -> Configuration:
    loader = InClusterConfigLoader(
        token_filename=address.token_file or str(account / "token"),
        cert_filename=address.certificate_authority or str(account / "ca.crt"),
        environ={
            _HOST: environment.get(_HOST) or "kubernetes.default.svc",
            _PORT: environment.get(_PORT) or "443",
        },
    )
    configuration = Configuration()
    loader.load_and_set(configuration)
    if address.server:
        configuration.host = address.server
    return configuration


def own_namespace(
    environment: Mapping[str, str] | None = None, account: Path = ACCOUNT_DIRECTORY, default: str = "default"
) -> str:
    """The namespace of this process: ``$POD_NAMESPACE``, else that of the mounted service account."""
    environment = os.environ if environment is None else environment
    if name := environment.get("POD_NAMESPACE"):
        return name
    try:
        return (account / "namespace").read_text().strip() or default
    except OSError:
        return default
