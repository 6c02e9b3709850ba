"""``{hub}/dra-spawner/activity``: servers report what they do, and the service reads all reports at once.

``POST``: the server whose own token comes with the request. The answer has the warning for its user, and when to report
again. ``GET``: the service, with its own token.

So the service needs no right to open users' servers, and no token of it reaches what a user runs.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any, Final

from jupyterhub import orm
from jupyterhub.scopes import Scope
from tornado.web import HTTPError

from dra_spawner.common.json_types import JsonObject
from dra_spawner.fairness.idle.server_answers import InvalidServerAnswer, read_activity
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.idle_devices.idle_notes import idle_note, notice_of_pod
from dra_spawner.spawner.my_devices.own_server_handler import OwnServerHandler
from dra_spawner.spawner.progress.activity_report import ActivityReport
from dra_spawner.spawner.progress.idle_servers import has_devices
from dra_spawner.spawner.server_context import parts_of

_VERSION: Final = 1
_MAX_BYTES: Final = 128 * 2**10
#: Groups of a user that are told: as many as a place in the queue has.
_MOST_GROUPS: Final = 20
#: Pause of a server between two reports: while the service asks for them, and while nobody does.
_SOON_SECONDS: Final = 30
_LATER_SECONDS: Final = 600
#: Time since the service's last question from which nobody asks.
_ASKS_SECONDS: Final = 1500.0


class _Questions:
    """When the service asked last."""

    asked_at = float("-inf")


class ActivityHandler(OwnServerHandler):
    """See the module."""

    def post(self) -> None:
        """Take the report of a server."""
        self.set_header("Cache-Control", "no-store")
        parts = self.own_parts()
        body = self.request.body
        if len(body) > _MAX_BYTES:
            raise HTTPError(413, f"A report has at most {_MAX_BYTES // 2**10} KiB.")
        try:
            activity = read_activity(json.loads(body))
        except InvalidServerAnswer as error:
            raise HTTPError(400, f"The report is not understood: {error}.") from None
        except (ValueError, RecursionError):
            raise HTTPError(400, "The report is no JSON.") from None
        pod = parts.server.pod() or {}
        is_wanted = has_devices(pod) and time.monotonic() - _questions().asked_at < _ASKS_SECONDS
        if is_wanted:
            # In memory, and in each answer to the service: a report may name a thousand kernels.
            parts.home.report = ActivityReport(activity.in_short, time.monotonic())
        note = idle_note(notice_of_pod(pod), datetime.now(UTC))
        self.finish(
            {"version": _VERSION, "again_seconds": _SOON_SECONDS if is_wanted else _LATER_SECONDS, "idle": note}
        )

    def get(self) -> None:
        """Tell the service all reports."""
        self.set_header("Cache-Control", "no-store")
        if not isinstance(self.current_user, orm.Service) or self.parsed_scopes.get("read:servers") is not Scope.ALL:
            raise HTTPError(403, "This is for the service of these servers, whose role needs the scope read:servers.")
        now, service = time.monotonic(), self.current_user.name
        present = [
            (user.name, spawner, parts)
            for user in list(self.users.values())
            for spawner in list(user.spawners.values())
            if spawner.active and (parts := parts_of(spawner)) is not None
        ]
        servers = [
            _server_json(user, spawner, parts.home.report, now) | {"groups": parts.server.user_groups[:_MOST_GROUPS]}
            for user, spawner, parts in present
            if spawner.placeholder_service == service
        ]
        if servers or not present:  # another service's question is no reason for servers to report
            _questions().asked_at = now
        self.finish({"version": _VERSION, "servers": servers})


def _questions() -> _Questions:
    return this_hub().shared(_Questions, _Questions)


def _server_json(user: str, spawner: Any, report: ActivityReport | None, now: float) -> JsonObject:
    """A server for its service."""
    started = spawner.orm_spawner.started
    found: JsonObject = {
        "user": user,
        "server": spawner.name,
        "namespace": spawner.namespace,
        "pod": spawner.pod_name,
        "started": started.isoformat() if started is not None else None,
        "ready": bool(spawner.ready),
        "pending": spawner.pending or None,
        "age_seconds": None,
        "activity": None,
    }
    if report is not None:
        activity = report.activity
        found["age_seconds"] = round(now - report.at, 3)
        found["activity"] = {
            "kernels": [
                {"execution_state": each.state.value, "last_activity": each.last_activity.isoformat()}
                for each in activity.kernels
            ],
            "terminals": [{"last_activity": each.isoformat()} for each in activity.terminals],
            "connections": activity.connections,
        }
    return found
