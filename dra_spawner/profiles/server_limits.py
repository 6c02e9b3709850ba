"""Limits of a server with devices that a profile may set: which values they may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dra_spawner.profiles.syntax.problems import Problem, shown

#: Traits of the spawner of which a profile list's own check says what they allow.
LIMITS: Final = frozenset(("devices_idle_timeout", "devices_lifetime", "devices_lifetime_notice", "take_instead"))
#: JupyterHub asks its proxy, and servers report, every five minutes; a browser's connection counts each half a minute.
SHORTEST_IDLE: Final = 360
#: Seconds that the maximum lifetime of a server may have: in the shortest one, a user must be able to do something.
SHORTEST_LIFETIME: Final = 600
LONGEST_LIFETIME: Final = 366 * 86_400
#: Seconds before the end of a server in which its user is warned, at least: panel and hub look each half a minute.
SHORTEST_NOTICE: Final = 120


def allowed_instead(name: str, value: object) -> str:
    """What a trait of the spawner allows in place of a value; empty if it takes the value, or has no limit."""
    # As traitlets, which takes 600.0 for 600.
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    seconds = value if isinstance(value, int | float) and is_whole else -1
    match name:
        case "devices_idle_timeout" if seconds != 0 and seconds < SHORTEST_IDLE:
            return f"0, or at least {SHORTEST_IDLE} seconds, as JupyterHub learns of activity every few minutes"
        case "devices_lifetime" if seconds != 0 and not SHORTEST_LIFETIME <= seconds <= LONGEST_LIFETIME:
            return f"0, or from {SHORTEST_LIFETIME} to {LONGEST_LIFETIME} seconds (366 days)"
        case "devices_lifetime_notice" if seconds < SHORTEST_NOTICE:
            return f"at least {SHORTEST_NOTICE} seconds"
        case "take_instead" if value not in (True, False):
            return "true or false"
    return ""


def limit_problems(override: Mapping[Any, Any], path: str) -> list[Problem]:
    """What is wrong in the limits of a ``kubespawner_override``; KubeSpawner calls functions at each start."""
    found = ((name, value, allowed_instead(str(name), value)) for name, value in override.items())
    return [
        Problem(f"{path}.{name}".removeprefix("."), shown(value), allowed)
        for name, value, allowed in found
        if allowed and not callable(value)
    ]
