"""``GET api/node-summaries`` answers as its schema says."""

from __future__ import annotations

import json

from jsonschema import Draft202012Validator

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.schemas.cluster_schemas import NODE_SUMMARIES
from dra_spawner.service.web_settings import WebSettings
from tests.local_server import get
from tests.service.device_board import some_of_all
from tests.service.open_service import whole_service

EVIL = "<script>alert(1)</script>"


async def test_the_answer_is_what_the_schema_says():
    context = ServiceContext(WebSettings("/"), DecisionLog(), max_staleness_seconds=60, node_pool_labels=("pool",))
    async with whole_service(context) as url:
        status, text = await get(f"{url}api/node-summaries")
        assert (status, json.loads(text)["detail"]) == (503, "The cluster is not found yet.")
        context.follow(some_of_all(EVIL, EVIL))
        _, text = await get(f"{url}api/node-summaries?limit=4")
        first = json.loads(text)
        assert list(Draft202012Validator(NODE_SUMMARIES).iter_errors(first)) == []
        _, text = await get(f"{url}api/node-summaries?continue={first['continue']}")
        second = json.loads(text)
        assert (len(first["items"]), len(second["items"]), second["continue"], second["total"]) == (4, 3, "", 7)
        page = (await get(f"{url}nodes"))[1]
        assert EVIL not in page
        assert "whole-1" in page
