"""The polling helper itself."""

import pytest

from tests.polling import eventually, eventually_sync


async def test_the_failure_names_the_awaited_and_the_last_state():
    with pytest.raises(AssertionError, match=r"^not within 0.05 s: the pod is gone; last: \[\]$"):
        await eventually(list, "the pod is gone", 0.05)
    with pytest.raises(AssertionError, match=r"^not within 0.05 s: the pod is gone; last: Pending$"):
        eventually_sync(lambda: False, "the pod is gone", 0.05, shows=lambda: "Pending")
    with pytest.raises(AssertionError, match=r"x{5000} …$"):
        eventually_sync(lambda: False, "something", 0, shows=lambda: "x" * 6000)


async def test_the_check_runs_once_more_after_the_deadline():
    """On a busy machine the time may be over before the second look."""
    answers = iter([False, True])
    assert await eventually(lambda: next(answers), "a true answer", 0.001, pause_seconds=0.01)
    with pytest.raises(StopIteration):
        eventually_sync(iter([]).__next__, "nothing hides what a check raises")
