"""What pages and answers are made of, before anything is known."""

from __future__ import annotations

import pytest

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.web_settings import WebSettings


@pytest.fixture
def context() -> ServiceContext:
    return ServiceContext(WebSettings("/"), DecisionLog(), max_staleness_seconds=60)
