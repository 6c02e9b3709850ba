"""A hub's side without any cluster: for the steps before the first request."""

import json

import pytest

from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of


@pytest.fixture
async def nowhere(tmp_path):
    """HubSide whose API server does not exist; a request would fail."""
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}
    user = {"name": "nobody", "user": {"token": "none"}}
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "nowhere",
                "clusters": [cluster],
                "contexts": [context],
                "users": [user],
            }
        )
    )
    with kubernetes_of(kubeconfig):
        yield HubSide(kubeconfig, "jupyterhub")
        await end_hub_side()
