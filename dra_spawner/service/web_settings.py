"""Settings of the handlers."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from jupyterhub.services.auth import HubOAuth

from dra_spawner import names


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Prefix, hub and scopes of the service.

    Attributes
    ----------
    prefix
        Path of all addresses, with a slash at both ends.
    hub_auth
        The hub's OAuth client; None without a hub: then every protected address answers 503.
    ask_scopes, announce_scopes
        Any of the first scopes grants asking for a class, any of the second announcing one.
    read_scopes, operate_scopes, admin_scopes
        Any of the first scopes grants reading, any of the second also operating, any of the third all.
    metrics_scopes
        Any of these grants reading the metrics.
    authenticate_metrics
        Whether the metrics need one of these scopes.
    own_token
        The service's own API token, which the hub also knows. Empty without a hub.
    """

    prefix: str
    hub_auth: HubOAuth | None = None
    ask_scopes: frozenset[str] = frozenset({f"access:services!service={names.HUB_SERVICE}"})
    announce_scopes: frozenset[str] = frozenset({names.ANNOUNCE_SCOPE})
    read_scopes: frozenset[str] = frozenset({names.READ_SCOPE})
    operate_scopes: frozenset[str] = frozenset({names.OPERATE_SCOPE})
    admin_scopes: frozenset[str] = frozenset({names.ADMIN_SCOPE})
    metrics_scopes: frozenset[str] = frozenset({"read:metrics"})
    authenticate_metrics: bool = True
    own_token: str = field(default="", repr=False)

    def is_own_token(self, token: str) -> bool:
        """Whether a token is the service's own, compared in constant time."""
        return bool(self.own_token) and hmac.compare_digest(token.encode(), self.own_token.encode())

    def url(self, path: str = "") -> str:
        """Address of a path below the prefix, for links."""
        return self.prefix + path


def cookie_secret(api_token: str) -> bytes:
    """Key of login cookies. It is derived from the token, so it is the same after restarts and on all replicas."""
    if not api_token:
        return secrets.token_bytes(32)
    return hmac.new(api_token.encode(), b"dra-spawner service cookies", hashlib.sha256).digest()
