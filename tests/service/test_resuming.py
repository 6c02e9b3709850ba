"""A choice whose placeholders keep failing: it is shown, and an administrator resumes it."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.placeholders.planner.targets.policy import Renewal
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.service.replica import Replica, publish_settings, replica, set_up

GPU = shape(WHOLE)


async def resume(service: Replica, profile: str) -> tuple[int, Any]:
    return (await service.send("POST", "resume", {"profile": profile}))[:2]


async def fail_placeholders(service: Replica) -> None:
    """End all placeholders, as their kubelet does."""
    for key in service.placeholders():
        path = service.cluster.path("pods", key.name, "status")
        await service.cluster.admin.patch(path, {"status": {"phase": "Failed"}})


@pytest.mark.promise("An administrator resumes a choice whose placeholders failed.")
async def test_an_administrator_resumes_a_choice(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    await publish_settings(cluster)
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}, max_failed_replacements=1) as service:
        assert service.controller.policy.renewal == Renewal(max_failed=1)
        await service.until_warm(GPU, 1)
        assert await resume(service, "gpu-whole") == (200, {"profile": "gpu-whole", "resumed": False})
        for _ in range(2):
            await service.until_warm(GPU, 1)
            await fail_placeholders(service)
            await service.until(lambda: not service.placeholders(), "it is deleted")
        problem = (
            "Placeholders of gpu-whole: 1 is wanted, 0 are allowed as its replacement has failed, too; no more are created "
            "until an operator says: try again."
        )
        await service.until(lambda: problem in service.context.problems(), "the problem is reported")
        answer = await service.get_json("placeholders")
        assert answer["limited"] == [
            {
                "shape": GPU.id,
                "profiles": ["gpu-whole"],
                "cause": "failures",
                "wanted": 1,
                "allowed": 0,
                "reason": problem,
                "is_resumable": True,
            }
        ]
        page = await service.get("placeholders-page")
        assert problem in page
        assert 'data-action-path="api/placeholders/resume" data-action-subject="gpu-whole"' in page
        assert (await resume(service, "gpu-hole"))[0] == 404
        assert await resume(service, "gpu-whole") == (200, {"profile": "gpu-whole", "resumed": True})
        audit = (await service.get_json("audit"))["items"]
        assert [(each["by"], each["change"], each["subject"]) for each in audit] == [
            ("user ada", "try again", "placeholders gpu-whole")
        ] * 2
        await service.until_warm(GPU, 1)
        assert (await service.get_json("placeholders"))["limited"] == []
        assert "api/placeholders/resume" not in await service.get("placeholders-page")
