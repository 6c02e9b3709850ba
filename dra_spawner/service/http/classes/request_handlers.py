"""Handlers of requests for classes, which administrators answer."""

from __future__ import annotations

from typing import Any

from tornado.web import HTTPError

from dra_spawner.service.http.classes.class_body import read_class, read_sentence
from dra_spawner.service.http.classes.class_handlers import ClassesBase
from dra_spawner.service.http.classes.class_json import request_json, requests_json
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT_OR_ALL, Access, endpoint
from dra_spawner.service.http.requests.json_body import json_object
from dra_spawner.service.http.schemas.class_schemas import (
    CLASS,
    DECLINED,
    LONGEST_SENTENCE,
    NEW_CLASS,
    REQUEST,
    REQUEST_ANSWER,
    REQUESTS,
)


class _RequestsBase(ClassesBase):
    """Base of these handlers."""

    def request_found(self, name: str) -> dict[str, Any]:
        """A request as JSON, as it is now."""
        request = self.runner.classes.requests(self.announcer).get(name)
        found = (
            request_json(self.runner, name, request, self.announcer, self.controller.now())
            if request is not None
            else None
        )
        if found is None:
            raise HTTPError(404, "There is nothing of yours with this id.")
        return found


class ClassRequestsHandler(_RequestsBase):
    """``api/class-requests``: the own requests; an operator sees all."""

    @endpoint(
        "The caller's requests for classes; all of them for operators.",
        Access.ASK,
        answer=REQUESTS,
        query=(LIMIT_OR_ALL, CONTINUE),
    )
    async def get(self) -> None:
        self.require_known()
        items = requests_json(self.controller, self.runner, self.announcer)
        numbered = [(f"{number:08}", each) for number, each in enumerate(items)]
        found = self.page(numbered, lambda each: each[0])
        self.write_json({**found, "items": [each for _, each in found["items"]]})

    @endpoint("Ask for a class.", Access.ASK, body=NEW_CLASS, answer=REQUEST, status=201, problems=(409, 429))
    async def post(self) -> None:
        written, group = read_class(bytes(self.body))
        classes = self.classes
        self.count(self.context.class_rates.requests)
        with self.problems():
            name = await classes.ask(written, group, self.announcer)
        self.set_status(201)
        self.set_header("Location", f"{self.web.prefix}api/class-requests/{name}")
        self.write_version(self.request_found(name))


class ClassRequestHandler(_RequestsBase):
    """``api/class-requests/<id>``."""

    @endpoint("One of the caller's requests.", Access.ASK, answer=REQUEST, problems=(404,))
    async def get(self, name: str) -> None:
        self.require_known()
        self.write_json(self.request_found(name))

    @endpoint("Withdraw a request.", Access.ASK, status=204, problems=(404, 409, 429))
    async def delete(self, name: str) -> None:
        self.require_placeholders()
        self.count(self.context.class_rates.requests)
        with self.problems():
            await self.runner.classes.withdraw(name, self.announcer)
        self.set_status(204)


class ApprovalHandler(_RequestsBase):
    """``POST api/class-requests/<id>/approval``: the request becomes a class of the person who asked."""

    @endpoint(
        "Approve a request: it becomes a class of the person who asked.",
        Access.OPERATE,
        body=REQUEST_ANSWER,
        answer=CLASS,
        problems=(404, 409),
    )
    async def post(self, name: str) -> None:
        body = json_object(bytes(self.body), ("raise_max",))
        raises_max = body.get("raise_max", False)
        if not isinstance(raises_max, bool):
            raise HTTPError(400, "raise_max: allowed: true or false.")
        with self.problems():
            await self.classes.approve(name, self.announcer, raises_max=raises_max)
            if raises_max:
                self.runner.class_rehearsals.renew(name)
        self.write_json(self.found(name))


class RefusalHandler(_RequestsBase):
    """``POST api/class-requests/<id>/refusal``: the person who asked reads the sentence."""

    @endpoint("Decline a request with a sentence.", Access.OPERATE, body=DECLINED, answer=REQUEST, problems=(404, 409))
    async def post(self, name: str) -> None:
        body = json_object(bytes(self.body), ("because",))
        because = read_sentence(body, "because", LONGEST_SENTENCE)
        self.require_placeholders()
        with self.problems():
            await self.runner.classes.decline(name, because, self.announcer)
        self.write_json(self.request_found(name))
