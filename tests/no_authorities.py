"""No public authority is trusted in tests, which send requests to this machine only."""

from __future__ import annotations

import ssl

__all__ = ["trust_no_authorities"]


def trust_no_authorities() -> None:
    """Let this process read no certificates of public authorities.

    kubernetes-asyncio reads all of them for every client and every watch, 20 ms of processor time each. Authorities
    that a test itself provides are read as usual; programs that tests start read all.
    """

    def load_none(self: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
        """Instead of `ssl.SSLContext.load_default_certs`."""

    ssl.SSLContext.load_default_certs = load_none  # type: ignore[method-assign]
