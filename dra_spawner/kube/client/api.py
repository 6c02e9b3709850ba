"""The Kubernetes API as plain JSON, over the connection of `kubernetes_asyncio`.

The typed models of the client library have ``resource.k8s.io/v1`` from release 34 on only, and older hubs run older
releases. So objects stay JSON. The library finds the configuration, and handles TLS and tokens.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import aiohttp
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api_connection import ApiConnection, ApiRequest, Params, lines_of
from dra_spawner.kube.client.api_errors import (
    AnswerTooLarge,
    KubernetesError,
    KubernetesTimeout,
    KubernetesUnavailable,
    RequestTarget,
    ResourceExpired,
    error_from_status,
)
from dra_spawner.kube.client.api_requests import PatchType, WatchEventType, resource_path
from dra_spawner.kube.client.versions import OLDER_STATE, is_older

__all__ = [
    "KubernetesApi",
    "KubernetesError",
    "KubernetesTimeout",
    "KubernetesUnavailable",
    "PatchType",
    "ResourceExpired",
    "WatchEventType",
    "resource_path",
]

DEFAULT_TIMEOUT_SECONDS = 10.0
# A watch is ended by the server after timeoutSeconds; if it has not done so this much later, the connection is dead.
_WATCH_GRACE_SECONDS: Final = 10.0
# 500 common objects have 2 MB.
_MAX_PAGE_BYTES = 16 * 2**20
# A larger page is requested again with its limit divided by this; without a limit, from this number of objects.
_FEWER_OBJECTS = 8
_MAX_OBJECTS = 4000
_NEWEST_LISTS: WeakKeyDictionary[ApiClient, dict[str, str]] = WeakKeyDictionary()
"""Versions of the newest lists by path, for all users of a client: each spawner has an API of its own."""


class KubernetesApi:
    """Requests to one API server, in and out as JSON.

    Parameters
    ----------
    api_client
        Of `kubernetes_asyncio`; KubeSpawner's own (``spawner.api.api_client``) does.
    timeout_seconds
        For each call that names no other; without an answer by then a call raises `KubernetesTimeout`.
    owns_client
        Whether `close` also closes the client.

    Every method raises `KubernetesError`; without an answer that is `KubernetesUnavailable`. aiohttp repeats a GET, PUT
    or DELETE once when its connection breaks. So a delete whose answer was lost may end as 404. A request that the
    server puts off is repeated within its time (`ApiConnection.read`); a watch is not.
    """

    def __init__(
        self,
        api_client: ApiClient,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        owns_client: bool = False,
    ) -> None:
        self.connection = ApiConnection(api_client, timeout_seconds)
        self._owns_client = owns_client
        self._newest_lists = _NEWEST_LISTS.setdefault(api_client, {})
        self.max_page_bytes = _MAX_PAGE_BYTES

    @classmethod
    async def from_kubeconfig(
        cls,
        path: str | Path | None = None,
        *,
        context: str | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        max_connections: int | None = None,
    ) -> Self:
        """Connect by a kubeconfig file; the result owns its connection, close it.

        Parameters
        ----------
        path
            None for ``$KUBECONFIG`` or ``~/.kube/config``.
        max_connections
            Limit of concurrent requests, watches included; None for the library's default of 100.

        Raises
        ------
        kubernetes_asyncio.config.ConfigException
            If the file is missing or invalid.
        """
        client = await config.new_client_from_config(
            config_file=str(path) if path is not None else None, context=context, persist_config=False
        )
        if max_connections is not None:
            # The client has the default; it has sent nothing yet.
            await client.close()
            client.configuration.connection_pool_maxsize = max_connections
            client = ApiClient(configuration=client.configuration)
        return cls(client, timeout_seconds=timeout_seconds, owns_client=True)

    @property
    def server(self) -> str:
        return str(self.connection.client.configuration.host)

    async def close(self) -> None:
        """Close the connections that this object owns."""
        if self._owns_client:
            await self.connection.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def get(self, path: str, *, params: Params | None = None, timeout_seconds: float | None = None) -> JsonObject:
        """Read one object, or any other JSON that answers a GET.

        JSON of a proxy instead of the object is an error, so that it does not count as an object without content.
        """
        request = ApiRequest("get", "GET", path, params=params, timeout_seconds=timeout_seconds)
        found = await self.connection.read_json(request)
        if request.target.name and _name_in(found) != unquote(request.target.name):
            raise _bad_answer(request.target, f"the answer is another object (kind {found.get('kind')!s:.100})")
        return found

    async def get_text(self, path: str, *, params: Params | None = None, timeout_seconds: float | None = None) -> str:
        """Read text, for example ``pods/log`` or ``/readyz``."""
        headers = {"Accept": "*/*"}
        data = await self.connection.read_bytes(
            ApiRequest("get", "GET", path, params=params, headers=headers, timeout_seconds=timeout_seconds)
        )
        return data.decode("utf-8", errors="replace")

    async def date(self) -> str:
        """The API server's clock, as in the header ``Date`` of its answers; empty if they have none."""

        async def read(response: aiohttp.ClientResponse) -> str:
            await response.read()
            return response.headers.get("Date", "")

        return await self.connection.read(ApiRequest("get", "GET", "/version"), read)

    async def list(
        self,
        path: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        page_size: int | None = None,
        timeout_seconds: float | None = None,
    ) -> JsonObject:
        """Read a collection; the list object, whose ``metadata.resourceVersion`` a watch may start from.

        Parameters
        ----------
        resource_version
            None for the newest state; "0" for the state in the server's cache.
        page_size
            Objects in a page; the result has all pages. Large collections are read in pages in any case.

        Raises
        ------
        ResourceExpired
            If the server no longer has the version of the first page.
        """
        items: Any = []
        pages = self.list_pages(
            path,
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=resource_version,
            page_size=page_size,
            timeout_seconds=timeout_seconds,
        )
        async for page in pages:
            items += page.get("items") or []
        page["items"] = items
        return page

    async def list_pages(
        self,
        path: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        page_size: int | None = None,
        timeout_seconds: float | None = None,
    ) -> AsyncGenerator[JsonObject, None]:
        """Read a collection page by page, all of the first one's version; parameters as of `list`.

        A page larger than `max_page_bytes` is requested again with fewer objects: an object may have 3 MB, and
        parsing blocks the event loop.

        Without a `resource_version` the API server answers with its newest state. So an answer that is older than one
        that came before the request is an error, as what it lacks may exist.
        """
        params: dict[str, str | int | bool] = {}
        if label_selector:
            params["labelSelector"] = label_selector
        if field_selector:
            params["fieldSelector"] = field_selector
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        limit = page_size
        if limit is not None:
            params["limit"] = limit
        newest = self._newest_lists.get(path, "") if resource_version is None else ""
        while True:
            try:
                page = await self.connection.read_json(
                    ApiRequest(
                        "list",
                        "GET",
                        path,
                        params=params,
                        timeout_seconds=timeout_seconds,
                        max_bytes=self.max_page_bytes if limit != 1 else None,
                    )
                )
            except AnswerTooLarge:
                limit = params["limit"] = max(1, (limit or _MAX_OBJECTS) // _FEWER_OBJECTS)
                continue
            version = _checked_version(path, page, newest)
            if resource_version is None and not is_older(version, self._newest_lists.get(path, "")):
                self._newest_lists[path] = version
            next_page = page["metadata"].pop("continue", None)
            page["metadata"].pop("remainingItemCount", None)
            yield page
            if not next_page:
                return
            params.pop("resourceVersion", None)  # the token carries it; both together are refused
            params["continue"] = next_page

    async def create(
        self, path: str, body: JsonObject, *, params: Params | None = None, timeout_seconds: float | None = None
    ) -> JsonObject:
        """POST an object to a collection, or to a subresource like ``binding``."""
        return await self.connection.read_json(
            ApiRequest("create", "POST", path, params=params, body=body, timeout_seconds=timeout_seconds)
        )

    async def replace(
        self, path: str, body: JsonObject, *, params: Params | None = None, timeout_seconds: float | None = None
    ) -> JsonObject:
        """PUT a whole object; with ``metadata.resourceVersion``, replace only that version (else 409 Conflict)."""
        return await self.connection.read_json(
            ApiRequest("replace", "PUT", path, params=params, body=body, timeout_seconds=timeout_seconds)
        )

    async def patch(
        self,
        path: str,
        body: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        params: Params | None = None,
        timeout_seconds: float | None = None,
    ) -> JsonObject:
        """Change parts of an object; `body` is a list of operations for `PatchType.JSON`, else an object."""
        headers = {"Content-Type": patch_type.value}
        return await self.connection.read_json(
            ApiRequest(
                "patch", "PATCH", path, params=params, body=body, headers=headers, timeout_seconds=timeout_seconds
            )
        )

    async def delete(
        self,
        path: str,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        params: Params | None = None,
        missing_ok: bool = False,
        timeout_seconds: float | None = None,
    ) -> JsonObject:
        """Delete an object, or the objects of a collection that `params` select.

        Parameters
        ----------
        grace_period_seconds
            None for the pod's own.
        propagation_policy
            ``Background``, ``Foreground`` or ``Orphan``.
        uid, resource_version
            Preconditions: only the object of this uid, only in this version (else 409 Conflict).
        missing_ok
            Whether a missing object counts as deleted; the answer is empty then.
        """
        options: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy is not None:
            options["propagationPolicy"] = propagation_policy
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {key: value for key, value in preconditions.items() if value is not None}:
            options["preconditions"] = preconditions
        try:
            return await self.connection.read_json(
                ApiRequest("delete", "DELETE", path, params=params, body=options, timeout_seconds=timeout_seconds)
            )
        except KubernetesError as error:
            if missing_ok and error.not_found:
                return {}
            raise

    async def watch(
        self,
        path: str,
        *,
        resource_version: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = False,
        watch_seconds: int = 300,
        grace_seconds: float = _WATCH_GRACE_SECONDS,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[tuple[WatchEventType, JsonObject], None]:
        """Changes of a collection, over one connection.

        The server ends it after `watch_seconds` or earlier; go on from the last object's
        ``metadata.resourceVersion``.

        Parameters
        ----------
        resource_version
            Version of a list or an object to begin after. None begins with an ADDED event for each object.
        bookmarks
            Whether to get ``BOOKMARK`` events: objects with nothing but a version, which say how far the server is.
        grace_seconds
            Limit until the server accepts the watch, and after `watch_seconds` until it has ended the watch. Then the
            connection counts as broken.
        on_open
            Called when the server accepts the watch, which may be long before the first change.

        Raises
        ------
        ResourceExpired
            If the server no longer has that version: list again.
        KubernetesUnavailable
            If the connection breaks.
        """
        params: dict[str, str | int | bool] = {"watch": "true", "timeoutSeconds": watch_seconds}
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        if label_selector:
            params["labelSelector"] = label_selector
        if field_selector:
            params["fieldSelector"] = field_selector
        if bookmarks:
            params["allowWatchBookmarks"] = "true"
        request = ApiRequest("watch", "GET", path, params)
        timeout = aiohttp.ClientTimeout(
            total=watch_seconds + grace_seconds, sock_connect=self.connection.timeout_seconds
        )
        async with self.connection.send(request, timeout, grace_seconds) as response:
            if response.content_type.startswith("text/"):
                raise _bad_answer(request.target, f"a watch begins with {response.content_type}")
            on_open()
            async for line in lines_of(response.content):
                try:
                    event = await self.connection.parse(request, line)
                    event_type, obj = event["type"], event["object"]
                except (ValueError, KeyError, TypeError) as error:
                    raise KubernetesUnavailable(
                        request.target, status=0, reason="BadWatchEvent", message=f"not a watch event: {line[:200]!r}"
                    ) from error
                if event_type == "ERROR":
                    raise error_from_status(request.target, 200, obj)
                yield WatchEventType(event_type), obj


def _checked_version(path: str, page: JsonObject, newest: str) -> str:
    """The version of a page.

    Raises
    ------
    KubernetesUnavailable
        If it is no list, as a proxy's JSON, or older than `newest`: it must not count as a collection without objects.
    """
    target, kind, metadata = RequestTarget.from_path("list", path), page.get("kind"), page.setdefault("metadata", {})
    if not _is_list_of(kind, path) or not isinstance(page.get("items"), list) or not isinstance(metadata, dict):
        raise _bad_answer(target, f"the answer is no list of objects (kind {kind!s:.100})")
    version = str(metadata.get("resourceVersion") or "")
    if is_older(version, newest):
        raise _bad_answer(target, OLDER_STATE.format(version=version, newest=newest))
    return version


#: Groups with a dot whose plurals are their kinds' names with an ending. Others may name a kind as they like.
_REGULAR_GROUPS: Final = frozenset((names.RESOURCE_GROUP, names.COORDINATION_GROUP, names.SCHEDULING_GROUP))


def _is_list_of(kind: object, path: str) -> bool:
    """Whether an answer of this kind can be the collection of a path. Plurals of built-in kinds are regular."""
    if kind in (None, "List"):
        return True
    stem, end = str(kind)[:-4].lower(), str(kind)[-4:]
    parts = path.strip("/").split("/")
    is_regular = parts[0] == "api" or "." not in parts[1] or parts[1] in _REGULAR_GROUPS
    return end == "List" and (not is_regular or parts[-1].startswith(stem[:-1]))


def _name_in(found: JsonObject) -> object:
    metadata = found.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _bad_answer(target: RequestTarget, message: str) -> KubernetesError:
    return KubernetesUnavailable(target, status=0, reason="BadAnswer", message=message)
