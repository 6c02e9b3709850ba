"""Adds this project's addresses to the hub's web application."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from jupyterhub.app import JupyterHub
from jupyterhub.handlers import BaseHandler
from jupyterhub.utils import url_path_join
from tornado.web import Application

__all__ = ["serve_in_hub"]

#: Addresses that are served, as tests run several hubs in a process.
_serving: WeakKeyDictionary[Application, set[str]] = WeakKeyDictionary()


def serve_in_hub(address: str, handler: type[BaseHandler]) -> bool:
    """Add a handler to the hub that runs in this process, once.

    Parameters
    ----------
    address
        Address below the hub's prefix.

    Returns
    -------
    bool
        Whether it is served: a hub that starts has no web application yet.
    """
    if not JupyterHub.initialized():
        return False
    hub = JupyterHub.instance()
    application = getattr(hub, "tornado_application", None)
    if application is None:
        return False
    served = _serving.setdefault(application, set())
    if address not in served:
        application.add_handlers(".*", [(url_path_join(hub.hub_prefix, address), handler)])
        served.add(address)
    return True
