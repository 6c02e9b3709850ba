"""Declarations of endpoints, from which routes, authorization, OpenAPI document and table of callers are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from dra_spawner.service.http.schemas.schema_parts import Schema, integer, text

JSON: Final = "application/json"
HTML: Final = "text/html"
TEXT: Final = "text/plain"
EVENTS: Final = "text/event-stream"
METHODS: Final = ("GET", "POST", "PUT", "DELETE")
_MARK: Final = "endpoint_declaration"

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


class Access(StrEnum):
    """Who may use an endpoint. Each level from `READ` on includes the levels before it; operators may announce."""

    EVERYBODY = "everybody"
    #: Readers, and the scopes of the setting `metrics_scopes`.
    METRICS = "metrics"
    #: Everybody who may open the service: asking for a class, and what came of the own requests.
    ASK = "ask"
    #: Announcing classes, within limits.
    ANNOUNCE = "announce"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter of the query; none is required."""

    name: str
    description: str
    schema: Schema


LIMIT: Final = Query("limit", "The most items in the answer; 100 by default.", integer(100, maximum=1000))
LIMIT_OR_ALL: Final = Query("limit", "The most items in the answer; all by default.", integer(100, maximum=1000))
CONTINUE: Final = Query("continue", "`continue` of the page before; empty for the first page.", text("bjE"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one address.

    Attributes
    ----------
    summary
        What it does, as a short sentence.
    answer
        Schema of the answer; None for an answer without a body, or one that is no JSON.
    status
        Of the successful answer.
    body
        Schema of the request's body; None without one.
    problems
        Statuses of further problems, besides those that follow from the other attributes.
    media_type
        Of the answer.
    hub
        Whether the hub's own requests, with the service's token, are answered.
    cookie
        Whether a login cookie is accepted; where something changes, only with JupyterHub's XSRF token.
    is_page
        Whether callers who are not logged in are redirected to the hub's login.
    leads_to
        Address of the page to which people are led who may open that one, and not this one; empty for none.
    unready
        Whether the same answer is given with status 503 while the replica is not ready.
    precondition
        Whether `If-Match` is read.
    """

    summary: str
    access: Access
    answer: Schema | None = None
    status: int = 200
    body: Schema | None = None
    query: Sequence[Query] = ()
    problems: frozenset[int] = field(default_factory=frozenset)
    media_type: str = JSON
    hub: bool = False
    cookie: bool = True
    is_page: bool = False
    leads_to: str = ""
    unready: bool = False
    precondition: bool = False


def endpoint(summary: str, access: Access, **more: Any) -> Callable[[MethodT], MethodT]:
    """Declare the method of a handler as an `Endpoint`."""
    declared = Endpoint(summary, access, **{**more, "problems": frozenset(more.get("problems", ()))})

    def declare(method: MethodT) -> MethodT:
        setattr(method, _MARK, declared)
        return method

    return declare


def endpoints_of(handler: type) -> Mapping[str, Endpoint]:
    """The endpoints of a handler by method; ``HEAD`` is the ``GET`` without its body."""
    found: dict[str, Endpoint] = {}
    for method in METHODS:
        declared = getattr(getattr(handler, method.lower(), None), _MARK, None)
        if isinstance(declared, Endpoint):
            found[method] = declared
            if method == "GET":
                found["HEAD"] = declared
    return found
