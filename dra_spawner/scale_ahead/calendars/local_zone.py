"""The time zone of the machine, which counts where no other one is set."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

__all__ = ["local_zone"]


def local_zone(local_time: Path = Path("/etc/localtime")) -> tzinfo:
    """The zone that the variable TZ names, else the one of the system; UTC if neither names one."""
    named = os.environ.get("TZ", "").removeprefix(":")
    _, _, of_system = str(local_time.resolve()).partition("/zoneinfo/")
    name = named or of_system
    if not name or name in ("UTC", "Etc/UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no name of a zone, such as a rule of POSIX
        return UTC
