"""A class that no entry announces, for the first time, with the forecast, the planner and the rules of a start."""

from __future__ import annotations

from tests.bench.unannounced_class import HALF_A_CPU, Setting, UnannouncedClass


def test_what_is_free_beside_the_gpus_halves_the_users_who_wait() -> None:
    """Eight CPUs are free on each node, for servers without a GPU: at most two of five users wait."""
    nothing, taken = (
        UnannouncedClass(Setting("", instead=instead, cpus=28), 1).live() for instead in ((), (HALF_A_CPU,))
    )
    assert nothing.launches == taken.launches > 250
    assert nothing.share_waiting > 0.8
    assert taken.share_waiting <= 0.4
    assert taken.instead > 100
