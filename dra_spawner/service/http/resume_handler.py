"""Handler that resumes the creation of a choice's placeholders after repeated failures; only the leader answers."""

from __future__ import annotations

from urllib.parse import parse_qs

from tornado.web import HTTPError

from dra_spawner.kube.leader import NotLeading
from dra_spawner.placeholders.controller.placeholder_controller import UnknownShape
from dra_spawner.placeholders.planner.choice_names import find_choice
from dra_spawner.service.http.endpoints import Access, endpoint
from dra_spawner.service.http.json_body import json_object
from dra_spawner.service.http.placeholder_schemas import RESUME_QUESTION, RESUMED
from dra_spawner.service.http.setting_handlers import OperatorHandler

__all__ = ["ResumeHandler"]

_FORM = "application/x-www-form-urlencoded"
_LONGEST_NAME = 1_000


class ResumeHandler(OperatorHandler):
    """``POST api/placeholders/resume`` with ``{"profile"}``: create placeholders of a choice again.

    For administrators: with a token, or by the page's form with a login cookie and JupyterHub's XSRF token. The XSRF
    token is in the query, as the body is read after authentication. A standby answers 503 with the leader's name.
    The audit trail gets an entry if it can be written: it is no reason to refuse a repair.
    """

    @endpoint(
        "Create placeholders of a choice again, after failures or at the autoscaler's maximum.",
        Access.OPERATE,
        body=RESUME_QUESTION,
        answer=RESUMED,
        problems=(404,),
    )
    async def post(self) -> None:
        is_form = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == _FORM
        profile = _profile_of_form(bytes(self.body)) if is_form else _profile_of_json(bytes(self.body))
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
            because = self.context.not_leading_because() or "This replica has ceased to lead."
            raise HTTPError(503, "%s", because) from None
        if is_form:
            self.redirect(self.web.url(""), status=303)
        else:
            self.write_json({"profile": profile, "resumed": was_capped})


def _profile_of_json(body: bytes) -> str:
    return _checked(json_object(body, ("profile",)).get("profile"))


def _profile_of_form(body: bytes) -> str:
    try:
        fields = parse_qs(body.decode(), strict_parsing=True, max_num_fields=5)
    except ValueError:
        raise HTTPError(400, "The body must be a form with the field profile.") from None
    values = fields.get("profile", [])
    return _checked(values[0] if len(values) == 1 else None)


def _checked(profile: object) -> str:
    if isinstance(profile, str) and 0 < len(profile) <= _LONGEST_NAME and profile.isprintable():
        return profile
    raise HTTPError(400, "profile: allowed: the name of a profile or a choice, as in api/profiles.")
