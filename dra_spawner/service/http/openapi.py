"""The OpenAPI 3.1 document of the service's addresses, made from their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from dra_spawner import __version__
from dra_spawner.service.http.addresses import Address, parameters_of
from dra_spawner.service.http.requests.endpoints import JSON, METHODS, Access, Endpoint, endpoints_of
from dra_spawner.service.http.schemas.cluster_schemas import PROBLEM
from dra_spawner.service.http.schemas.schema_parts import example_of

_PROBLEM_TYPE: Final = "application/problem+json"
_SECURITY: Final[list[dict[str, list[str]]]] = [{"token": []}, {"login": []}]
_LEVELS: Final = {
    Access.METRICS: "readers, and programs with `read:metrics`",
    Access.ASK: "everybody who may open the service",
    Access.ANNOUNCE: "people who announce classes, operators and administrators",
    Access.READ: "readers, operators and administrators",
    Access.OPERATE: "operators and administrators",
    Access.ADMIN: "administrators",
}


def openapi_document(addresses: Iterable[Address], prefix: str) -> dict[str, Any]:
    """The document.

    Parameters
    ----------
    prefix
        Path of all addresses, with a slash at both ends.
    """
    paths: dict[str, Any] = {}
    for address, handler in addresses:
        declared = {method: each for method, each in endpoints_of(handler).items() if method in METHODS}
        if declared:
            paths[f"/{address}"] = _path_item(address, declared)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dra-spawner service",
            "version": __version__,
            "description": "Devices of a JupyterHub's cluster, their users, and placeholders for users.",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "servers": [{"url": prefix.rstrip("/") or "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": dict(PROBLEM)},
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`token …`: an API token of JupyterHub.",
                },
                "login": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "service-dra-spawner",
                    "description": "The login of a browser; changes need JupyterHub's XSRF token, too.",
                },
            },
        },
    }


def statuses_of(address: str, method: str, endpoint: Endpoint) -> tuple[int, ...]:
    """Statuses of all problems that an endpoint may answer."""
    found = {400, *endpoint.problems}
    if endpoint.access is not Access.EVERYBODY:
        found |= {401, 403, 502, 503}
    if parameters_of(address):
        found.add(404)
    if endpoint.precondition:
        found.add(412)
    return tuple(sorted(found))


def _path_item(address: str, declared: Mapping[str, Endpoint]) -> dict[str, Any]:
    item: dict[str, Any] = {method.lower(): _operation(address, method, each) for method, each in declared.items()}
    if names := parameters_of(address):
        item["parameters"] = [
            {"name": each, "in": "path", "required": True, "schema": {"type": "string"}, "example": "x"}
            for each in names
        ]
    return item


def _operation(address: str, method: str, endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": f"{method.lower()} {address or 'page'}".translate(str.maketrans(" /-{}.", "______")),
        "summary": endpoint.summary,
        "responses": {
            **{str(status): answer for status, answer in _answers(method, endpoint).items()},
            **{str(each): _problem(each, endpoint) for each in statuses_of(address, method, endpoint)},
        },
    }
    if endpoint.unready:
        found["responses"]["503"] = _answer(endpoint, 503, {})
    if endpoint.access is not Access.EVERYBODY:
        found["security"] = _SECURITY if endpoint.cookie else _SECURITY[:1]
        hub = "; the hub" if endpoint.hub else ""
        found["description"] = f"For {_LEVELS[endpoint.access]}{hub}."
    parameters = [
        {"name": each.name, "in": "query", "description": each.description, "schema": dict(each.schema)}
        for each in endpoint.query
    ]
    if endpoint.precondition:
        parameters.append(
            {
                "name": "If-Match",
                "in": "header",
                "description": "The ETag that was read before: 412 if somebody else has changed it since.",
                "schema": {"type": "string"},
            }
        )
    if parameters:
        found["parameters"] = parameters
    if endpoint.body is not None:
        content = {"schema": dict(endpoint.body), "example": example_of(endpoint.body)}
        found["requestBody"] = {"required": True, "content": {JSON: content}}
    return found


def _answers(method: str, endpoint: Endpoint) -> dict[int, Any]:
    found = {endpoint.status: _answer(endpoint, endpoint.status, _headers(method, endpoint))}
    if method == "GET":
        found[304] = {"description": "Not changed since the ETag in `If-None-Match`."}
    if endpoint.is_page:
        found[302] = {"description": "To the hub's login."}
    return found


def _headers(method: str, endpoint: Endpoint) -> dict[str, Any]:
    """The headers that only a successful answer has."""
    always: dict[str, Any] = {"schema": {"type": "string"}, "required": True}
    if endpoint.status == HTTPStatus.CREATED:
        return {"ETag": always, "Location": always}
    if endpoint.media_type == JSON and (method == "GET" or (endpoint.precondition and endpoint.answer is not None)):
        return {"ETag": always}
    return {}


def _answer(endpoint: Endpoint, status: int, headers: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if headers:
        described["headers"] = dict(headers)
    if endpoint.answer is not None:
        content: dict[str, Any] = {"schema": dict(endpoint.answer), "example": example_of(endpoint.answer)}
        described["content"] = {endpoint.media_type: content}
    elif endpoint.media_type != JSON:
        described["content"] = {endpoint.media_type: {"schema": {"type": "string"}}}
    return described


def _problem(status: int, endpoint: Endpoint) -> dict[str, Any]:
    content = {_PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if endpoint.is_page:
        content = {endpoint.media_type: {"schema": {"type": "string"}}}
    return {"description": HTTPStatus(status).phrase, "content": content}
