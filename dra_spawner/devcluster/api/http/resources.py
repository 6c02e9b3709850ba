"""The verbs of the API on the store's objects: read, list, watch, create, update, patch, delete, and subresources."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, replace
from http import HTTPStatus

from aiohttp import web

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError, bad_request
from dra_spawner.devcluster.api.event_forms import requested_form
from dra_spawner.devcluster.api.http.encoding import ObjectEncoder, to_json
from dra_spawner.devcluster.api.http.messages import (
    json_response,
    no_such_path,
    object_body,
    optional_body,
    parse_json,
    success,
    unsupported_media_type,
    wants_table,
)
from dra_spawner.devcluster.api.http.requests import (
    DeleteOptions,
    ListOptions,
    Target,
    encode_continue,
    parse_dry_run,
    parse_revision,
)
from dra_spawner.devcluster.api.http.tables import table
from dra_spawner.devcluster.api.http.watches import Render, WatchHub
from dra_spawner.devcluster.api.patches import PatchType
from dra_spawner.devcluster.api.pod_operations import bind_pod, evict_pod
from dra_spawner.devcluster.api.resource_types import NAMESPACES, by_kind
from dra_spawner.devcluster.api.schema import unknown_fields
from dra_spawner.devcluster.api.storage.deletion import Deletion
from dra_spawner.devcluster.api.storage.store import ListResult, Store

DEFAULT_WATCH_SECONDS = 1800.0
BOOKMARK_INTERVAL_SECONDS = 60.0
_APPLY_PATCH = ("application/apply-patch+yaml", "application/apply-patch+cbor")

LogProvider = Callable[[JsonObject, str], str | None]
"""Returns the log of a container of a pod; None if there is none."""


class ResourceHandler:
    """Handles requests for objects and collections.

    Parameters
    ----------
    logs
        Returns the text of ``pods/<name>/log``; None if there are no logs.
    """

    def __init__(self, store: Store, logs: LogProvider | None) -> None:
        self._store = store
        self._logs = logs
        self._encoder = ObjectEncoder(self._is_stored)
        self._unsubscribe = store.subscribe(self._encoder.forget)
        self._watches = WatchHub(store)

    @property
    def watch_count(self) -> int:
        """Number of open watches."""
        return len(self._watches)

    def close(self) -> None:
        """End all watches."""
        self._watches.close()
        self._unsubscribe()

    def _is_stored(self, obj: JsonObject) -> bool:
        resource_type, metadata = by_kind(obj["apiVersion"], obj["kind"]), obj["metadata"]
        return resource_type is not None and (
            self._store.find(resource_type, metadata.get("namespace"), metadata["name"]) is obj
        )

    async def serve(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Handle a request for a target.

        Raises
        ------
        ApiError
            If the request is refused; the caller returns it as a Status.
        """
        self._store.remove_old_events()
        match request.method, target.subresource:
            case "GET", "log":
                return self._log(request, target)
            case "GET", "" | "status":
                return await self._read(request, target)
            case "POST", "binding":
                return await self._bind(request, target)
            case "POST", "eviction":
                return await self._evict(request, target)
            case "POST", "" if not target.name:
                return await self._create(request, target)
            case "PUT", "" | "status" if target.name:
                return await self._update(request, target)
            case "PATCH", "" | "status" if target.name:
                return await self._patch(request, target)
            case "DELETE", "" if target.name:
                return await self._delete(request, target)
            case "DELETE", "" if target.resource_type is not NAMESPACES:
                return await self._delete_collection(request, target)
        raise ApiError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
            {},
        )

    async def _read(self, request: web.Request, target: Target) -> web.StreamResponse:
        if target.name and not request.query_string:
            return self._object(request, target, self._store.get(target.resource_type, target.namespace, target.name))
        options = ListOptions.parse(request.query)
        if options.watch and not target.subresource:
            return await self._watch(request, target, options)
        if target.name:
            return self._object(request, target, self._store.get(target.resource_type, target.namespace, target.name))
        return self._list(request, target, options)

    def _list(self, request: web.Request, target: Target, options: ListOptions) -> web.Response:
        wanted, present = parse_revision(options.resource_version), int(self._store.resource_version)
        if wanted > present:
            raise ApiError(
                HTTPStatus.GATEWAY_TIMEOUT,
                "Timeout",
                f"Timeout: Too large resource version: {wanted}, current: {present}",
                {
                    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                    "retryAfterSeconds": 1,
                },
            )
        if options.exact and wanted < present:
            raise ApiError(HTTPStatus.GONE, "Expired", "The resourceVersion for the provided list is too old.")
        page = self._store.list(
            target.resource_type,
            target.namespace,
            options.label_selector,
            options.field_selector,
            limit=options.limit,
            after=options.after,
        )
        return self._list_response(request, target, page)

    def _list_response(self, request: web.Request, target: Target, page: ListResult) -> web.Response:
        metadata: JsonObject = {"resourceVersion": page.resource_version}
        if page.next_key is not None:
            metadata["continue"] = encode_continue(page.next_key, page.resource_version)
            if page.remaining:
                metadata["remainingItemCount"] = page.remaining
        if wants_table(request):
            return json_response(to_json(table(target.resource_type, page.items, metadata, self._store.now())))
        resource_type = target.resource_type
        head = {"kind": f"{resource_type.kind}List", "apiVersion": resource_type.api_version, "metadata": metadata}
        items = b",".join(self._encoder.item(requested_form(resource_type, item)) for item in page.items)
        return json_response(to_json(head)[:-1] + b',"items":[' + items + b"]}")

    def _render(self, request: web.Request, target: Target) -> Render:
        if not wants_table(request):
            if target.resource_type.stored_as is None:
                return self._encoder.whole
            return lambda obj: self._encoder.whole(requested_form(target.resource_type, obj))

        def row(obj: JsonObject) -> bytes:
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            return to_json(table(target.resource_type, [obj], metadata, self._store.now()))

        return row

    async def _watch(self, request: web.Request, target: Target, options: ListOptions) -> web.StreamResponse:
        watch = self._watches.open(target, options, self._render(request, target))
        try:
            response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache"})
            await response.prepare(request)
            loop = asyncio.get_running_loop()
            end = loop.time() + (options.timeout_seconds or DEFAULT_WATCH_SECONDS)
            while (left := end - loop.time()) > 0:
                lines = await watch.take(min(left, BOOKMARK_INTERVAL_SECONDS))
                if not lines and not watch.closed and options.bookmarks:
                    watch.add_line("BOOKMARK", self._watches.bookmark(target.resource_type))
                    lines = await watch.take(0)
                if lines:
                    await response.write(lines)
                elif watch.closed:
                    break
            await response.write_eof()
            return response
        except ConnectionError:
            return response  # the client closed the connection
        finally:
            self._watches.discard(target.resource_type, watch)

    def _log(self, request: web.Request, target: Target) -> web.Response:
        pod = self._store.get(target.resource_type, target.namespace, target.name)
        names = [entry["name"] for entry in pod["spec"].get("containers", ())]
        known = names + [entry["name"] for entry in pod["spec"].get("initContainers", ())]
        container = request.query.get("container") or ""
        if not container and len(names) > 1:
            raise bad_request(
                f"a container name must be specified for pod {target.name}, choose one of: [{' '.join(known)}]"
            )
        if container and container not in known:
            raise bad_request(f"container {container} is not valid for pod {target.name}")
        if not pod["spec"].get("nodeName"):
            return web.Response(status=HTTPStatus.NO_CONTENT)
        text = self._logs(pod, container or names[0]) if self._logs is not None else None
        if text is None:
            raise ApiError(HTTPStatus.NOT_FOUND, "NotFound", f"pod {target.name} has no log")
        tail = request.query.get("tailLines", "")
        if tail.isdigit():
            lines = text.splitlines(keepends=True)
            text = "".join(lines[max(0, len(lines) - int(tail)) :])
        return web.Response(text=text)

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        if target.resource_type.namespaced and target.namespace is None:
            raise no_such_path()
        obj = await object_body(request, target.resource_type.kind)
        _check_fields(request, target, obj)
        dry_run = parse_dry_run(request.query.getall("dryRun", []), "CreateOptions")
        created = self._store.create(target.resource_type, obj, target.namespace, dry_run=dry_run)
        return self._object(request, target, created, HTTPStatus.CREATED)

    async def _update(self, request: web.Request, target: Target) -> web.Response:
        obj = await object_body(request, target.resource_type.kind)
        _check_fields(request, target, obj)
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request(f"{target.resource_type.kind}.metadata: expected an object")
        if metadata.get("name", "") != target.name:
            raise bad_request(
                f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL "
                f"({target.name})"
            )
        if target.namespace is not None and metadata.setdefault("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        dry_run = parse_dry_run(request.query.getall("dryRun", []), "UpdateOptions")
        updated = self._store.update(target.resource_type, obj, target.subresource, dry_run=dry_run)
        return self._object(request, target, updated)

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        if request.content_type in _APPLY_PATCH:
            raise ApiError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
                "server-side apply is not supported by the embedded cluster: use client-side apply or another patch",
            )
        try:
            patch_type = PatchType(request.content_type)
        except ValueError:
            raise unsupported_media_type() from None
        body = parse_json(await request.read(), "patch")
        dry_run = parse_dry_run(request.query.getall("dryRun", []), "PatchOptions")
        patched = self._store.patch(
            target.resource_type,
            target.namespace,
            target.name,
            body,
            patch_type,
            target.subresource,
            dry_run=dry_run,
        )
        return self._object(request, target, patched)

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        options = DeleteOptions.parse(request.query, await optional_body(request))
        deletion = self._store.delete(target.resource_type, target.namespace, target.name, **asdict(options))
        return self._deleted(request, target, deletion)

    def _deleted(self, request: web.Request, target: Target, deletion: Deletion) -> web.Response:
        resource_type = target.resource_type
        if not deletion.removed or resource_type.returns_deleted:
            return self._object(request, target, deletion.object)
        details: JsonObject = {"name": target.name, "kind": resource_type.plural}
        if resource_type.group:
            details["group"] = resource_type.group
        details["uid"] = deletion.object["metadata"]["uid"]
        return success(HTTPStatus.OK, details)

    async def _delete_collection(self, request: web.Request, target: Target) -> web.Response:
        if target.resource_type.namespaced and target.namespace is None:
            raise no_such_path()
        options = DeleteOptions.parse(request.query, await optional_body(request))
        # The preconditions are of one object.
        options = replace(options, uid=None, resource_version=None)
        selection = ListOptions.parse(request.query)
        page = self._store.list(
            target.resource_type, target.namespace, selection.label_selector, selection.field_selector
        )
        for obj in page.items:
            metadata = obj["metadata"]
            if self._store.find(target.resource_type, metadata.get("namespace"), metadata["name"]) is None:
                continue  # deleted together with another object
            self._store.delete(target.resource_type, metadata.get("namespace"), metadata["name"], **asdict(options))
        return self._list_response(request, target, page)

    async def _bind(self, request: web.Request, target: Target) -> web.Response:
        body = await object_body(request, target.resource_type.kind)
        assert target.namespace is not None
        metadata = _check_name(target, body, "Binding")
        bind_pod(
            self._store,
            target.namespace,
            target.name,
            (body.get("target") or {}).get("name", ""),
            uid=metadata.get("uid"),
            annotations=metadata.get("annotations"),
            dry_run=parse_dry_run(request.query.getall("dryRun", []), "CreateOptions"),
        )
        return success(HTTPStatus.CREATED)

    async def _evict(self, request: web.Request, target: Target) -> web.Response:
        body = await object_body(request, target.resource_type.kind)
        assert target.namespace is not None
        _check_name(target, body, "Eviction")
        options = DeleteOptions.parse(request.query, body.get("deleteOptions"))
        evict_pod(self._store, target.namespace, target.name, **asdict(options))
        return success(HTTPStatus.CREATED)

    def _object(self, request: web.Request, target: Target, obj: JsonObject, status: int = 200) -> web.Response:
        return json_response(self._render(request, target)(obj), status)


def _check_name(target: Target, body: JsonObject, kind: str) -> JsonObject:
    """The metadata of the object posted to a subresource; its name must be that of the path."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") != target.name:
        raise bad_request(f"name in URL does not match name in {kind} object")
    return metadata


def _check_fields(request: web.Request, target: Target, obj: JsonObject) -> None:
    """Refuse unknown fields if the client requires it (``fieldValidation=Strict``)."""
    if request.query.get("fieldValidation") != "Strict":
        return
    resource_type = target.resource_type
    if unknown := unknown_fields(resource_type, obj):
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise bad_request(
            f'{resource_type.kind} in version "{resource_type.version}" cannot be handled as a {resource_type.kind}: '
            f"strict decoding error: {listed}"
        )
