"""Settings of the service about authentication by the hub."""

from __future__ import annotations

import os
from typing import Any

from traitlets import Bool, HasTraits, Set, Unicode, default

from dra_spawner import names
from dra_spawner.service.http.requests.hub_login import BoundedHubOAuth
from dra_spawner.service.web_settings import WebSettings


class HubTraits(HasTraits):
    """Mixed into the application, which has `prefix`."""

    authenticate_prometheus = Bool(
        True,
        help="""
        Whether `metrics` needs a token with one of `metrics_scopes`, like JupyterHub's setting of this name.
        Metrics name device classes and kinds of nodes, but no users.
        """,
    ).tag(config=True)
    ask_scopes = Set(
        Unicode(),
        help="""
        JupyterHub scopes, any of which grants asking for a class on the page `classes`; by default
        `access:services!service=<name>`, without which a user cannot open the service.
        """,
    ).tag(config=True)

    @default("ask_scopes")
    def _default_ask_scopes(self) -> set[str]:
        return {f"access:services!service={_service_name()}"}

    announce_scopes = Set(
        Unicode(),
        default_value={names.ANNOUNCE_SCOPE},
        help="JupyterHub scopes, any of which grants announcing classes, within `class_limits`.",
    ).tag(config=True)
    read_scopes = Set(
        Unicode(),
        default_value={names.READ_SCOPE, "admin-ui"},
        help="JupyterHub scopes, any of which grants reading; administrators of the hub have `admin-ui`.",
    ).tag(config=True)
    operate_scopes = Set(
        Unicode(),
        default_value={names.OPERATE_SCOPE},
        help="JupyterHub scopes, any of which grants reading and operating, as docs/reference/api.md lists it.",
    ).tag(config=True)
    admin_scopes = Set(
        Unicode(),
        default_value={names.ADMIN_SCOPE, "admin:servers"},
        help="""
        JupyterHub scopes, any of which grants everything; tokens of the hub's administrators have `admin:servers`.
        """,
    ).tag(config=True)
    metrics_scopes = Set(
        Unicode(),
        default_value={"read:metrics"},
        help="JupyterHub scopes, any of which grants reading `metrics`, besides those of `read_scopes`.",
    ).tag(config=True)

    def web_settings(self, token: str) -> WebSettings:
        """Settings of the handlers.

        Parameters
        ----------
        token
            The service's own token; empty without a hub.
        """
        return WebSettings(
            prefix=str(self.prefix),
            hub_auth=self._hub_auth() if token else None,
            ask_scopes=frozenset(self.ask_scopes),
            announce_scopes=frozenset(self.announce_scopes),
            read_scopes=frozenset(self.read_scopes),
            operate_scopes=frozenset(self.operate_scopes),
            admin_scopes=frozenset(self.admin_scopes),
            metrics_scopes=frozenset(self.metrics_scopes),
            authenticate_metrics=self.authenticate_prometheus,
            own_token=token,
        )

    def _hub_auth(self) -> BoundedHubOAuth:
        """The hub's OAuth client; by default its id follows from the service's name."""
        name = _service_name()
        more: dict[str, Any] = {}
        if not os.environ.get("JUPYTERHUB_CLIENT_ID"):
            more["oauth_client_id"] = f"service-{name}"
        if not os.environ.get("JUPYTERHUB_SERVICE_PREFIX"):
            more["base_url"] = self.prefix
        return BoundedHubOAuth(parent=self, **more)


def _service_name() -> str:
    """Name of the service at the hub."""
    return os.environ.get("JUPYTERHUB_SERVICE_NAME") or names.HUB_SERVICE
