"""The embedded cluster's API over HTTP: kube-apiserver's paths, verbs and responses for the store's objects."""

import hmac
import logging
from http import HTTPStatus

from aiohttp import web

from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.http import discovery, openapi
from dra_spawner.devcluster.api.http.encoding import to_json
from dra_spawner.devcluster.api.http.messages import found, json_response, no_such_path, object_body, retry_after
from dra_spawner.devcluster.api.http.requests import parse_target
from dra_spawner.devcluster.api.http.resources import LogProvider, ResourceHandler
from dra_spawner.devcluster.api.storage.store import Store

LOOPBACK = "127.0.0.1"
TOKEN_PATH = "token"  # noqa: S105 (a path, no secret)
MAX_BODY_BYTES = 3 * 2**20
"""Maximum size of a body, as in kube-apiserver."""
_SHUTDOWN_SECONDS = 2.0

_log = logging.getLogger(__name__)


class ApiServer:
    """Serves a store on the loopback interface.

    Parameters
    ----------
    token
        The clients' bearer token, also accepted in the path (`url_with_token`); safe for URLs.
    logs
        Returns the text of ``pods/<name>/log``; None if there are no logs.
    """

    def __init__(self, store: Store, token: str, *, logs: LogProvider | None = None) -> None:
        self._token = token.encode()
        self._resources = ResourceHandler(store, logs)
        self._runner: web.AppRunner | None = None
        self.url = ""

    @property
    def url_with_token(self) -> str:
        """The server's URL for clients that send no token over plain HTTP, such as ``kubectl``."""
        return f"{self.url}/{TOKEN_PATH}/{self._token.decode()}"

    @property
    def watch_count(self) -> int:
        """Number of open watches."""
        return self._resources.watch_count

    async def start(self, port: int = 0) -> str:
        """Listen on the loopback interface.

        Parameters
        ----------
        port
            Port; 0 for any free port.

        Returns
        -------
        str
            The server's URL.
        """
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, port)
        await site.start()
        _, bound_port = self._runner.addresses[0][:2]
        self.url = f"http://{LOOPBACK}:{bound_port}"
        return self.url

    async def stop(self) -> None:
        """End all watches and stop listening."""
        self._resources.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._route(request)
        except ApiError as error:
            refusal = error
        except web.HTTPRequestEntityTooLarge:
            limit = f"Request entity too large: limit is {MAX_BODY_BYTES}"
            refusal = ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", limit)
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as error:
            _log.exception("Request failed: method=%s path=%s", request.method, request.path)
            refusal = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", f"Internal error occurred: {error!r}")
        return json_response(to_json(refusal.to_status()), refusal.status_code, retry_after(refusal))

    async def _route(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        credential = token.strip() if scheme.lower() == "bearer" else ""
        if parts[0] == TOKEN_PATH and len(parts) > 1:
            credential, parts = parts[1], parts[2:] or [""]
        if parts[0] in ("healthz", "readyz", "livez") and request.method == "GET":
            return web.Response(text="ok")
        if parts == ["version"]:
            return json_response(to_json(discovery.version()))
        self._authenticate(credential)
        match parts:
            case ["api"]:
                return json_response(to_json(discovery.core_versions()))
            case ["apis"]:
                return json_response(to_json(discovery.groups()))
            case ["api", version]:
                return found(discovery.resources("", version))
            case ["apis", group]:
                return found(discovery.group(group))
            case ["apis", group, version]:
                return found(discovery.resources(group, version))
            case ["openapi", "v3"]:
                return json_response(to_json(openapi.index(request.path)))
            case ["openapi", "v3", *group_path]:
                return found(openapi.document("/".join(group_path)))
            case ["apis", *review] if tuple(review) == (*discovery.AUTHORIZATION, "selfsubjectaccessreviews"):
                return await _review_access(request)
            case ["api", version, *rest]:
                target = parse_target("", version, rest)
            case ["apis", group, version, *rest]:
                target = parse_target(group, version, rest)
            case _:
                target = None
        if target is None:
            raise no_such_path()
        return await self._resources.serve(request, target)

    def _authenticate(self, token: str) -> None:
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            raise ApiError(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")


async def _review_access(request: web.Request) -> web.Response:
    """A review that allows everything, as there are no roles, only the token."""
    if request.method != "POST":
        raise no_such_path()
    spec = (await object_body(request, "SelfSubjectAccessReview")).get("spec", {})
    group, version = discovery.AUTHORIZATION
    review = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": f"{group}/{version}",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": True},
    }
    return json_response(to_json(review), HTTPStatus.CREATED)
