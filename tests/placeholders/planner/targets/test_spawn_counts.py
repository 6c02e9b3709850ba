"""Servers that the hub is starting: their choices, and the servers that the cluster already shows."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.placeholders.planner.targets.spawn_counts import (
    UNKNOWN,
    Choices,
    KnownServers,
    PendingSpawn,
    ServerName,
    count_spawns,
)
from tests.examples import example_count

PUBLISHED = ("gpu", "gpu/memory=large", "gpu/image=torch", "gpu/memory=large,image=torch", "cpu")
CHOICES = Choices(PUBLISHED, ("gpu/memory=mine", "vlan"))


def test_the_choice_that_options_mean() -> None:
    """Defaults may be left out or sent, as forms do; free text and choices without a shape are ``*``."""
    rows: tuple[tuple[Any, str], ...] = (
        ({"profile": "cpu"}, "cpu"),
        ({"profile": "gpu"}, "gpu"),
        ({"profile": "gpu", "memory": "small", "image": "basic"}, "gpu"),
        ({"profile": "gpu", "memory": "large", "image": "basic"}, "gpu/memory=large"),
        ({"image": "torch", "memory": "large", "profile": "gpu"}, "gpu/memory=large,image=torch"),
        ({"profile": "gpu", "memory": "mine"}, "gpu/*"),
        ({"profile": "vlan"}, "vlan/*"),
        ({"profile": "gpu", "memory--unlisted-choice": "7Gi"}, "gpu/*"),
        ({"profile": "gpu", "memory": "unlisted-choice", "memory--unlisted-choice": "7Gi"}, "gpu/*"),
        ({"profile": "gpu", "memory": "large", "memory--unlisted-choice": ""}, "gpu/memory=large"),
        ({"profile": "tpu"}, UNKNOWN),
        ({"profile": ["gpu"]}, UNKNOWN),
        ({"profile": "gpu", "memory": {"large": 1}}, "gpu"),
        ({}, UNKNOWN),
        (None, UNKNOWN),
        ("gpu", UNKNOWN),
    )
    assert {str(options): CHOICES.of(options) for options, _ in rows} == {
        str(options): choice for options, choice in rows
    }


def test_the_only_profile_is_the_default() -> None:
    choices = Choices(("gpu", "gpu/memory=large"))
    assert choices.of({}) == choices.of(None) == "gpu"
    assert choices.of({"memory": "large"}) == "gpu/memory=large"
    assert choices.of({"profile": "cpu"}) == UNKNOWN


def spawns(*choices: str) -> list[PendingSpawn]:
    return [PendingSpawn(ServerName(f"user-{number}", ""), choice) for number, choice in enumerate(choices)]


def test_servers_with_a_pod_do_not_count() -> None:
    known = KnownServers({ServerName("user-0", ""), ServerName("user-1", "second"), ServerName("user-9", "")})
    assert count_spawns(spawns("gpu", "gpu", "cpu"), known) == {"gpu": 1, "cpu": 1}


def test_reservations_stand_for_spawns() -> None:
    """Of one choice, of choices with one shape, of starts that have failed, of no spawn, of shapes that are not published."""
    found = spawns("gpu", "gpu", "cpu", "gpu/*", UNKNOWN)
    rows: tuple[tuple[list[list[str]], dict[str, int]], ...] = (
        ([["gpu"]], {"gpu": 1, "cpu": 1, "gpu/*": 1, UNKNOWN: 1}),
        ([["gpu", "cpu"]] * 3, {"gpu/*": 1, UNKNOWN: 1}),
        ([["cpu"]] * 3, {"gpu": 2, "gpu/*": 1, UNKNOWN: 1}),
        ([["tpu"]], {"gpu": 2, "cpu": 1, "gpu/*": 1, UNKNOWN: 1}),
        ([[], []], {"gpu": 2, "cpu": 1}),
    )
    counts = {str(reserved): dict(count_spawns(found, KnownServers(reserved=reserved))) for reserved, _ in rows}
    assert counts == {str(reserved): left for reserved, left in rows}


EXAMPLES = 100
NAMES = st.sampled_from([*PUBLISHED, "gpu/*", UNKNOWN])


@settings(max_examples=example_count(EXAMPLES))
@given(st.lists(NAMES), st.sets(st.integers(0, 9)), st.lists(st.lists(NAMES, max_size=3), max_size=5))
def test_each_server_counts_at_most_once(chosen: list[str], with_pod: set[int], reserved: list[list[str]]) -> None:
    known = KnownServers({ServerName(f"user-{number}", "") for number in with_pod}, reserved)
    counts = count_spawns(spawns(*chosen), known)
    without_pod = [choice for number, choice in enumerate(chosen) if number not in with_pod]
    assert all(0 < number <= without_pod.count(choice) for choice, number in counts.items())
    assert len(without_pod) - len(reserved) <= counts.total() <= len(without_pod)
    assert count_spawns(spawns(*chosen), KnownServers(known.with_pod)).total() == len(without_pod)
