"""DeviceTaintRules of a cluster, in the API version that it serves."""

from __future__ import annotations

from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.discovery import is_absent, served_version
from dra_spawner.names import TAINT_RULE_APIS

PLURAL: Final = "devicetaintrules"


async def served_rules_api(api: KubernetesApi) -> str | None:
    """The API version by which a cluster serves rules, the newest one; None if it serves none.

    Raises
    ------
    KubernetesError
        If discovery fails.
    """
    return await served_version(api, TAINT_RULE_APIS, PLURAL)


async def list_taint_rules(api: KubernetesApi) -> list[JsonObject]:
    """All rules, each with its kind; none where the cluster does not serve them.

    Raises
    ------
    KubernetesError
        If they cannot be read; with status 403 if the account may not list them.
    """
    version: str | None = TAINT_RULE_APIS[0]
    for _ in range(2):
        try:
            return [
                {**each, "kind": "DeviceTaintRule"}
                async for page in api.list_pages(resource_path(str(version), PLURAL))
                for each in page.get("items") or ()
            ]
        except KubernetesError as error:
            if error.status != 404:
                raise
            version = await served_rules_api(api)
            if version is None and not all([await is_absent(api, each, PLURAL) for each in TAINT_RULE_APIS]):
                raise  # a load balancer without its route answers discovery with 404, too
            if version is None:
                break
    return []
