"""The queue for devices with the rights and the admission policy of the chart, which the embedded cluster does not ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dra_spawner import names
from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.lifecycle import TicketState
from dra_spawner.ticket_store.ticket_store import TicketStore
from tests.cluster.access import RBAC_API, SERVICE_ACCOUNT, grant
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.presence import present
from tests.service.replica import replica, server_objects, set_up

GPU = shape(WHOLE)
#: As in the chart's rbac-tickets.yaml.
RIGHTS: list[dict[str, Any]] = [
    {
        "apiVersion": RBAC_API,
        "kind": "Role",
        "metadata": {"name": "tickets"},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": [names.TICKETS_CONFIG_MAP],
                "verbs": ["get", "list", "watch", "update"],
            }
        ],
    },
    {
        "apiVersion": RBAC_API,
        "kind": "RoleBinding",
        "metadata": {"name": "tickets"},
        "roleRef": {"apiGroup": RBAC_API.partition("/")[0], "kind": "Role", "name": "tickets"},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT}],
    },
]


async def test_a_held_device_is_handed_over_with_the_shipped_rights(
    real_cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    cluster, rights = real_cluster, tmp_path / "rights.yaml"
    rights.write_text("\n---\n".join(map(json.dumps, RIGHTS)))
    hub = TicketStore(cluster.admin, cluster.namespace, f"{cluster.namespace}/{names.SHAPES_CONFIG_MAP}")
    await grant(cluster.admin, cluster.namespace, rights, SERVICE_ACCOUNT)
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0")))
    async with replica(cluster, tickets=True) as service:
        await service.until(lambda: service.controller.leads, "it leads")
        await cluster.publish(*server_objects("busy", GPU, WHOLE))
        await service.until_running("busy")
        followed = present(present(service.context.tickets).followed)

        def state() -> TicketState:
            return present(followed.present.find("ada", "gpu-whole")).state

        await hub.join("ada", "gpu-whole")
        await service.until(lambda: bool(followed.present.open), "the service follows the queue")
        path = resource_path("v1", "pods", cluster.namespace, "busy")
        await cluster.admin.delete(path, grace_period_seconds=0)
        await service.until(lambda: state() is TicketState.HELD, "a device is held")
        tickets = list(await hub.take("ada"))
        question = {"shape": GPU.id, "pod": "ada", "namespace": cluster.namespace, "tickets": tickets}
        status, answer = await service.ask(question)
        assert (status, answer.get("state")) == (200, "ready"), answer
        await service.start(GPU, "ada", WHOLE, answer)
        assert (await cluster.wait_running("ada"))["spec"]["nodeName"] == "node-a"
        await service.until(lambda: state() is TicketState.TAKEN, "its ticket has ended")
        assert service.context.problems() == ()
