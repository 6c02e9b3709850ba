"""Durations as users read them, and the part of a start for cleaning up."""

from dra_spawner.spawner.progress.durations import clean_up_seconds, duration_text, kubespawner_may_give_up, so_far


def test_a_duration():
    words = {
        6: "6 seconds",
        119: "119 seconds",
        120: "2 min",
        600: "10 min",
        3590: "1 h",
        7140: "1 h 59 min",
        28800: "8 h",
    }
    assert {seconds: duration_text(seconds) for seconds in words} == words


def test_a_duration_so_far():
    words = {
        (19.9, 600): "10 s of at most 10 min",
        (60, 600): "1 min of at most 10 min",
        (179, 600): "2 min of at most 10 min",
        (31, 60): "30 s of at most 60 s",
        (31, 3600): "30 s of at most 1 h",
        (3700, 7200): "1 h 1 min of at most 2 h",
    }
    assert {case: so_far(*case) for case in words} == words


def test_time_to_clean_up():
    seconds = {4: 1, 8: 2, 20: 2, 30: 3, 50: 5, 300: 5}
    assert {limit: clean_up_seconds(limit) for limit in seconds} == seconds


def test_kubespawner_may_give_up():
    after = {(269, 300): False, (270, 300): True, (54, 60): True}
    assert {case: kubespawner_may_give_up(*case) for case in after} == after
