"""Servers that the hub is starting: their choices, and the servers that the cluster already shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_spawner.placeholders.planner.spawn_counts import (
    UNKNOWN,
    Choices,
    KnownServers,
    PendingSpawn,
    ServerName,
    count_spawns,
)

PUBLISHED = ("gpu", "gpu/memory=large", "gpu/image=torch", "gpu/memory=large,image=torch", "cpu")
CHOICES = Choices(PUBLISHED, ("gpu/memory=mine", "vlan"))


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        pytest.param({"profile": "cpu"}, "cpu", id="a profile"),
        pytest.param({"profile": "gpu"}, "gpu", id="defaults left out"),
        pytest.param(
            {"profile": "gpu", "memory": "small", "image": "basic"}, "gpu", id="defaults as a form sends them"
        ),
        pytest.param({"profile": "gpu", "memory": "large", "image": "basic"}, "gpu/memory=large", id="one choice"),
        pytest.param(
            {"image": "torch", "memory": "large", "profile": "gpu"}, "gpu/memory=large,image=torch", id="in any order"
        ),
        pytest.param({"profile": "gpu", "memory": "mine"}, "gpu/*", id="a choice without a shape"),
        pytest.param({"profile": "vlan"}, "vlan/*", id="a profile without a shape"),
        pytest.param({"profile": "gpu", "memory--unlisted-choice": "7Gi"}, "gpu/*", id="free text"),
        pytest.param(
            {"profile": "gpu", "memory": "unlisted-choice", "memory--unlisted-choice": "7Gi"}, "gpu/*", id="of a form"
        ),
        pytest.param(
            {"profile": "gpu", "memory": "large", "memory--unlisted-choice": ""},
            "gpu/memory=large",
            id="an empty field",
        ),
        pytest.param({"profile": "tpu"}, UNKNOWN, id="no such profile"),
        pytest.param({"profile": ["gpu"]}, UNKNOWN, id="nonsense for a profile"),
        pytest.param({"profile": "gpu", "memory": {"large": 1}}, "gpu", id="nonsense for a choice"),
        pytest.param({}, UNKNOWN, id="the default profile, without its name"),
        pytest.param(None, UNKNOWN, id="no options"),
        pytest.param("gpu", UNKNOWN, id="no object"),
    ],
)
def test_the_choice_that_options_mean(options: Any, choice: str) -> None:
    assert CHOICES.of(options) == choice


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


@pytest.mark.parametrize(
    ("reserved", "left"),
    [
        pytest.param([["gpu"]], {"gpu": 1, "cpu": 1, "gpu/*": 1, UNKNOWN: 1}, id="one of a choice"),
        pytest.param([["gpu", "cpu"]] * 3, {"gpu/*": 1, UNKNOWN: 1}, id="of choices with one shape"),
        pytest.param([["cpu"]] * 3, {"gpu": 2, "gpu/*": 1, UNKNOWN: 1}, id="of starts that have failed"),
        pytest.param([["tpu"]], {"gpu": 2, "cpu": 1, "gpu/*": 1, UNKNOWN: 1}, id="of no spawn"),
        pytest.param([[], []], {"gpu": 2, "cpu": 1}, id="of shapes that are not published"),
    ],
)
def test_reservations_stand_for_spawns(reserved: Sequence[Sequence[str]], left: dict[str, int]) -> None:
    found = spawns("gpu", "gpu", "cpu", "gpu/*", UNKNOWN)
    assert count_spawns(found, KnownServers(reserved=reserved)) == left


NAMES = st.sampled_from([*PUBLISHED, "gpu/*", UNKNOWN])


@given(st.lists(NAMES), st.sets(st.integers(0, 9)), st.lists(st.lists(NAMES, max_size=3), max_size=5))
def test_each_server_counts_at_most_once(chosen: list[str], with_pod: set[int], reserved: list[list[str]]) -> None:
    known = KnownServers({ServerName(f"user-{number}", "") for number in with_pod}, reserved)
    counts = count_spawns(spawns(*chosen), known)
    without_pod = [choice for number, choice in enumerate(chosen) if number not in with_pod]
    assert all(0 < number <= without_pod.count(choice) for choice, number in counts.items())
    assert len(without_pod) - len(reserved) <= counts.total() <= len(without_pod)
    assert count_spawns(spawns(*chosen), KnownServers(known.with_pod)).total() == len(without_pod)
