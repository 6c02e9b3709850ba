"""What the web side is told."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from jupyterhub.services.auth import HubOAuth

from dra_spawner import names

__all__ = ["WebSettings", "cookie_secret"]


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Of one service.

    Attributes
    ----------
    prefix
        Of all addresses, with a slash at both ends.
    hub_auth
        How to ask the hub who somebody is; None without a hub, and nobody is let in then.
    read_scopes, manage_scopes
        Who has one of these may look, or look and change things.
    metrics_scopes
        Who has one of these may read the metrics.
    authenticate_metrics
        Whether anybody needs to.
    own_token
        The service's own API token: who has it, besides the service, is the hub. Empty without a hub.
    """

    prefix: str
    hub_auth: HubOAuth | None = None
    read_scopes: frozenset[str] = frozenset({names.READ_SCOPE})
    manage_scopes: frozenset[str] = frozenset({names.MANAGE_SCOPE})
    metrics_scopes: frozenset[str] = frozenset({"read:metrics"})
    authenticate_metrics: bool = True
    own_token: str = field(default="", repr=False)

    def is_own_token(self, token: str) -> bool:
        """Whether a token is the service's own; how long that takes does not tell how much of it is right."""
        return bool(self.own_token) and hmac.compare_digest(token.encode(), self.own_token.encode())

    def url(self, path: str = "") -> str:
        """Address of something of this service, for links."""
        return self.prefix + path


def cookie_secret(api_token: str) -> bytes:
    """What login cookies are signed with: the same after a restart and on all replicas, as they have the same token."""
    if not api_token:
        return secrets.token_bytes(32)
    return hmac.new(api_token.encode(), b"dra-spawner service cookies", hashlib.sha256).digest()
