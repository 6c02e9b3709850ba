"""Handlers of servers that hold devices but are idle: the list, its page, and "I still need it"."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from tornado.web import HTTPError

from dra_spawner.common.project_links import where
from dra_spawner.fairness.idle.notices import KeepRefused
from dra_spawner.fairness.idle.verdicts import Verdict
from dra_spawner.kube.leader import NotLeading
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.requests.authentication import ApiHandler, PageHandler
from dra_spawner.service.http.requests.endpoints import HTML, Access, endpoint
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.requests.page_frame import may
from dra_spawner.service.http.schemas.idle_schemas import IDLE_SERVERS, KEEP_QUESTION, KEPT
from dra_spawner.service.idle.idle_servers import IdleServers, SeenServer

_LONGEST_NAME: Final = 253
_NO_CLUSTER: Final = "The cluster is not found yet."
_OFF: Final = f"Off: the setting idle_servers of the service switches it on ({where('docs/how-to/idle-devices.md')})."


class IdleServersHandler(ApiHandler):
    """``GET api/idle-servers``: servers with devices and what is known of their use, the most idle hours first.

    Names of users are for administrators of the service.
    """

    @endpoint("Servers with devices, and which of them are idle.", Access.READ, answer=IDLE_SERVERS)
    async def get(self) -> None:
        self.write_json(idle_json(self.context, with_names=may(Access.ADMIN, self.web, self.hub_user)))


class IdlePage(PageHandler):
    """``GET idle``: the same as a page."""

    @endpoint("Page: which servers hold devices but are idle.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        found = idle_json(self.context, with_names=may(Access.ADMIN, self.web, self.hub_user))
        hours = sum(each["idle_device_hours"] or 0.0 for each in found["items"])
        groups = {use: [each for each in found["items"] if each["use"] == use] for use in Verdict}
        await self.render("idle_page.html", found=found, groups=groups, hours=hours, short=_short)


class IdleKeepHandler(ApiHandler):
    """``POST api/idle-servers/keep`` with ``{"namespace", "pod"}``: the user of a server still needs it.

    The hub sends it with the service's own token, for the user whose server it is.
    """

    @endpoint(
        "Keep a server whose user was warned, for the time of its policy.",
        Access.OPERATE,
        body=KEEP_QUESTION,
        answer=KEPT,
        problems=(409,),
        hub=True,
        cookie=False,
    )
    async def post(self) -> None:
        question = json_object(bytes(self.body), ("namespace", "pod"), is_of_hub=True)
        names = [question.get(key) for key in ("namespace", "pod")]
        if not all(isinstance(each, str) and 0 < len(each) <= _LONGEST_NAME for each in names):
            raise HTTPError(400, "namespace, pod: allowed: names of Kubernetes objects.")
        try:
            notice = await _idle(self.context).keep(str(names[0]), str(names[1]))
        except KeepRefused as error:
            raise HTTPError(409, "%s", error) from None
        except NotLeading:
            raise HTTPError(503, "%s", self.context.not_managing_because()) from None
        until = notice.kept_until.isoformat() if notice.kept_until is not None else ""
        self.write_json({"kept_until": until, "kept": notice.kept, "keeps_left": notice.keeps_left})


def idle_json(context: ServiceContext, *, with_names: bool) -> dict[str, Any]:
    """What the last look has found; where nobody looks, a sentence among the problems."""
    idle = context.idle
    seen = idle.seen.values() if idle is not None else ()
    found = sorted(seen, key=lambda each: (-(each.idle_device_hours or 0.0), str(each.server.pod)))
    is_off = idle is not None and not idle.settings.is_on
    return {
        "items": [_server_json(each, with_names=with_names) for each in found],
        "looked_at": _moment(idle.looked_at) if idle is not None else None,
        "names_are_hidden": not with_names,
        "problems": [_OFF] if is_off else list(idle.problems()) if idle is not None else [_NO_CLUSTER],
        "incomplete_because": context.not_leading_because(),
    }


def _server_json(seen: SeenServer, *, with_names: bool) -> dict[str, Any]:
    server, judgement, notice = seen.server, seen.judgement, seen.server.notice
    hours = seen.idle_device_hours
    return {
        "user": server.user if with_names else "",
        "server": server.server if with_names else "",
        # KubeSpawner makes it of the names, and the page of nodes tells whose devices are which.
        "pod": server.pod.name if with_names else "",
        "choice": server.choice,
        "node": server.node if with_names else "",
        "devices": [device.device for device, _ in server.devices] if with_names else [],
        "held": round(server.held, 4) if server.held is not None else None,
        "use": judgement.verdict.value,
        "reason": judgement.reason,
        "idle_since": _moment(judgement.since),
        "idle_device_hours": round(hours, 4) if hours is not None else None,
        "unused_since": _moment(judgement.unused_since),
        "connections": judgement.connections,
        "has_policy": seen.policy is not None,
        "warned_at": _moment(notice.warned_at),
        "stops_at": _moment(notice.stops_at),
        "kept_until": _moment(notice.kept_until),
        "kept": notice.kept,
    }


def _idle(context: ServiceContext) -> IdleServers:
    """What looks for idle servers; 503 before the cluster is found, 409 where it is off."""
    if context.idle is None:
        raise HTTPError(503, _NO_CLUSTER)
    if not context.idle.settings.is_on:
        raise HTTPError(409, _OFF)
    return context.idle


def _moment(value: datetime | None) -> str | None:
    return value.isoformat(timespec="seconds") if value is not None else None


def _short(text: str | None) -> str:
    """A time for people: day, hours and minutes in UTC."""
    return datetime.fromisoformat(text).strftime("%a %H:%M") if text else ""
