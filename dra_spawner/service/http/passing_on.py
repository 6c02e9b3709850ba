"""What only the leader knows: a standby that is asked for it asks the leader, and says so if that does not answer."""

from __future__ import annotations

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from asyncio import Future
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse
from tornado.web import HTTPError

from dra_spawner.service.context import Role, ServiceContext
from dra_spawner.service.http.authentication import ApiHandler
from dra_spawner.service.http.replica_signature import ANSWER_HEADER, SCHEME

__all__ = ["LeadersHandler", "ReplicaHandler", "ask_leader", "leaders_answers", "why_not_the_leaders"]

log = logging.getLogger(__name__)

#: People wait for it.
_SECONDS: Final = 2.0
_MOST_BYTES: Final = 2**25
#: What tornado's client makes of an answer that does not come.
_NO_ANSWER: Final = 599


class ReplicaHandler(ApiHandler):
    """Also answers another replica, which has itself found out whether who asks may know."""

    _signed = ""
    """What another replica signed the question with, if it passed it on."""

    @property
    def is_passed_on(self) -> bool:
        """Whether another replica asks: what was passed on is not passed on again."""
        return bool(self._signed)

    def is_signed(self, body: bytes) -> bool:
        """Whether the replica that asks has signed this body."""
        return self.context.signatures.is_body(self._signed, body)

    async def prepare(self) -> None:
        kind, _, token = self.request.headers.get("Authorization", "").partition(" ")
        if kind == SCHEME:
            self._accept_replica(token.strip())
        else:
            await super().prepare()

    def _accept_replica(self, signed: str) -> None:
        request = self.request
        own_address = self.context.replicas.own_authority
        if not self.context.signatures.accept_question(signed, request.method or "", own_address, request.uri or ""):
            raise HTTPError(
                401, "No replica of this service has just signed this for this one, or it was answered already."
            )
        self._signed = signed

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> Future[None]:
        if self._signed and isinstance(chunk, str):
            signature = self.context.signatures.sign_answer(self._signed, self.get_status(), chunk.encode())
            self.set_header(ANSWER_HEADER, signature)
        return super().finish(chunk)


class LeadersHandler(ReplicaHandler, ABC):
    """Answers a ``GET`` as the leader does, whichever replica is asked.

    Where the leader does not answer, a standby says what it knows itself, and in ``incomplete_because`` that this may
    not be all.
    """

    address: ClassVar[str]
    """Below the prefix."""

    @abstractmethod
    async def own_answer(self) -> dict[str, Any]:
        """What this replica knows."""

    async def get(self) -> None:
        context = self.context
        if context.role is not Role.LEADER:
            if self.is_passed_on:
                raise HTTPError(503, "This replica does not lead.")
            query = f"?{self.request.query}" if self.request.query else ""
            answer = await _get(context, f"{self.address}{query}")
            if answer is not None:
                self.set_status(answer.code)
                self.set_header("Content-Type", "application/json")
                self.finish(answer.body)
                return
        own = await self.own_answer()
        self.write_json({**own, "incomplete_because": why_not_the_leaders(context)})


def why_not_the_leaders(context: ServiceContext) -> str:
    """Why what a replica says is not what the leader knows, as a sentence; empty if it leads.

    To be told where the leader was asked in vain.
    """
    match context.role:
        case Role.LEADER:
            return ""
        case Role.UNKNOWN:
            return "This replica does not lead, and it is not known which one does."
        case Role.STANDBY:
            return "This replica does not lead, and the leader does not answer."


async def leaders_answers(context: ServiceContext, *addresses: str) -> tuple[dict[str, Any], ...] | None:
    """What the leader answers at each of some addresses below the prefix; None if it leaves out one of them."""
    answers = await asyncio.gather(*(_get(context, address) for address in addresses))
    found = [json.loads(each.body) for each in answers if each is not None and each.code == 200]
    return tuple(found) if len(found) == len(addresses) else None


async def _get(context: ServiceContext, address: str) -> HTTPResponse | None:
    if context.role is not Role.STANDBY:
        return None
    answer = await ask_leader(context, "GET", address, seconds=_SECONDS, most_bytes=_MOST_BYTES)
    # It may have ceased to lead a moment ago.
    return answer if answer is not None and answer.code < 500 else None


async def ask_leader(
    context: ServiceContext, method: str, address: str, body: bytes | None = None, *, seconds: float, most_bytes: int
) -> HTTPResponse | None:
    """The leader's answer, which it has signed; None if there is none.

    Parameters
    ----------
    address
        Below the prefix, with the query.
    seconds
        It is waited for so long at most.
    most_bytes
        Longer answers are none.
    """
    signatures = context.signatures
    leader_url = context.replicas.leader_url
    # Only replicas that a hub knows can sign.
    if not leader_url or not context.web.own_token:
        return None
    url = f"{leader_url}{address}"
    parts = urlsplit(url)
    client = AsyncHTTPClient(force_instance=True, max_body_size=most_bytes)
    try:
        uri = f"{parts.path}?{parts.query}" if parts.query else parts.path
        signed = signatures.sign_question(method, parts.netloc, uri, body or b"")
        request = HTTPRequest(
            url,
            method=method,
            headers={"Authorization": f"{SCHEME} {signed}"},
            body=body,
            connect_timeout=seconds,
            request_timeout=seconds,
            follow_redirects=False,
            decompress_response=False,
        )
        answer = await client.fetch(request, raise_error=False)
    except (OSError, ValueError, HTTPClientError) as error:
        log.info("The leader does not answer: url=%s error=%s", url, error)
        return None
    finally:
        client.close()
    if answer.code == _NO_ANSWER:
        log.info("The leader does not answer: url=%s error=%s", url, answer.error)
    elif signatures.is_answer(answer.headers.get(ANSWER_HEADER, ""), signed, answer.code, answer.body or b""):
        return answer
    else:
        log.warning(
            "Not the leader's answer: url=%s status=%d; have all replicas the same token, and the right time?",
            url,
            answer.code,
        )
    return None
