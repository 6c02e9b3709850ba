"""Unknown settings, mostly typing errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final

from traitlets.config import Config, Configurable

#: Similarity from which a section counts as a typing error: the hub's sections may be in the same file.
_MIN_SIMILARITY: Final = 0.8


def unknown_settings(config: Config, classes: Sequence[type[Configurable]]) -> tuple[str, ...]:
    """Unknown settings of a configuration, each as a sentence with a suggestion.

    Parameters
    ----------
    classes
        Classes that read the configuration, the main class first. Other sections are ignored unless their names are
        similar.
    """
    sections = _sections(classes)
    main = classes[0].__name__
    found: list[str] = []
    for section, values in sorted(config.items()):
        if not isinstance(values, Config):
            found.append(_sentence(f"--{section}", section, sections[main], f"--{main}."))
        elif section in sections:
            found += [
                _sentence(f"{section}.{name}", name, sections[section], f"{section}.")
                for name, value in sorted(values.items())
                if name not in sections[section] and not isinstance(value, Config)
            ]
        elif meant := get_close_matches(section, sections, 1, _MIN_SIMILARITY):
            found.append(f"{section} has no settings. Did you mean {meant[0]}?")
    return tuple(found)


def _sections(classes: Iterable[type[Configurable]]) -> dict[str, set[str]]:
    """Names of settings by section: a class also reads the sections of its parents."""
    found: dict[str, set[str]] = {}
    for cls in classes:
        for parent in cls.mro():
            if issubclass(parent, Configurable):
                found.setdefault(parent.__name__, set()).update(_settings(cls))
    return found


def _settings(cls: type[Configurable]) -> dict[str, Any]:
    names: dict[str, Any] = cls.class_traits(config=True)
    return names


def _sentence(path: str, name: str, known: Iterable[str], before: str) -> str:
    meant = get_close_matches(name, sorted(known), 1)
    return f"{path} is not a setting." + (f" Did you mean {before}{meant[0]}?" if meant else "")
