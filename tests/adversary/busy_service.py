"""Users' servers in namespaces of their own, and a service that looks at them: it answers, and goes on deciding."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from dra_spawner import names
from dra_spawner.kube.client.api import resource_path
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import shape, user_pod
from tests.running import loop_stalls, running
from tests.service.replica import Replica

PLAIN: Final = shape({})
#: Seconds for which the service may do nothing else, on a machine that is busy with other things.
LONGEST_STALL: Final = 2.0


async def start_server(
    cluster: ClusterUnderTest, namespace: str, name: str, claim: Mapping[str, Any], shape_id: str, **spec: Any
) -> None:
    """A server in its user's namespace, as the spawner makes it."""
    template = {"metadata": {"name": name}, "spec": {"spec": claim}}
    path = resource_path("resource.k8s.io/v1", "resourceclaimtemplates", namespace)
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    await cluster.admin.create(path, {**kind, **template})
    manifest = user_pod(name, {"gpu": {"resourceClaimTemplateName": name}})
    manifest["metadata"]["labels"][names.SHAPE] = shape_id
    manifest["spec"] |= spec
    await cluster.admin.create(resource_path("v1", "pods", namespace), manifest)


@contextlib.asynccontextmanager
async def watched_loop(service: Replica) -> AsyncIterator[list[float]]:
    """CPU seconds of each stall of the service, and of each answer to a probe; its status is asked for meanwhile."""

    async def ask() -> None:
        while True:
            before = time.thread_time()
            await service.get("healthz")
            stalls.append(time.thread_time() - before)
            await service.get("status")
            await asyncio.sleep(0.05)

    async with loop_stalls() as stalls, running(ask()):
        yield stalls


async def still_decides(service: Replica, count: int, of: Shape = PLAIN) -> None:
    """A placeholder that goes is made anew."""
    await service.until_warm(of, count)
    gone = service.controller.view().warm(of.id)[0].key
    await service.cluster.admin.delete(service.cluster.path("pods", gone.name), grace_period_seconds=0)
    await service.until(lambda: gone not in service.placeholders(), "the placeholder is gone")
    await service.until_warm(of, count)
