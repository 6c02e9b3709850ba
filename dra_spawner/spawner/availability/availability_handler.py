"""``GET {hub}/dra-spawner/availability``: availability of the choices of a user's own spawn form, for its script.

Query: ``name`` for combinations of options, which may be given several times; ``user`` and ``server`` for the form of
another user, which an administrator has opened.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Protocol

from jupyterhub.user import User
from tornado.web import HTTPError

from dra_spawner.common.owned_tasks import all_of
from dra_spawner.spawner.availability.client import AvailabilityClient, AvailabilityView
from dra_spawner.spawner.availability.form_choices import FormChoices
from dra_spawner.spawner.availability.shown import UNKNOWN, ShownAvailability
from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.server_context import parts_of

_WAIT_SECONDS: Final = 1.0
#: As many as the script sends.
_MAX_NAMES: Final = 32
_MAX_ENCODED: Final = 32


class _Form(Protocol):
    """A form that shows availability."""

    @property
    def availability(self) -> AvailabilityClient | None:
        """The hub's client; None without a service."""

    async def choices_of_form(self) -> FormChoices:
        """The choices of the user's own form."""


class ServerHandler(QuietHandler):
    """Base of handlers for scripts of the pages about one server; only a login cookie of the hub is accepted."""

    def server_parts(self) -> Any:
        """The parts of the server of the page: the user's own, or one of another user.

        Raises
        ------
        HTTPError
            403 without a login, or for another user without the right to start the user's servers; 404 for a server of
            another spawner.
        """
        user: Any = self.current_user
        if not isinstance(user, User):
            raise HTTPError(403)
        name = self.get_query_argument("user", user.name)
        if name != user.name:
            user = self.find_user(name)
            if user is None or not self.get_scope_filter("servers")(user.orm_user, "user"):
                raise HTTPError(403)
        server = self.get_query_argument("server", "")
        # Asking for a server that does not exist would create it.
        spawner = user.spawners[server] if server in user.orm_spawners else user.spawner
        if (parts := parts_of(spawner)) is None:
            raise HTTPError(404)
        return parts


class AvailabilityHandler(ServerHandler):
    """Answers the form's script."""

    async def get(self) -> None:
        """Write the answer as JSON."""
        own_form: _Form = self.server_parts().form
        client = own_form.availability
        if client is None:
            raise HTTPError(404)
        form, view = await all_of(asyncio.gather(own_form.choices_of_form(), client.latest(_WAIT_SECONDS)))
        asked = {name: form.known_name(name) for name in self.get_query_arguments("name")[:_MAX_NAMES]}
        single = set(form.names()) if asked else set()
        needed = sorted({known for known in asked.values() if known} - view.choices.keys() - single)
        answers = await all_of(asyncio.gather(*(client.of_combination(name, _WAIT_SECONDS) for name in needed)))
        found = dict(zip(needed, answers, strict=True))
        more = {name: found.get(known) or view.of(known) if known else UNKNOWN for name, known in asked.items()}
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        age = round(view.age_seconds, 1) if view.age_seconds is not None else None
        # Joined, not encoded as one: what most pages ask for is the same.
        choices = ", ".join(part for part in (_encoded_choices(form, view), _encoded(more)) if part)
        self.finish(f'{{"age_seconds": {json.dumps(age)}, "choices": {{{choices}}}}}')


def _encoded(choices: Mapping[str, ShownAvailability]) -> str:
    """The members of a JSON object."""
    return json.dumps({name: each.as_json() for name, each in choices.items()})[1:-1]


def _encoded_choices(form: FormChoices, view: AvailabilityView) -> str:
    """The same of all choices of a form; encoded once for each answer of the service."""
    known: OrderedDict[tuple[FormChoices, int], str] = this_hub().shared("encoded availability", OrderedDict)
    key = (form, view.serial)
    if key not in known:
        known[key] = _encoded({name: view.of(name) for name in form.names()})
        if len(known) > _MAX_ENCODED:
            known.popitem(last=False)
    return known[key]
