"""Reads the claims of servers that start: those of many with one request, so that a rush costs the hub little."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.names import RESOURCE_API
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.objects.api_objects import CLAIMS

#: Seconds between two readings; names that are asked for meanwhile are read together.
_PAUSE_SECONDS: Final = 1.0
#: So many claims in a list cost about as much as one claim by a request of its own.
_LISTED_AT_THE_COST_OF_ONE: Final = 20
#: Up to so many claims are read one by one while the number of all is not known.
_FEW: Final = 2


@dataclass
class _Question:
    names: Collection[str]
    answer: asyncio.Future[list[JsonObject]]


class ClaimReader:
    """Reads claims of a namespace by name. The first names are read at once, later ones together.

    Parameters
    ----------
    api
        The hub's account may list claims; no other right is needed.
    """

    def __init__(self, api: KubernetesApi, namespace: str, pause_seconds: float = _PAUSE_SECONDS) -> None:
        self._api = api
        self._path = resource_path(RESOURCE_API, CLAIMS, namespace)
        self._pause_seconds = pause_seconds
        self._questions: list[_Question] = []
        self._worker: asyncio.Task[None] | None = None
        #: Number of all claims in the last list; None before there was one.
        self._total: int | None = None

    async def claims(self, names: Collection[str]) -> list[JsonObject]:
        """Return the claims with these names that exist.

        Raises
        ------
        KubernetesError
            If they cannot be read.
        """
        question = _Question(names, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        if self._worker is None or self._worker.done():
            self._worker = this_hub().begin(self._answer(), "reading of claims")
        return await question.answer

    async def _answer(self) -> None:
        while self._questions:
            questions, self._questions = self._questions, []
            open_questions = [each for each in questions if not each.answer.done()]
            try:
                found = await self._read({name for each in open_questions for name in each.names})
            except Exception as error:  # each start says what it cannot tell
                for each in open_questions:
                    if not each.answer.done():
                        each.answer.set_exception(error)
            else:
                for each in open_questions:
                    if not each.answer.done():
                        each.answer.set_result([found[name] for name in each.names if name in found])
            await asyncio.sleep(self._pause_seconds)

    async def _read(self, names: Collection[str]) -> dict[str, JsonObject]:
        if not names:
            return {}
        max_alone = _FEW if self._total is None else max(_FEW, self._total // _LISTED_AT_THE_COST_OF_ONE)
        if len(names) > max_alone:
            found = (await self._api.list(self._path))["items"]
            self._total = len(found)
        else:
            # Lists of one, as the hub's account may list claims, not get them.
            lists = [self._api.list(self._path, field_selector=f"metadata.name={name}") for name in names]
            found = [claim for each in await all_of(asyncio.gather(*lists)) for claim in each["items"]]
        return {claim["metadata"]["name"]: claim for claim in found}


def claim_reader(api: KubernetesApi, namespace: str) -> ClaimReader:
    """Return the reader of a namespace, which all spawners of a hub share."""
    return this_hub().shared(("claims", namespace), lambda: ClaimReader(api, namespace))
