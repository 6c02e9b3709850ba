"""Handler of simulations: what if more users came, or nodes came or were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tornado.web import HTTPError

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.scale_ahead.rehearsal.what_if import ImpossibleChange, Simulation, WhatIf
from dra_spawner.service.ahead.rehearsals import TooManyRehearsals
from dra_spawner.service.http.api.placeholder_handlers import PlaceholderHandler
from dra_spawner.service.http.requests.endpoints import Access, endpoint
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.schemas.demand_schemas import SIMULATION, SIMULATION_QUESTION

_KEYS: Final = ("profile", "users", "added_nodes", "lost_nodes")
_MAX_USERS: Final = 1000
_MAX_ADDED: Final = 50
_MAX_KINDS: Final = 5
_MAX_LOST: Final = 50


class WhatIfHandler(PlaceholderHandler):
    """``POST api/what-if`` with ``{"profile", "users", "added_nodes", "lost_nodes"}``."""

    @endpoint(
        "What if: more users of a profile now, more nodes like a present one or of a kind, nodes that are lost.",
        Access.OPERATE,
        body=SIMULATION_QUESTION,
        answer=SIMULATION,
        problems=(404,),
    )
    async def post(self) -> None:
        body = json_object(bytes(self.body), _KEYS)
        profile = body.get("profile")
        if not isinstance(profile, str):
            raise HTTPError(400, "profile: allowed: the name of a profile or a choice, as in api/profiles.")
        users = _count(body.get("users", 0), "users", 0, _MAX_USERS)
        added, lost = body.get("added_nodes", []), _lost(body.get("lost_nodes", []))
        like, of_kind = _added(added, "like"), _added(added, "kind")
        rehearsals, watch = self.context.rehearsals, self.context.watch
        if rehearsals is None or watch is None or not watch.synced:
            raise HTTPError(503, "The cluster is not read completely yet.")
        shapes = self.controller.published.shapes
        choice = find_choice(profile, shapes)
        if choice is None:
            raise HTTPError(404, "The hub publishes no choice of this name.")
        try:
            found = await rehearsals.what_if(WhatIf(choice, shapes[choice], users, like, of_kind, lost))
        except ImpossibleChange as error:
            because = str(error)
            raise HTTPError(404, "%s.", because[:1].upper() + because[1:]) from None
        except SearchStopped:
            raise HTTPError(503, "The search for devices takes too long. Ask for fewer users.") from None
        except TooManyRehearsals:
            raise HTTPError(503, "Too many rehearsals wait already. Try again in a minute.") from None
        self.write_json({**_json(found), "not_starting": _not_starting(found, self.controller.name_of)})


def _count(found: object, path: str, least: int, most: int) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
        raise HTTPError(
            400, "%s: found %s; allowed: a whole number from %d to %d.", path, f"{found!r:.60}", least, most
        )
    return found


def _name(found: object, path: str) -> str:
    if not isinstance(found, str) or len(found) > 253:
        raise HTTPError(400, "%s: found %s; allowed: a name.", path, f"{found!r:.60}")
    return found


def _added(found: object, by: str) -> dict[str, int]:
    """Numbers of added nodes by the value of a key, ``like`` or ``kind``."""
    if not isinstance(found, list) or len(found) > _MAX_KINDS:
        raise HTTPError(400, "added_nodes: allowed: a list of at most %d items.", _MAX_KINDS)
    counts = Counter[str]()
    for number, each in enumerate(found):
        path = f"added_nodes[{number}]"
        if not isinstance(each, dict) or set(each) not in ({"like", "count"}, {"kind", "count"}):
            raise HTTPError(400, "%s: allowed: an object with count, and either like or kind.", path)
        if by in each:
            counts[_name(each[by], f"{path}.{by}")] += _count(each["count"], f"{path}.count", 1, _MAX_ADDED)
    return dict(counts)


def _lost(found: object) -> frozenset[str]:
    if not isinstance(found, list) or len(found) > _MAX_LOST:
        raise HTTPError(400, "lost_nodes: allowed: a list of at most %d names.", _MAX_LOST)
    return frozenset(_name(each, f"lost_nodes[{number}]") for number, each in enumerate(found))


def _not_starting(found: Simulation, name_of: Callable[[str], str]) -> list[dict[str, Any]]:
    """Who cannot start, and why: further users first, then servers of lost nodes."""
    question = found.question
    further = question.users - found.starting
    items = [{"profile": question.profile, "servers": further, "is_lost": False, "because": found.refusal}]
    items += (
        {
            "profile": name_of(each.shape) or each.shape,
            "servers": each.servers,
            "is_lost": True,
            "because": each.because,
        }
        for each in found.stranded
    )
    return [each for each in items if each["servers"]]


def _json(found: Simulation) -> dict[str, Any]:
    return {
        "sentence": found.sentence,
        "profile": found.question.profile,
        "users": found.question.users,
        "starting": found.starting,
        "on_placeholders": found.on_placeholders,
        "on_ready_nodes": found.on_ready_nodes,
        "on_other_nodes": found.on_other_nodes,
        "because": found.refusal,
        "lost_servers": found.lost_servers,
        "moved_servers": found.moved_servers,
        "on_free_capacity": found.on_free_capacity,
        "after_preemption": found.after_preemption,
    }
