"""What a new leader takes from a stored state."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.scale_ahead.controller.demand_learning import PastOfGroup, learned_demand
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.group_demand import GroupDemand
from dra_spawner.scale_ahead.demand.policies import ForecastDemand
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from tests.log_messages import log_messages

BEGIN = 29_000_000
SITUATION = GroupSituation(timedelta(minutes=10))


async def test_a_stored_state_without_sense_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """An infinite number would fail each later forecast, and be stored again."""
    lived = GroupDemand(BEGIN, DemandSettings(), ForecastDemand())
    lived.learn(((BEGIN + minute, 1, 0) for minute in range(60)), SITUATION)
    state = json.dumps(lived.state())
    infinite, none = (re.sub(r'"factor": [\d.]+', f'"factor": {each}', state) for each in ("1e999", "NaN"))
    wrong: list[Any] = ["[", "5", "[" * 100_000, b"\xff", 7, infinite, none]
    for each in [state, *wrong]:
        caplog.clear()
        past = PastOfGroup({BEGIN + minute: (1, 0) for minute in range(60)}, each, SITUATION, lambda minute: ())
        found = await learned_demand("gpu", past, BEGIN + 60, DemandSettings(), ForecastDemand())
        assert found is not None
        assert found.record.counts.end == BEGIN + 60, each
        warned = [each[:44] for each in log_messages(caplog)]
        assert warned == ([] if each is state else ["Scale-ahead learns gpu from launches alone: "]), each
