"""Servers with devices that nobody uses: JupyterHub knows when a server was active last. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dra_spawner import names
from dra_spawner.profiles.compiler.extended_resources import of_pod
from dra_spawner.spawner.progress.durations import duration_text


def idle_seconds(last_activity: datetime | None, started: datetime | None, now: datetime) -> float:
    """Seconds since a server was active, or started; 0 if neither is known.

    Parameters
    ----------
    last_activity, started
        In UTC without a zone, as in JupyterHub's database.
    """
    latest = max((each for each in (last_activity, started) if each is not None), default=now)
    return (now - latest).total_seconds()


def has_devices(pod: Mapping[str, Any]) -> bool:
    """Whether a pod of the API has claims of devices, or resources of a device plugin such as ``nvidia.com/gpu``."""
    return bool((pod.get("spec") or {}).get("resourceClaims")) or bool(of_pod(pod).names)


def has_notice(pod: Mapping[str, Any]) -> bool:
    """Whether the service has written to a pod of the API that its server is idle."""
    return names.IDLE_NOTICE in ((pod.get("metadata") or {}).get("annotations") or {})


def idle_sentence(limit_seconds: int) -> str:
    """Return why an idle server was stopped, for its user."""
    return f"Nobody used it for {duration_text(limit_seconds)}, so its devices are free for others now."
