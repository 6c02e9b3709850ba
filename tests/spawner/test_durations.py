"""Durations as users read them, and the part of a start for cleaning up."""

from dra_spawner.spawner.durations import clean_up_seconds, in_words, kubespawner_may_give_up, so_far
from tests.all_of_them import all_of_them


@all_of_them(
    "seconds, words", [(6, "6 seconds"), (119, "119 seconds"), (120, "2 min"), (600, "10 min"), (3600, "60 min")]
)
def test_a_duration(seconds, words):
    assert in_words(seconds) == words


@all_of_them(
    "elapsed, limit, words",
    [
        (19.9, 600, "10 s of at most 10 min"),
        (60, 600, "1 min of at most 10 min"),
        (179, 600, "2 min of at most 10 min"),
        (31, 60, "30 s of at most 60 s"),
    ],
)
def test_a_duration_so_far(elapsed, limit, words):
    assert so_far(elapsed, limit) == words


@all_of_them("limit, seconds", [(4, 1), (8, 2), (20, 2), (30, 3), (50, 5), (300, 5)])
def test_time_to_clean_up(limit, seconds):
    assert clean_up_seconds(limit) == seconds


@all_of_them("elapsed, limit, may_give_up", [(269, 300, False), (270, 300, True), (54, 60, True)])
def test_kubespawner_may_give_up(elapsed, limit, may_give_up):
    assert kubespawner_may_give_up(elapsed, limit) is may_give_up
