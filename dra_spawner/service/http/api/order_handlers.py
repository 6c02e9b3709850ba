"""Handlers of orders: evict a placeholder, release a reservation, stop a server."""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from urllib.parse import quote

from jupyterhub.utils import make_ssl_context, url_path_join
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.web import HTTPError

from dra_spawner.kube.leader import NotLeading
from dra_spawner.placeholders.controller.sources.override_store import OverridesUnavailable
from dra_spawner.placeholders.planner.decisions.orders import RefusedOrder, UnknownPlaceholder
from dra_spawner.service.http.api.override_handlers import OverrideHandler
from dra_spawner.service.http.requests.endpoints import Access, Query, endpoint
from dra_spawner.service.http.requests.guarded_handler import sentence_of
from dra_spawner.service.http.schemas.override_schemas import ORDER_TAKEN
from dra_spawner.service.http.schemas.schema_parts import text

log = logging.getLogger(__name__)

_LONGEST_NAME: Final = 255
#: The hub answers after 10 s (its `slow_stop_timeout`) if a server is slow to stop.
_STOP_SECONDS: Final = 30.0
#: The hub gives an interrupted start one second to end, and then fails itself; asked again later, it stops the server.
_HUB_FAILED: Final = 500
_TIMES_TO_ASK: Final = 5
_ASK_AGAIN_SECONDS: Final = 2.0
#: tornado's status for a request without an answer in time.
_NO_ANSWER: Final = 599
#: By status of the hub; 404 also if the caller's token may not know of the server.
_REFUSALS: Final = {
    400: (409, "The hub cannot stop this server now."),
    403: (403, "The hub does not let you stop this server."),
    404: (404, "The hub knows no such server, or does not let you stop it."),
}


class _PlaceholderOrderHandler(OverrideHandler):
    """Base: the leader deletes the placeholder in its next round."""

    async def order(self, name: str, order: str) -> None:
        """Store the order, with an entry in the audit trail."""
        try:
            await self.controller.order_deletion(name, self.caller, releases=order == "release")
        except UnknownPlaceholder:
            raise HTTPError(404, "There is no placeholder of this name.") from None
        except RefusedOrder as error:
            raise HTTPError(409, "%s", error) from None
        except OverridesUnavailable as error:
            raise HTTPError(503, "%s", error) from None
        except NotLeading:
            raise HTTPError(503, "%s", self.context.not_managing_because()) from None
        self.set_status(202)
        self.write_json({"subject": name, "order": order})


class EvictionHandler(_PlaceholderOrderHandler):
    """``DELETE api/placeholders/<name>``."""

    @endpoint(
        "Evict a placeholder; another one may be created for the target.",
        Access.OPERATE,
        answer=ORDER_TAKEN,
        status=202,
        problems=(409,),
    )
    async def delete(self, name: str) -> None:
        await self.order(name, "evict")


class ReleaseHandler(_PlaceholderOrderHandler):
    """``DELETE api/placeholders/<name>/reservation``."""

    @endpoint(
        "Release the reservation of a placeholder whose server has not come; its devices are free again.",
        Access.OPERATE,
        answer=ORDER_TAKEN,
        status=202,
        problems=(409,),
    )
    async def delete(self, name: str) -> None:
        await self.order(name, "release")


class ServerHandler(OverrideHandler):
    """``DELETE api/servers/<user>``: the hub stops a server, if the caller's own token may do that at the hub.

    The service has no such right itself, so that its token stops no server.
    """

    @endpoint(
        "Stop a user's server, by the hub and with the caller's rights there.",
        Access.ADMIN,
        answer=ORDER_TAKEN,
        status=202,
        problems=(409,),
        query=(Query("server", "Name of the server; empty for the default one.", text("")),),
    )
    async def delete(self, user: str) -> None:
        server = self.get_query_argument("server", "")
        if max(len(user), len(server)) > _LONGEST_NAME or {user, server} & {".", ".."}:
            raise HTTPError(404, "The hub knows no such server.")
        token = self.hub_auth.get_token(self)
        await self.note("stop server", f"{user}/{server}")
        try:
            await self._stop(user, server, token or "")
        except HTTPError as error:
            await self.note("stop server", f"{user}/{server}", f"not done: {sentence_of(error.status_code, error)}")
            raise
        self.set_status(202)
        self.write_json({"subject": f"{user}/{server}", "order": "stop server"})

    async def _stop(self, user: str, server: str, token: str) -> None:
        hub = self.hub_auth
        quoted = [quote(each, safe="") for each in (user, server)]
        parts = ("users", quoted[0], "servers", quoted[1]) if server else ("users", quoted[0], "server")
        request = HTTPRequest(
            url_path_join(hub.api_url, *parts),
            method="DELETE",
            headers={"Authorization": f"token {token}"},
            request_timeout=_STOP_SECONDS,
            follow_redirects=False,
            # None without internal_ssl.
            ssl_options=make_ssl_context(hub.keyfile, hub.certfile, cafile=hub.client_ca),
        )
        try:
            await _fetch_and_ask_again(request)
        except HTTPClientError as error:
            if error.code in _REFUSALS:
                raise HTTPError(*_REFUSALS[error.code]) from None
            log.warning("The hub did not stop a server: status=%s", error.code)
            if error.code == _NO_ANSWER:
                raise HTTPError(502, "The hub has not answered in time. It may still stop the server.") from None
            raise HTTPError(502, "The hub did not stop the server. Try again; the hub's log says why.") from None
        except OSError:
            raise HTTPError(502, "The hub cannot be reached, so it did not stop the server. Try again.") from None


async def _fetch_and_ask_again(request: HTTPRequest) -> None:
    for left in reversed(range(_TIMES_TO_ASK)):
        try:
            await AsyncHTTPClient().fetch(request)
        except HTTPClientError as error:
            if error.code != _HUB_FAILED or not left:
                raise
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
        else:
            return
