"""How many random examples a test takes: all in the tier *long*, and a tenth of them, always the same, elsewhere."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ["are_all_wanted", "choose", "example_count"]

# How long one example takes says nothing on a machine that does other things, too.
settings.register_profile("tenth", deadline=None, derandomize=True, max_examples=10, database=None)
settings.register_profile("all", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
_all_of_them = False


def choose(*, all_of_them: bool) -> None:
    """Say what this run takes; before the first test is imported."""
    global _all_of_them
    _all_of_them = all_of_them
    settings.load_profile("all" if all_of_them else "tenth")


def are_all_wanted() -> bool:
    """Return whether this run takes all examples."""
    return _all_of_them


def example_count(number: int) -> int:
    """Return how many of a test's examples this run takes."""
    return number if _all_of_them else max(1, number // 10)
