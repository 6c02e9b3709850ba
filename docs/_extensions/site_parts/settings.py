"""The settings of spawner and service, from their traits."""

from __future__ import annotations

import json
from typing import Any, Final

from kubespawner import KubeSpawner
from traitlets import Enum, TraitType
from traitlets.config import Configurable

from dra_spawner.service.application import DRASpawnerService
from dra_spawner.spawner import DRASpawner

from .markdown import paragraphs

__all__ = ["service_settings", "spawner_settings"]

_WORDS: Final = {
    "Any": "any value",
    "Bool": "yes or no",
    "Callable": "function",
    "Dict": "mapping",
    "Float": "number",
    "Int": "whole number",
    "Integer": "whole number",
    "List": "list",
    "Set": "set",
    "Unicode": "text",
    "Union": "one of several types",
}


def spawner_settings() -> str:
    """The settings that DRASpawner has besides KubeSpawner's."""
    return _settings(DRASpawner, without=KubeSpawner)


def service_settings() -> str:
    """The settings of the service."""
    return _settings(DRASpawnerService, without=Configurable)


def _settings(owner: type[Configurable], without: type[Configurable]) -> str:
    inherited = without.class_traits(config=True)
    traits = owner.class_traits(config=True)
    own = {name: trait for name, trait in traits.items() if inherited.get(name) is not trait}
    return "\n".join(_section(owner.__name__, name, own[name]) for name in sorted(own))


def _section(owner: str, name: str, trait: TraitType[Any, Any]) -> str:
    default = trait.default_value_repr()
    if isinstance(trait, Enum):
        kind = "one of " + ", ".join(f"`{value!r}`" for value in trait.values or ())
    else:
        kind = _kind(trait)
    shown = f"default `{default}`" if "\n" not in default and len(default) < 100 else ""
    line = "; ".join(filter(None, (f"`c.{owner}.{name}`: {kind}", shown)))
    block = "" if shown else f"Default:\n\n```python\n{_laid_out(default)}\n```\n"
    return f"## {name}\n\n{line}\n\n{paragraphs(trait.help or '')}\n{block}"


def _laid_out(default: str) -> str:
    try:
        return json.dumps(json.loads(default.replace("'", '"')), indent=2)
    except ValueError:
        return default


def _kind(trait: TraitType[Any, Any]) -> str:
    name = next((each.__name__ for each in type(trait).__mro__ if each.__name__ in _WORDS), type(trait).__name__)
    return _WORDS.get(name, name) + (", or `None`" if trait.allow_none else "")
