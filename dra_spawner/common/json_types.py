"""Types of JSON values."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""An object as the Kubernetes API and profiles have it."""
