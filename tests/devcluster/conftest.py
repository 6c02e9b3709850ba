"""Fixtures of the embedded cluster's tests."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest_asyncio
import yaml

from dra_spawner.devcluster.api.http.server import ApiServer
from dra_spawner.devcluster.api.storage.store import Store

from ..cluster.control_plane import ControlPlane
from .api.fidelity import SHARED_NAMESPACE, Side, assert_same


@asynccontextmanager
async def both(control_plane: ControlPlane, namespace: str) -> AsyncIterator[tuple[Side, Side]]:
    """The embedded and the real API server; their records must be equal in the end."""
    kubeconfig = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    server = ApiServer(Store(lambda: datetime.now(UTC)), "secret")
    url = await server.start()
    tls = ssl.create_default_context(cafile=str(control_plane.certificate_authority))
    try:
        async with (
            Side(url, "secret", namespace) as embedded,
            Side(control_plane.url, kubeconfig["users"][0]["user"]["token"], namespace, tls) as real,
        ):
            real.model = embedded
            yield embedded, real
            assert_same(embedded, real)
            assert embedded.record, "nothing was compared"
    finally:
        await server.stop()


@pytest_asyncio.fixture
async def sides(control_plane: ControlPlane) -> AsyncIterator[tuple[Side, Side]]:
    """Both API servers, with a namespace of this test's own."""
    async with both(control_plane, f"fidelity-{secrets.token_hex(4)}") as pair:
        yield pair


@pytest_asyncio.fixture
async def shared_sides(control_plane: ControlPlane) -> AsyncIterator[tuple[Side, Side]]:
    """Both API servers, for requests that change nothing."""
    async with both(control_plane, SHARED_NAMESPACE) as pair:
        yield pair
