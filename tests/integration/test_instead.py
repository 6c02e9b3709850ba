"""A start that takes another choice, where the user's is not free and the administrator lets it."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.spawner.server_context import parts_of
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable
from tests.integration.warm_placeholders import SHARE, WHOLE, node, warm_placeholders
from tests.spawner.service_stand_in import profile_items

FULL = {"state": "when-stopped", "node": "", "reason": "", "sentence": "", "wait": None}
PROFILES = [
    {
        "display_name": "Whole",
        "slug": "whole",
        "kubespawner_override": {"device_claims": WHOLE, "instead": ["part"], "take_instead": True},
    },
    {"display_name": "Part", "slug": "part", "kubespawner_override": {"device_claims": SHARE}},
]


@pytest.mark.promise("Where an administrator lets it, a start takes an equal or smaller choice that is free.")
async def test_a_start_takes_what_is_free(cluster: ClusterUnderTest) -> None:
    async def answer(query: dict[str, Any]) -> Any:
        return profile_items(whole=FULL, part="free")

    async with warm_placeholders(cluster) as hub:
        objects = node("node-a", shareable("gpu-0"))
        objects[0]["metadata"]["labels"][names.IMAGES_READY] = "true"
        await hub.cluster.publish(*objects)
        hub.side.spawner_config.profile_list = PROFILES
        hub.service.profiles = answer
        hub.service.always({"state": "free", "node": "node-a"})
        # The first question may take longer than a start waits for it.
        form = parts_of(hub.user("ada").spawner).form
        assert (await form.availability.latest(60)).age_seconds is not None
        assert await hub.spawn("ada", profile="whole") is None
        assert "“Whole” is not free now. You get “Part” instead, which is free." in hub.said()
        claim = await hub.claim_of()
        (request,) = claim["spec"]["devices"]["requests"]
        assert request["exactly"]["capacity"]["requests"] == {"memory": "10Gi"}
        await hub.stop_last()
