"""The hub that runs in this process, and this project's addresses in its web application."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from jupyterhub.utils import url_path_join
from tornado.web import Application

if TYPE_CHECKING:
    from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler

#: Addresses that are served, as tests run several hubs in a process.
_serving: WeakKeyDictionary[Application, set[str]] = WeakKeyDictionary()


def running_hub() -> Any | None:
    """The hub that runs in this process; None without one.

    The hub's module takes seconds to import, which commands such as ``dra-spawner check`` do without.
    """
    module = sys.modules.get("jupyterhub.app")
    hub = getattr(module, "JupyterHub", None)  # None while the module is being imported
    return hub.instance() if hub is not None and hub.initialized() else None


def serve_in_hub(address: str, handler: Callable[[], type[QuietHandler]]) -> bool:
    """Add a handler to the hub that runs in this process, once.

    Parameters
    ----------
    address
        Address below the hub's prefix.
    handler
        Returns the handler; called once in a hub.

    Returns
    -------
    bool
        Whether it is served: a hub that starts has no web application yet.
    """
    hub = running_hub()
    application = getattr(hub, "tornado_application", None)
    if hub is None or application is None:
        return False
    served = _serving.setdefault(application, set())
    if address not in served:
        application.add_handlers(".*", [(url_path_join(hub.hub_prefix, address), handler())])
        served.add(address)
    return True
