"""Opening the gate of a pod that takes over a place: the service does it, and the hub where the service does not."""

from __future__ import annotations

from typing import Any

from dra_spawner.headroom import labels

__all__ = ["opening_of_gate"]


def opening_of_gate(uid: str) -> dict[str, Any]:
    """A strategic merge patch that takes the gate away, wherever it is among others, and leaves those alone.

    A webhook may have put one before it. Where the gate is open already, it changes nothing.

    Parameters
    ----------
    uid
        Of the pod: the API server refuses it if another one has its name by now.
    """
    gate = {"$patch": "delete", "name": labels.HAND_OVER_GATE}
    return {"metadata": {"uid": uid}, "spec": {"schedulingGates": [gate]}}
