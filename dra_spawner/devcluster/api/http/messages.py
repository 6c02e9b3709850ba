"""Bodies of requests and responses of the HTTP API."""

from http import HTTPStatus
from typing import Any

from aiohttp import web

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError, bad_request
from dra_spawner.devcluster.api.http.encoding import from_json, to_json


def json_response(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A response of JSON text."""
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def found(document: JsonObject | None) -> web.Response:
    """A document as a response; raises a 404 error if it is None."""
    if document is None:
        raise no_such_path()
    return json_response(to_json(document))


def success(status: int, details: JsonObject | None = None) -> web.Response:
    """A ``Status`` of success; without a code if it has details, as in kube-apiserver."""
    answer: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is None:
        answer["code"] = int(status)
    else:
        answer["details"] = details
    return json_response(to_json(answer), status)


def retry_after(error: ApiError) -> dict[str, str] | None:
    """The ``Retry-After`` header of an error; None if it has none."""
    seconds = (error.details or {}).get("retryAfterSeconds")
    return {"Retry-After": str(seconds)} if seconds else None


def no_such_path() -> ApiError:
    """The 404 error of an unknown path, which differs from that of a missing object."""
    return ApiError(HTTPStatus.NOT_FOUND, "NotFound", "the server could not find the requested resource", {})


def unsupported_media_type() -> ApiError:
    """The 415 error of a body that is neither JSON nor a patch."""
    return ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def wants_table(request: web.Request) -> bool:
    """Whether the client asks for a table, as kubectl does."""
    return "as=Table" in request.headers.get("Accept", "")


def parse_json(text: bytes, what: str) -> Any:
    """The JSON value of a text; raises a 400 error if it is invalid."""
    try:
        return from_json(text)
    except ValueError as error:
        raise bad_request(f"error decoding {what}: {error}") from None


async def object_body(request: web.Request, kind: str) -> JsonObject:
    """The object in the body of a request; raises a 400 or 415 error if there is none."""
    if request.content_type not in ("application/json", "application/octet-stream"):  # the default without a header
        raise unsupported_media_type()
    body = parse_json(await request.read(), "body")
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind})")
    return body


async def optional_body(request: web.Request) -> JsonObject | None:
    """The options in the body of a DELETE, if there are any."""
    text = await request.read()
    if not text.strip():
        return None
    body = parse_json(text, "body")
    if body is not None and not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
    return body
