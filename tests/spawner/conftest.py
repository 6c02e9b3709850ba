"""A hub's side without any cluster: for the steps before the first request."""

import pytest

from tests.cluster.control_plane import write_kubeconfig
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of


@pytest.fixture
async def nowhere(tmp_path):
    """HubSide whose API server does not exist; a request would fail."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": "http://127.0.0.1:1"}, "none", "default")
    with kubernetes_of(kubeconfig):
        yield HubSide(kubeconfig, "jupyterhub")
        await end_hub_side()
