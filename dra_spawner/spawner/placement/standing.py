"""What the service says of one user's budgets. Pages show it if it is there in time; nothing else depends on it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from logging import Logger
from time import monotonic
from typing import Final

from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.placement.answer import plain_text
from dra_spawner.spawner.placement.service import service_of_hub, told_of_user
from dra_spawner.spawner.placement.service_address import NoAnswer

_WAIT_SECONDS: Final = 1.0
#: Age up to which an answer is shown again.
_SAME_SECONDS: Final = 30.0
#: Time for which a service without budgets, or one that does not answer, is not asked again for anyone.
_PAUSE_SECONDS: Final = 60.0
_MOST_USERS: Final = 2_000
_MOST_SENTENCES: Final = 20
_MOST_BYTES: Final = 2**16


@dataclass
class _Known:
    """Sentences by user with the time of the answer, and until when nothing is asked."""

    of_user: OrderedDict[str, tuple[float, tuple[str, ...]]] = field(default_factory=OrderedDict)
    pause_until: float = 0.0


async def own_budget_sentences(
    service: str, user: str, groups: Iterable[str], log: Logger, ca_file: str = ""
) -> tuple[str, ...]:
    """Sentences about the budgets of a user; none without budgets that are enforced, and without an answer in time.

    Parameters
    ----------
    service
        Name of the service in the hub.
    ca_file
        As `service_of_hub`.
    """
    address = service_of_hub(service, ca_file)
    known = this_hub().shared(("budgets", service), _Known)
    now = monotonic()
    told_at, sentences = known.of_user.get(user, (-_SAME_SECONDS, ()))
    if address is None or now - told_at < _SAME_SECONDS or now < known.pause_until:
        return sentences if now - told_at < _SAME_SECONDS else ()
    told = told_of_user(user, groups)
    if not told:
        return ()
    try:
        answer = await address.ask_for_json(
            "POST", "api/standing", limit_seconds=_WAIT_SECONDS, most_bytes=_MOST_BYTES, json=told
        )
    except NoAnswer as error:
        log.info("A user's budgets are not known: the dra-spawner service: %s", error)
        answer = {}
    if not isinstance(answer, dict) or answer.get("isEnforced") is not True:
        known.pause_until = now + _PAUSE_SECONDS
        return ()
    found = answer.get("sentences")
    texts = map(plain_text, found[:_MOST_SENTENCES]) if isinstance(found, list) else ()
    sentences = tuple(filter(None, texts))
    known.of_user[user] = now, sentences
    known.of_user.move_to_end(user)
    if len(known.of_user) > _MOST_USERS:
        known.of_user.popitem(last=False)
    return sentences
