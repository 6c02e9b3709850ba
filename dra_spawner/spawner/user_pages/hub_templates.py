"""Additions to JupyterHub's pages, which need no configuration.

Each template here extends the hub's template of the same name, be it JupyterHub's own or the administrator's
(``JupyterHub.template_paths``), and adds to a block of it. Where a template of the administrator lacks the block,
nothing is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from logging import Logger
from pathlib import Path
from typing import Any, Final

from jinja2 import BaseLoader, ChoiceLoader, FileSystemLoader, PrefixLoader

from dra_spawner.spawner.server_context import parts_of
from dra_spawner.spawner.user_pages.server_notes import home_notes, note_of_server, server_notes

#: Prefix by which a template here names the hub's own.
_HUBS: Final = "dra-spawner-hub"
#: The hub's environments in the settings of its web application.
_ENVIRONMENTS: Final = ("jinja2_env", "jinja2_env_sync")


async def _class_notes(user: Any) -> Sequence[Any]:
    """What is to be said of a user's classes; Jinja awaits it."""
    from dra_spawner.spawner.user_pages.class_notes import class_notes  # when the first home page is shown

    return await class_notes(user)


def _no_class_notes(user: Any) -> Sequence[Any]:
    """Nothing: a page that is rendered at once cannot ask the service."""
    return ()


class _Extended(ChoiceLoader):
    """Loads the templates of this package before those of the hub."""

    def __init__(self, hubs: BaseLoader) -> None:
        own = FileSystemLoader(Path(__file__).with_name("templates"))
        super().__init__([own, PrefixLoader({_HUBS: hubs}), hubs])


def extend_templates(settings: Mapping[str, Any], log: Logger) -> None:
    """Add to the pages of a hub. Idempotent.

    Parameters
    ----------
    settings
        Of the hub's web application; without templates while the hub starts.
    """
    for name in _ENVIRONMENTS:
        environment = settings.get(name)
        loader = getattr(environment, "loader", None)
        if environment is None or not isinstance(loader, BaseLoader) or isinstance(loader, _Extended):
            continue
        environment.loader = _Extended(loader)
        environment.globals |= {
            "dra_spawner_notes": server_notes,
            "dra_spawner_home_notes": home_notes if environment.is_async else server_notes,
            "dra_spawner_note": note_of_server,
            "dra_spawner_has_tickets": has_tickets,
            "dra_spawner_classes": _class_notes if environment.is_async else _no_class_notes,
        }
        log.debug("JupyterHub's pages are extended: %s", name)


def has_tickets(user: Any) -> bool:
    """Whether a user's pages show the queue for devices (``DRASpawner.tickets``)."""
    spawner = getattr(user, "spawner", None)
    return parts_of(spawner) is not None and getattr(spawner, "tickets", False) is True
