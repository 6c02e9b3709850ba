"""Passwords in addresses of settings that a ConfigMap or a Deployment shows. The chart has the same rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_IN_ADDRESS: Final = re.compile(r'://[^/:@"\s]*:[^/@"\s]+@')
#: The address of a database has a port, and no other colon: what follows a colon may have slashes.
_IN_DATABASE: Final = re.compile(r"://[^:/]*:[^@]*@|[?&]password=")
_HISTORY: Final = "history"
#: What the chart writes from its values.
_PLAIN_FILE: Final = "config.json"


def plain_passwords(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name of each setting with an address that has a password, and what to do, as the end of a sentence.

    Parameters
    ----------
    settings
        Settings of the service, as the values of the chart have them.
    """
    history = settings.get(_HISTORY)
    url = history.get("url") if isinstance(history, Mapping) else ""
    if isinstance(url, str) and _IN_DATABASE.search(url):
        yield (
            f"{_HISTORY}.url",
            "has a password, and would be in a ConfigMap; allowed: without it, and history.passwordSecret names the "
            "Secret that has it",
        )
    for name, value in settings.items():
        if name != _HISTORY and _IN_ADDRESS.search(json.dumps(value, default=str, ensure_ascii=False)):
            yield (
                str(name),
                "has an address with a password, and would be in a ConfigMap; allowed: the address in a Secret that "
                f"service.extraEnv names, and c.DRASpawnerService.{name} set from this variable in service.extraConfig",
            )


def passwords_beside(config_file: Path) -> Iterator[str]:
    """Sentences about passwords in the file that the chart writes beside a configuration file of the service."""
    try:
        found = json.loads((config_file.parent / _PLAIN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return  # without the chart there is none, and what cannot be read is the configuration file's matter
    for name, problem in plain_passwords(found) if isinstance(found, Mapping) else ():
        yield f"{_PLAIN_FILE}: {name} {problem}."
