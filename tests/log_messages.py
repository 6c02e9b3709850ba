"""What one logger has said: others, as that of asyncio, say more on a busy machine."""

from __future__ import annotations

import pytest

__all__ = ["log_messages"]


def log_messages(caplog: pytest.LogCaptureFixture, name: str = "dra_spawner") -> list[str]:
    """Messages of a logger and its children, oldest first."""
    return [each.getMessage() for each in caplog.records if f"{each.name}.".startswith(f"{name}.")]
