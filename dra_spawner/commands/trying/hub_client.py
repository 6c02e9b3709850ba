"""The hub's REST API for one user's servers, and the API of a server of that user."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

import aiohttp

from dra_spawner.user_server.shown_devices import text

_MARK: Final = "dra-spawner-try:"
_CELL: Final = Path(__file__).with_name("inside_cell.py")
_REQUEST_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 1.0
#: A proxy knows a server's route a moment after the hub says that it is ready.
_ROUTE_SECONDS: Final = 30.0
#: The hub cannot do it now, as it does something else with user or server.
_LATER: Final = (400, 500, 503)
_MAX_OUTPUT: Final = 2**20
_MAX_BYTES: Final = 16 * 2**20


class HubError(Exception):
    """Raised where hub or server refuse or do not answer; the message is a sentence."""


class NoNamedServers(HubError):
    """Raised if the hub has no named servers."""


class HubClient:
    """Asks the hub, and servers of one user, with one token. It follows no redirect, which could take the token along.

    Parameters
    ----------
    url
        The hub as browsers reach it, with its base URL.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session = session
        self._url = url.rstrip("/") + "/"
        self._headers = {"Authorization": f"token {token}"}

    async def get(self, path: str) -> Any:
        """The JSON at an address below the hub's base URL; None if there is nothing."""
        status, found = await self._ask("GET", path)
        if status == 404:
            return None
        self._require(status, found, f"GET {path}", 200)
        return found

    async def whose_token(self) -> Mapping[str, Any]:
        """The model of the token's owner."""
        found = await self.get("hub/api/user")
        if not isinstance(found, Mapping) or not isinstance(found.get("name"), str):
            raise HubError(f"At {self._url} is no JupyterHub: hub/api/user does not say whose token it is.")
        return found

    async def user(self, name: str) -> Mapping[str, Any] | None:
        """The model of a user; None if there is none, or if the token must not see the user."""
        found = await self.get(_user(name))
        return found if isinstance(found, Mapping) else None

    async def create_user(self, name: str) -> None:
        """Create a user."""
        status, found = await self._ask("POST", _user(name))
        self._require(status, found, f"user {name} cannot be created", 201)

    async def delete_user(self, name: str) -> None:
        """Delete a user, with all of the user's servers."""
        while True:
            status, found = await self._ask("DELETE", _user(name))
            # JupyterHub fails for a moment after a server of the user is deleted.
            if status not in _LATER:
                break
            await asyncio.sleep(_AGAIN_SECONDS)
        self._require(status, found, f"user {name} cannot be deleted", 204, 404)

    async def start(self, user: str, server: str, options: Mapping[str, str]) -> None:
        """Order a server."""
        while True:
            status, found = await self._ask("POST", _server(user, server), options)
            # The hub takes so many starts at a time.
            if status != 429:
                break
            await asyncio.sleep(_AGAIN_SECONDS)
        if status == 400 and "Named servers are not enabled" in _message(found):
            raise NoNamedServers("The hub has no named servers (JupyterHub.allow_named_servers).")
        self._require(status, found, "the start is refused", 201, 202)

    async def progress(self, user: str, server: str) -> AsyncIterator[Mapping[str, Any]]:
        """Events of a start until it is ready or has failed. A stream that ends early is opened again.

        The start may be ordered meanwhile: before that there is no progress.
        """
        while True:
            async with self._open(f"{_server(user, server)}/progress") as answer:
                if answer.status in (400, 404):
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                if answer.status != 200:
                    raise HubError(f"The progress of the start is not known: the hub answers {answer.status}.")
                with contextlib.suppress(aiohttp.ClientError, ValueError):
                    async for line in answer.content:
                        if (event := _event(line)) is not None:
                            yield event
                            if event.get("ready") or event.get("failed"):
                                return
            await asyncio.sleep(_AGAIN_SECONDS)

    async def remove(self, user: str, server: str) -> None:
        """Stop a server, delete it, and wait until it is gone."""
        while True:
            body = {"remove": True} if server else {}
            status, found = await self._ask("DELETE", _server(user, server), body)
            # The hub fails itself where a start that it interrupts takes its time to end.
            self._require(status, found, "the server cannot be removed", 202, 204, 404, *_LATER)
            known = await self.user(user)
            servers = known.get("servers") if known is not None else None
            if not isinstance(servers, Mapping) or server not in servers:
                return
            await asyncio.sleep(_AGAIN_SECONDS)

    # --- inside the server --------------------------------------------------------------------------------------------

    async def kernel(self, server_url: str) -> str:
        """Start a Python kernel in a server; its address."""
        base, end = urljoin(self._url, server_url), asyncio.get_running_loop().time() + _ROUTE_SECONDS
        while True:
            status, specs = await self._ask("GET", urljoin(base, "api/kernelspecs"))
            if status == 200 and isinstance(specs, Mapping):
                break
            if asyncio.get_running_loop().time() > end:
                raise HubError(f"The server does not answer at {base}: {status} {_message(specs)}".rstrip() + ".")
            await asyncio.sleep(_AGAIN_SECONDS)
        status, made = await self._ask("POST", urljoin(base, "api/kernels"), {"name": _python_kernel(specs)})
        self._require(status, made, "no kernel can be started", 201)
        return urljoin(base, f"api/kernels/{quote(str(made.get('id')), safe='')}/channels")

    @contextlib.asynccontextmanager
    async def channels(self, kernel_url: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """The connection to a kernel, when it answers."""
        url = "ws" + kernel_url.removeprefix("http")
        try:
            async with self._session.ws_connect(url, headers=self._headers, max_msg_size=_MAX_BYTES) as socket:
                await _reply(socket, "kernel_info_request", {})
                yield socket
        except (aiohttp.ClientError, OSError) as error:
            raise HubError(f"The kernel cannot be reached: {_of_error(error)}.") from None

    async def look_inside(self, socket: aiohttp.ClientWebSocketResponse) -> Mapping[str, Any]:
        """What the cell finds."""
        code = {"code": _CELL.read_text(), "silent": False, "store_history": False, "allow_stdin": False}
        output = await _reply(socket, "execute_request", code)
        for line in reversed(output.splitlines()):
            if line.startswith(_MARK):
                with contextlib.suppress(ValueError, RecursionError):
                    found = json.loads(line.removeprefix(_MARK))
                    if isinstance(found, Mapping):
                        return found
        last = text(output.strip().splitlines()[-1]) if output.strip() else "it has printed nothing"
        raise HubError(f"The cell did not say what is inside: {last}.")

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        limit = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
        try:
            async with self._session.request(
                method,
                urljoin(self._url, path),
                headers=self._headers,
                json=body,
                allow_redirects=False,
                timeout=limit,
            ) as answer:
                if answer.status in range(300, 400):
                    raise HubError(_redirected(self._url, answer.headers.get("Location", "")))
                content = bytearray()
                while more := await answer.content.read(_MAX_BYTES):  # what has come so far
                    content += more
                    if len(content) > _MAX_BYTES:
                        raise HubError(f"{self._url} answers with more than {_MAX_BYTES // 2**20} MiB.")
        except TimeoutError:
            raise HubError(f"{self._url} does not answer within {_REQUEST_SECONDS:g} s.") from None
        except (aiohttp.ClientError, OSError) as error:
            raise HubError(f"{self._url} cannot be reached: {_of_error(error)}.") from None
        try:
            return answer.status, json.loads(content) if content else None
        except (ValueError, RecursionError):
            return answer.status, None

    @contextlib.asynccontextmanager
    async def _open(self, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with self._session.get(
                urljoin(self._url, path),
                headers=self._headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_REQUEST_SECONDS),
            ) as answer:
                yield answer
        except (aiohttp.ClientError, OSError) as error:
            raise HubError(f"{self._url} cannot be reached: {_of_error(error)}.") from None

    def _require(self, status: int, found: Any, what: str, *accepted: int) -> None:
        if status in accepted:
            return
        said = _message(found)
        if status in (401, 403):
            raise HubError(f"The token does not allow it ({what}): {said or f'the hub answers {status}'}.")
        raise HubError(f"{what[:1].upper()}{what[1:]}: {said or f'the hub answers {status}'}.")


def _user(name: str) -> str:
    return f"hub/api/users/{quote(name, safe='')}"


def _server(user: str, server: str) -> str:
    return f"{_user(user)}/servers/{quote(server, safe='')}" if server else f"{_user(user)}/server"


def _message(found: Any) -> str:
    return text(found.get("message")).rstrip(".") if isinstance(found, Mapping) else ""


def _of_error(error: BaseException) -> str:
    return text(getattr(error, "strerror", None) or str(error)).rstrip(".") or type(error).__name__


def _redirected(url: str, location: str) -> str:
    to = urlsplit(urljoin(url, location))
    return f"{url} sends to {to.scheme}://{to.netloc}{text(to.path)}: name the hub's own address with --hub-url."


def _event(line: bytes) -> Mapping[str, Any] | None:
    if not line.startswith(b"data:"):
        return None
    try:
        found = json.loads(line.removeprefix(b"data:"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Mapping) else None


def _python_kernel(specs: Mapping[str, Any]) -> str:
    """Name of a kernel that runs Python, the default one first."""
    known = specs.get("kernelspecs")
    known = known if isinstance(known, Mapping) else {}
    names = sorted(known, key=lambda name: name != specs.get("default"))
    for name in names:
        spec = known[name].get("spec") if isinstance(known[name], Mapping) else None
        if isinstance(spec, Mapping) and str(spec.get("language")).lower() == "python":
            return str(name)
    raise HubError("The server has no Python kernel, so nothing can look inside.")


async def _reply(socket: aiohttp.ClientWebSocketResponse, kind: str, content: Mapping[str, Any]) -> str:
    """Send a request to a kernel, and wait for its end; what the kernel has printed, or its error."""
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": kind,
        "session": uuid.uuid4().hex,
        "username": "",
        "version": "5.3",
    }
    await socket.send_json(
        {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}
    )
    output, is_idle, is_answered = "", False, False
    while not (is_idle and is_answered):
        message = await socket.receive()
        if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            raise HubError("The connection to the kernel has ended.")
        if message.type is not aiohttp.WSMsgType.TEXT:
            continue
        found = json.loads(message.data)
        if (found.get("parent_header") or {}).get("msg_id") != header["msg_id"]:
            continue
        said, body = (found.get("header") or {}).get("msg_type"), found.get("content") or {}
        if said == "stream" and len(output) < _MAX_OUTPUT:
            output += str(body.get("text"))
        elif said == "status" and body.get("execution_state") == "idle":
            is_idle = True
        elif said == kind.replace("_request", "_reply"):
            is_answered = True
            if body.get("status") == "error":
                raise HubError(f"The cell has failed: {text(body.get('ename'))}: {text(body.get('evalue'))}.")
    return output
