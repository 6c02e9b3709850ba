"""What replicas of the service tell each other: signed with what all of them know, which is never sent.

Where the leader answers stands in a Lease, and others may be able to write that. So a question is signed for the one
address that it is sent to, and good nowhere else; and an answer that the leader did not give is none.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Final

__all__ = ["ANSWER_HEADER", "SCHEME", "ReplicaSignatures"]

#: Of the header ``Authorization``.
SCHEME: Final = "DRA-Spawner-Replica"
#: With the signature of an answer.
ANSWER_HEADER: Final = "X-DRA-Spawner-Answer"
#: A question is good for so long, by the clocks of both.
_VALID_SECONDS: Final = 15.0
#: Questions remembered, so that none is answered twice. More in their time than this are not answered.
_MOST_REMEMBERED: Final = 20_000
_PURPOSE: Final = b"dra-spawner service replicas"


class ReplicaSignatures:
    """Signs and checks questions and answers.

    Parameters
    ----------
    token
        The service's own, which all replicas have; empty if there is none: then nothing is signed and nothing is good.
    now
        Seconds since 1970.
    """

    def __init__(self, token: str, *, now: Callable[[], float] = time.time) -> None:
        self._key = hmac.new(token.encode(), _PURPOSE, hashlib.sha256).digest() if token else b""
        self._now = now
        self._answered: dict[str, float] = {}

    def sign_question(self, method: str, authority: str, path: str, body: bytes) -> str:
        """What goes with a question: when it was asked, a number that is used once, and the signature of all.

        Parameters
        ----------
        authority
            Host and port that it is sent to.
        path
            With the query.

        Raises
        ------
        ValueError
            Without a token.
        """
        if not self._key:
            raise ValueError("without a token nothing can be signed")
        moment, nonce, digest = str(int(self._now())), secrets.token_hex(16), _digest(body)
        return f"{moment}.{nonce}.{digest}.{self._question(moment, nonce, method, authority, path, digest)}"

    def accept_question(self, signed: str, method: str, authority: str, path: str) -> bool:
        """Whether a replica asked this here, just now, and for the first time. How long that takes tells nothing.

        Parameters
        ----------
        authority
            Host and port by which this replica is known to the others; empty if it is not.
        """
        moment, nonce, digest, signature = (signed.split(".") + [""] * 4)[:4]
        expected = self._question(moment, nonce, method, authority, path, digest)
        if not self._key or not authority or not hmac.compare_digest(signature.encode(), expected.encode()):
            return False
        # Nobody but a replica has written this: the time is a number.
        now = self._now()
        if abs(now - int(moment)) > _VALID_SECONDS:
            return False
        self._answered = {each: until for each, until in self._answered.items() if until >= now}
        if signature in self._answered or len(self._answered) >= _MOST_REMEMBERED:
            return False
        # A clock ahead of this one may have signed it.
        self._answered[signature] = now + 2 * _VALID_SECONDS
        return True

    @staticmethod
    def is_body(signed: str, body: bytes) -> bool:
        """Whether a question that was accepted came with this body, which is read after that."""
        return hmac.compare_digest(signed.split(".")[2].encode(), _digest(body).encode())

    def sign_answer(self, signed: str, status: int, body: bytes) -> str:
        """What goes with the answer to a signed question: good for that one only."""
        return self._mac("answer", signed, str(status), _digest(body))

    def is_answer(self, signature: str, signed: str, status: int, body: bytes) -> bool:
        """Whether a replica gave this answer to a question."""
        expected = self.sign_answer(signed, status, body)
        return bool(self._key) and hmac.compare_digest(signature.encode(), expected.encode())

    def _question(self, moment: str, nonce: str, method: str, authority: str, path: str, digest: str) -> str:
        return self._mac("question", moment, nonce, method, authority, path, digest)

    def _mac(self, *parts: str) -> str:
        # No part has a line's end but by malice, and then the signature is of something that nobody asks.
        return hmac.new(self._key, "\n".join(parts).encode(), hashlib.sha256).hexdigest()


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
