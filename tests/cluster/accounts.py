"""Kubeconfigs of accounts that have the rights that are shipped, and no more."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.access import PLACEHOLDER_RULES, SERVICE_ACCOUNT, Rules, grant, service_token
from tests.cluster.under_test import ClusterUnderTest


async def service_kubeconfig(
    cluster: ClusterUnderTest, *, rules: tuple[Rules, ...] = (PLACEHOLDER_RULES,), server: str = ""
) -> Path:
    """A kubeconfig of the service's account; on the embedded cluster of the administrator, as it has no access control.

    Parameters
    ----------
    rules
        Further rules for the account; the rules of a second call are not applied.
    server
        Another address of the API server, such as a `FaultProxy`'s.
    """
    if cluster.kind == "embedded":
        return cluster.admin_kubeconfig_for(server) if server else cluster.admin_kubeconfig
    path = cluster.directory / f"{SERVICE_ACCOUNT}.kubeconfig"
    if path.exists():
        return path
    token = await service_token(cluster.admin, cluster.namespace)
    for each in rules:
        await grant(cluster.admin, cluster.namespace, each, SERVICE_ACCOUNT)
    return cluster.kubeconfig_with(token, SERVICE_ACCOUNT, server)
