"""The requests of the documentation, sent to a service as curl sends them."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from functools import partial

from dra_spawner.service.http.web_application import ADDRESSES
from tests.cluster.under_test import ClusterUnderTest
from tests.docs.command_lines import CommandLine, command_lines
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.polling import eventually
from tests.service.open_service import open_to_all
from tests.service.replica import publish_shapes, replica

OPEN = [(f"open/{address}", open_to_all(handler)) for address, handler in ADDRESSES if address != "oauth_callback"]
GPU = shape(WHOLE)


async def test_each_request_is_answered(embedded_cluster: ClusterUnderTest) -> None:
    requests = [each for each in command_lines() if each.program == "curl"]
    assert len(requests) > 4
    await prepare(embedded_cluster, *node("n1", whole("gpu-0"), whole("gpu-1")))
    await publish_shapes(embedded_cluster, {"gpu-slice": GPU, "gpu-share": GPU})
    async with replica(embedded_cluster, placeholders={"gpu-slice": {"min": 1}}, more=OPEN) as service:
        await service.until_warm(GPU, 1)
        for each in requests:
            # The history's database is opened a little after the start: until then an entry is answered with 503.
            await eventually(partial(asyncio.to_thread, is_answered, each, service.url), str(each))


def is_answered(command: CommandLine, url: str) -> bool:
    """Whether the service takes a request; an answer other than 503 that is none of success fails."""
    found = answer(command, url)
    assert found[0] == "2" or found.startswith("503"), found
    return found[0] == "2"


def answer(command: CommandLine, url: str) -> str:
    """Status and text of the service's answer."""
    (address,) = [word for word in command.words if "/services/dra-spawner/" in word]
    path = address.partition("/services/dra-spawner/")[2]
    # curl sends a question with the type of a form.
    question = command.words[command.words.index("-d") + 1].encode() if "-d" in command.words else None
    request = urllib.request.Request(f"{url}/open/{path}", data=question)
    try:
        with urllib.request.urlopen(request, timeout=240) as reply:
            return f"{reply.status} {reply.read().decode()[:200]}"
    except urllib.error.HTTPError as refusal:
        return f"{refusal.code} {command}: {refusal.read().decode()[:500]}"
