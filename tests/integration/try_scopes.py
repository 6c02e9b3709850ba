"""Scopes of the hub's service by which `helm test` tries choices."""

from __future__ import annotations

from typing import Final

__all__ = ["SCOPES"]

SCOPES: Final = (
    "admin:users!user={0}",
    "admin:servers!user={0}",
    "access:servers!user={0}",
    "access:services!service=dra-spawner",
    "custom:dra-spawner:read",
)
"""As the chart gives them (tests/chart/test_helm_test.py compares them); ``{0}`` stands for the user."""
