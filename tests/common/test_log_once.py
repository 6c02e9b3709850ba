"""Problems that last are logged once, and again after they were gone."""

from __future__ import annotations

import logging

import pytest

from dra_spawner.common.log_once import LogOnce
from tests.log_messages import log_messages


def test_a_problem_is_logged_when_it_appears(caplog: pytest.LogCaptureFixture) -> None:
    log_once = LogOnce(logging.getLogger("once"), "Here: %s")
    for problems in (["b", "a"], ["a", "b"], ["b", "c"], [], {"b": "b again"}, {"b": "b in other words"}):
        log_once.present(problems)
    assert log_messages(caplog, "once") == ["Here: a", "Here: b", "Here: c", "Here: b again"]
