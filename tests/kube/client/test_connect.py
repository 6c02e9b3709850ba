"""Where the cluster is found."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes_asyncio.config import incluster_config

from dra_spawner.kube.client.api import KubernetesUnavailable
from dra_spawner.kube.client.connect import ClusterAddress, ClusterNotFound, cluster_fingerprint, connect, own_namespace
from tests.cluster.access import service_token
from tests.cluster.certificates import write_certificates
from tests.cluster.control_plane import write_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.local_server import serving


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """As the kubelet mounts it."""
    directory = tmp_path / "account"
    directory.mkdir()
    certificate = write_certificates(tmp_path / "pki").authority.read_text()
    for name, text in (("token", "secret"), ("ca.crt", certificate), ("namespace", "hub\n")):
        (directory / name).write_text(text)
    return directory


async def test_clusters_are_told_apart_by_their_authorities(account: Path, tmp_path: Path):
    async def found() -> str:
        async with await connect(environment={}, account=account) as api:
            return cluster_fingerprint(api)

    first = await found()
    assert len(first) == 12
    assert await found() == first
    other = write_certificates(tmp_path / "other pki").authority.read_text()
    (account / "ca.crt").write_text(other)
    assert await found() not in ("", first)
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": "http://127.0.0.1:1"}, "token", "default")
    async with await connect(ClusterAddress(str(kubeconfig))) as api:
        assert cluster_fingerprint(api) == "", "it has none"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"},
            "https://10.0.0.1:6443",
            id="given",
        ),
        pytest.param({}, "https://kubernetes.default.svc:443", id="environment of a managed service"),
    ],
)
async def test_in_a_pod(account: Path, environment: dict[str, str], expected: str):
    async with await connect(environment=environment, account=account) as api:
        assert api.server == expected


async def test_given_addresses_come_first(account: Path, tmp_path: Path):
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": "http://127.0.0.1:1"}, "t", "default")
    async with await connect(ClusterAddress(kubeconfig=str(kubeconfig)), account=account) as api:
        assert api.server == "http://127.0.0.1:1"
    async with await connect(ClusterAddress(server="https://127.0.0.1:2"), environment={}, account=account) as api:
        assert api.server == "https://127.0.0.1:2"


async def test_a_token_is_read_again_and_one_that_cannot_be_read_is_a_failure(
    account: Path, tmp_path: Path, monkeypatch
):
    """A token file may be empty or missing while it is rewritten: the request is sent again later."""
    monkeypatch.setattr(incluster_config, "TOKEN_REFRESH_PERIOD", timedelta(0))

    async def whose(request: web.Request) -> web.Response:
        return web.json_response({"token": request.headers["Authorization"]})

    async with serving(whose) as url, await connect(ClusterAddress(server=url), environment={}, account=account) as api:
        assert await api.get("/version") == {"token": "Bearer secret"}
        (account / "token").write_text("")
        with pytest.raises(KubernetesUnavailable, match="Token file exists but empty"):
            await api.get("/version")
        (account / "token").unlink()
        with pytest.raises(KubernetesUnavailable, match="token"):
            await api.get("/version")
        (account / "token").write_text("newer")
        assert await api.get("/version") == {"token": "Bearer newer"}


async def test_with_a_given_token(real_cluster: ClusterUnderTest, tmp_path: Path):
    token = tmp_path / "token"
    token.write_text(await service_token(real_cluster.admin, real_cluster.namespace))
    address = ClusterAddress(
        server=real_cluster.url,
        token_file=str(token),
        certificate_authority=str(real_cluster.certificate_authority),
    )
    async with await connect(address) as api:
        assert (await api.get("/version"))["major"] == "1"
        assert "items" in await api.list("/api/v1/nodes")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        pytest.param(ClusterAddress(kubeconfig="/nonexistent"), "by /nonexistent", id="no such kubeconfig"),
        pytest.param(ClusterAddress(server="https://a:1", token_file="/nonexistent"), "by https://a:1", id="no token"),
        pytest.param(None, "No service account is mounted here", id="nothing at all"),
    ],
)
async def test_not_found(address: ClusterAddress | None, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ClusterNotFound, match=r"The cluster cannot be found") as raised:
        await connect(address, environment={}, account=tmp_path / "none")
    assert text in str(raised.value)


async def test_a_kubeconfig_with_values_of_wrong_types(tmp_path: Path):
    """The client does not check them; every command and the service name the file."""
    for written in ("clusters: 5\ncontexts: []\nusers: []", "[]", "current-context: {}\nclusters: [1]"):
        file = tmp_path / "kubeconfig"
        file.write_text(written)
        with pytest.raises(ClusterNotFound, match=str(file)):
            await connect(ClusterAddress(kubeconfig=str(file)), environment={}, account=tmp_path / "none")


def test_own_namespace(account: Path, tmp_path: Path):
    assert own_namespace({"POD_NAMESPACE": "mine"}, account) == "mine"
    assert own_namespace({}, account) == "hub"
    assert own_namespace({}, tmp_path / "none", default="other") == "other"
