"""Claims of servers that start together are read together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.spawner.devices.claim_reader import ClaimReader

ALL = [f"claim-{number}" for number in range(100)]


class Claims:
    """An API server with these claims, which counts requests."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.requests: list[str] = []
        self.fails = False

    async def list(self, path: str, *, field_selector: str = "") -> dict[str, Any]:
        self.requests.append(field_selector)
        await asyncio.sleep(0)
        if self.fails:
            raise KubernetesError.__new__(KubernetesError)
        wanted = field_selector.partition("=")[2]
        return {"items": [{"metadata": {"name": name}} for name in self.names if wanted in ("", name)]}


def reader_of(api: Claims) -> ClaimReader:
    return ClaimReader(api, "hub", pause_seconds=0)  # type: ignore[arg-type]


def names_in(claims: list[Any]) -> list[str]:
    return [claim["metadata"]["name"] for claim in claims]


async def test_a_single_start_reads_its_own_claims_only():
    api = Claims(*ALL)
    assert names_in(await reader_of(api).claims(["claim-3", "gone"])) == ["claim-3"]
    assert sorted(api.requests) == ["metadata.name=claim-3", "metadata.name=gone"]


async def test_a_rush_reads_all_claims_at_once():
    api = Claims(*ALL)
    reader = reader_of(api)
    found = await asyncio.gather(*(reader.claims([name]) for name in ALL))
    assert [names_in(each) for each in found] == [[name] for name in ALL]
    assert api.requests == [""]


async def test_few_of_many_claims_are_read_one_by_one():
    api = Claims(*ALL)
    reader = reader_of(api)
    await reader.claims(ALL)
    api.requests.clear()
    await reader.claims(ALL[:5])
    assert len(api.requests) == 5
    await reader.claims(ALL[:6])
    assert api.requests[5:] == [""]


async def test_a_failure_is_reported_to_all_callers_and_to_no_later_one():
    api = Claims(*ALL)
    reader = reader_of(api)
    api.fails = True
    found = await asyncio.gather(*(reader.claims([name]) for name in ALL[:3]), return_exceptions=True)
    assert all(isinstance(each, KubernetesError) for each in found)
    api.fails = False
    assert names_in(await reader.claims(["claim-1"])) == ["claim-1"]


async def test_a_cancelled_start_does_not_disturb_others():
    reader = reader_of(Claims(*ALL))
    gone = asyncio.create_task(reader.claims(["claim-1"]))
    await asyncio.sleep(0)
    other = asyncio.create_task(reader.claims(["claim-2"]))
    gone.cancel()
    assert names_in(await other) == ["claim-2"]
    with pytest.raises(asyncio.CancelledError):
        await gone
