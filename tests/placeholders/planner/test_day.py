"""The aims of the thought experiment, in virtual time: days with users, an autoscaler, and each of the systems."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.examples import example_count
from tests.placeholders.planner.day import Outcome, both

SEEDS = 5


@pytest.fixture(scope="module", params=[False, True], ids=["without devices", "with shares of GPUs"])
def days(request: pytest.FixtureRequest) -> dict[str, list[Outcome]]:
    """Outcome of the same days by system."""
    found: dict[str, list[Outcome]] = {"ours": [], "recipe": []}
    for seed in range(example_count(SEEDS)):
        for name, outcome in both(request.param, seed=1 + seed):
            found[name].append(outcome)
    return found


def test_no_user_is_blocked_or_on_a_node_without_the_image(days: dict[str, list[Outcome]]) -> None:
    for day in days["ours"]:
        assert day.for_image == set()
        assert day.blocked == set()


def test_waits_are_a_tenth_at_most(days: dict[str, list[Outcome]]) -> None:
    for ours, recipe in zip(days["ours"], days["recipe"], strict=True):
        assert len(ours.for_node) <= len(recipe.for_node)
        # Two tenths of a second are two turns of scheduler and decisions: no real wait.
        assert ours.wait(95) <= max(recipe.wait(95) / 10, 0.2)
        assert max(ours.waits.values()) <= max(recipe.waits.values())


@pytest.mark.parametrize(
    "figure", [lambda day: day.node_hours, lambda day: day.left_over], ids=["node-hours", "nodes left over"]
)
def test_no_more_is_paid_for(days: dict[str, list[Outcome]], figure: Callable[[Outcome], float]) -> None:
    """Summed over all days: on a single day it is chance which users stay for long on which node."""
    assert sum(map(figure, days["ours"])) <= sum(map(figure, days["recipe"]))


def test_users_of_the_recipe_wait_for_images_and_nodes(days: dict[str, list[Outcome]]) -> None:
    """On days without waits the comparison would prove nothing."""
    assert sum(len(day.for_image) for day in days["recipe"]) > 0
    assert min(day.max_nodes for day in days["recipe"]) >= 3
