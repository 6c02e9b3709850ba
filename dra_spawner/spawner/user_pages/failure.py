"""What users can do after a failed start, as HTML for JupyterHub's pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from typing import Final
from urllib.parse import urlencode

_NOTHING: Final[Mapping[str, Mapping[str, str]]] = {}


def spawn_link(spawn_url: str, fields: Mapping[str, str]) -> str:
    """The address at which JupyterHub starts a server with these fields of the form."""
    return f"{spawn_url}?{urlencode({_prefix() + name: value for name, value in fields.items()})}"


@cache
def _prefix() -> str:
    """The prefix of options in a link, which JupyterHub 6 prefers."""
    # Imported here: see `dra_spawner.spawner.hub_addresses`.
    from jupyterhub.handlers.pages import SpawnHandler

    return "opt-" if hasattr(SpawnHandler, "_get_user_options") else ""


def failure_html(
    sentence: str, spawn_url: str, offers: Mapping[str, Mapping[str, str]] = _NOTHING, *, has_choices: bool = True
) -> str:
    """Return what happened and what the user can do: choose again, or start what is free now.

    Parameters
    ----------
    spawn_url
        Of the page with the form.
    offers
        Fields of the form by the name of a choice that would start now.
    has_choices
        Whether the hub has a form.
    """
    actions = [_button(spawn_url, "Back to the choices" if has_choices else "Try again", "btn-primary")]
    actions += [
        _button(spawn_link(spawn_url, fields), f"Start “{words}”: free now", "btn-secondary dra-offer")
        for words, fields in offers.items()
    ]
    return f'{escape(sentence)}<span class="dra-actions d-block mt-3">{" ".join(actions)}</span>'


def _button(address: str, words: str, classes: str) -> str:
    return f'<a role="button" class="btn {classes} m-1" href="{escape(address)}">{escape(words)}</a>'
