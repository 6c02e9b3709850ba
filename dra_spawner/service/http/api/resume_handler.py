"""Handler that resumes the creation of a choice's placeholders after repeated failures; only the leader answers."""

from __future__ import annotations

from tornado.web import HTTPError

from dra_spawner.kube.leader import NotLeading
from dra_spawner.placeholders.controller.placeholder_controller import UnknownShape
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.service.http.api.override_handlers import OverrideHandler
from dra_spawner.service.http.requests.endpoints import Access, endpoint
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.schemas.placeholder_schemas import RESUME_QUESTION, RESUMED

_LONGEST_NAME = 1_000


class ResumeHandler(OverrideHandler):
    """``POST api/placeholders/resume`` with ``{"profile"}``: create placeholders of a choice again.

    A standby answers 503 with the leader's name.
    """

    @endpoint(
        "Create placeholders of a choice again, after failures or at the autoscaler's maximum.",
        Access.OPERATE,
        body=RESUME_QUESTION,
        answer=RESUMED,
        problems=(404,),
    )
    async def post(self) -> None:
        profile = json_object(bytes(self.body), ("profile",)).get("profile")
        if not (isinstance(profile, str) and 0 < len(profile) <= _LONGEST_NAME and profile.isprintable()):
            raise HTTPError(400, "profile: allowed: the name of a profile or a choice, as in api/profiles.")
        if because := self.context.not_leading_because():
            raise HTTPError(503, "%s", because)
        choice = find_choice(profile, self.controller.published.shapes)
        if choice is None:
            raise HTTPError(404, "The hub publishes no choice of this name.")
        await self.note("try again", f"placeholders {choice}")
        try:
            was_capped = self.controller.resume(choice)
        except UnknownShape:
            raise HTTPError(404, "The hub has just ceased to publish this choice.") from None
        except NotLeading:
            raise HTTPError(503, "%s", self.context.not_managing_because()) from None
        self.write_json({"profile": profile, "resumed": was_capped})
