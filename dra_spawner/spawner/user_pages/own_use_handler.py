"""``GET {hub}/dra-spawner/use``: the budgets of the user who is logged in, for home page and form. No parameters."""

from __future__ import annotations

from typing import Any

from jupyterhub.user import User
from tornado.web import HTTPError

from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler
from dra_spawner.spawner.placement.standing import own_budget_sentences
from dra_spawner.spawner.server_context import parts_of


class OwnUseHandler(QuietHandler):
    """Answers the script of a page; only a login cookie of the hub is accepted."""

    async def get(self) -> None:
        """Write the sentences as JSON."""
        user: Any = self.current_user
        if not isinstance(user, User):
            raise HTTPError(403)
        if (parts := parts_of(user.spawner)) is None:
            raise HTTPError(404)
        spawner = parts.server.spawner
        sentences = await own_budget_sentences(
            spawner.placeholder_service,
            user.name,
            parts.server.user_groups,
            self.log,
            spawner.placeholder_service_ca_file,
        )
        self.set_header("Cache-Control", "no-store")
        self.finish({"sentences": sentences})
