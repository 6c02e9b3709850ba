"""Handler of the placement of a server that is about to start; only the leader answers."""

from __future__ import annotations

import logging
import re
from typing import Any

from tornado.web import HTTPError

from dra_spawner.dra.preferences import preferences_json
from dra_spawner.fairness.standing_text import behind_sentence
from dra_spawner.kube.client.api_errors import KubernetesError
from dra_spawner.kube.leader import NotLeading
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.placeholder_controller import UnknownShape
from dra_spawner.placeholders.controller.round.reservations import OnHold, ReservedPlacement
from dra_spawner.placeholders.planner.targets.shape_definition import MAX_BYTES, DefinitionError
from dra_spawner.service.http.api.placeholder_handlers import PlaceholderHandler, placement_json
from dra_spawner.service.http.requests.endpoints import Access, endpoint
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.requests.users_named import USER_KEYS, user_and_groups
from dra_spawner.service.http.schemas.placeholder_schemas import PLACEMENT, PLACEMENT_QUESTION

log = logging.getLogger(__name__)

#: Limit of a body: quoting a definition in JSON doubles or triples some of its characters, and there are groups.
MAX_BODY_BYTES = 6 * MAX_BYTES
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
_LONGEST_NAME = 253
_SHAPE = re.compile(r"[0-9a-f]{16}")
KEYS = ("shape", "pod", "namespace", "definition", "tickets", *USER_KEYS)
#: Limits of the ids of a user's tickets.
_MOST_TICKETS = 100
_TICKET = re.compile(r"[0-9a-f]{16}")


class PlacementsHandler(PlaceholderHandler):
    """``POST api/placements`` with ``{"shape", "pod", "namespace"}``: the placement of a server.

    With ``user`` and ``groups``, names in JupyterHub, budgets count where they are enforced.

    A shape that is not published needs its ``definition`` (`planner.shape_definition`); without it the answer is 404.

    The hub sends the service's own token. A standby answers 503 with the leader's name.
    """

    @endpoint(
        "Reserve a placeholder for a server, or find its node.",
        Access.OPERATE,
        body=PLACEMENT_QUESTION,
        answer=PLACEMENT,
        problems=(404,),
        hub=True,
        cookie=False,
    )
    async def post(self) -> None:
        question = _question(bytes(self.body))
        user, groups = user_and_groups(question)
        standing = self.context.over_budget(user, groups)
        try:
            reservation = await self.controller.place(
                question["shape"],
                question["namespace"],
                question["pod"],
                question.get("definition", ""),
                question.get("tickets", ()),
                is_over_budget=standing is not None,
            )
        except UnknownShape:
            self.write_problem(404, "The hub does not publish this shape.", kind="unknown")
            return
        except DefinitionError as error:
            raise HTTPError(400, "definition: %s.", error) from None
        except NotLeading:
            raise HTTPError(503, "%s", self.context.not_managing_because()) from None
        except OnHold as error:
            raise HTTPError(503, "No placeholder is reserved at present: %s.", error) from None
        except KubernetesError as error:
            log.warning("No placeholder can be reserved: pod=%s error=%s", question["pod"], error)
            raise HTTPError(
                503, "No placeholder can be reserved: a request to the Kubernetes API has failed."
            ) from None
        note = behind_sentence(standing) if standing is not None and reservation.placement.is_behind else ""
        self.write_json({**reservation_json(reservation), "note": note})

    def on_finish(self) -> None:
        """Note how long a user has waited for the answer."""
        self.context.placement_seconds.observe(self.request.request_time())


def _question(body: bytes) -> dict[str, Any]:
    """The validated body; errors name key, found and allowed values."""
    question = json_object(body, KEYS, is_of_hub=True)
    definition = question.get("definition", "")
    if not isinstance(definition, str) or len(definition) > MAX_BYTES:
        raise HTTPError(400, "definition: allowed: JSON as text, %d bytes at most.", MAX_BYTES)
    tickets = question.get("tickets", [])
    if (
        not isinstance(tickets, list)
        or len(tickets) > _MOST_TICKETS
        or not all(isinstance(each, str) and _TICKET.fullmatch(each) for each in tickets)
    ):
        raise HTTPError(400, "tickets: allowed: a list of ids of tickets, %d at most.", _MOST_TICKETS)
    for key in ("shape", "pod", "namespace"):
        value = question.get(key)
        pattern = _SHAPE if key == "shape" else _NAME
        if not isinstance(value, str) or len(value) > _LONGEST_NAME or not pattern.fullmatch(value):
            allowed = "16 hexadecimal digits" if key == "shape" else "a name of a Kubernetes object"
            found = f"found {value!r:.60}" if key in question else "nothing found"
            raise HTTPError(400, "%s: %s; allowed: %s.", key, found, allowed)
    return question


def reservation_json(reservation: ReservedPlacement) -> dict[str, Any]:
    """The answer as JSON; ``after`` is the placeholder that must be gone before the server is bound."""
    placement = reservation.placement
    goes_first = placement.state is AvailabilityState.AFTER_PLACEHOLDER and bool(reservation.claims)
    return {
        **placement_json(placement),
        "claims": dict(reservation.claims),
        "after": placement.placeholder.key.name if goes_first and placement.placeholder is not None else "",
        "until": reservation.until.isoformat() if reservation.until is not None else None,
        "preferences": {
            entry: preferences_json(of_claim) for entry, of_claim in placement.preferences.of_claims.items()
        },
        "before": placement.before,
        "behind": placement.is_behind,
    }
