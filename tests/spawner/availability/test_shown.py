"""Labels beside choices."""

from __future__ import annotations

import pytest

from dra_spawner.spawner.availability.shown import AvailabilityState, ShownAvailability, wait_text


@pytest.mark.parametrize(
    ("shown", "label"),
    [
        pytest.param(ShownAvailability(AvailabilityState.READY), "ready", id="ready"),
        pytest.param(ShownAvailability(AvailabilityState.FREE, wait=(1, 2)), "free now", id="free, whatever the wait"),
        pytest.param(ShownAvailability(AvailabilityState.AFTER_PREEMPTION), "free in a moment", id="after preemption"),
        pytest.param(ShownAvailability(AvailabilityState.NEEDS_NODE, wait=(240, 350)), "needs a new node: 4 to 6 min", id="a node"),
        pytest.param(ShownAvailability(AvailabilityState.NEEDS_NODE), "needs a new node", id="a node, no wait"),
        pytest.param(ShownAvailability(AvailabilityState.WHEN_STOPPED, wait=(600, 2400)), "when another server stops: 10 to 40 min", id="stops"),
        pytest.param(ShownAvailability(AvailabilityState.NEVER, "No GPU has 80 GiB."), "never: no GPU has 80 GiB", id="never"),
        pytest.param(ShownAvailability(AvailabilityState.NEVER, "GPUs have 40 GiB."), "never: GPUs have 40 GiB", id="abbreviation"),
        pytest.param(ShownAvailability(AvailabilityState.NEVER, "A GPU has 40 GiB."), "never: a GPU has 40 GiB", id="one letter"),
        pytest.param(ShownAvailability(AvailabilityState.NEVER, "x" * 61 + "."), "never", id="long reason"),
        pytest.param(ShownAvailability(AvailabilityState.NEVER), "never", id="no reason"),
        pytest.param(ShownAvailability(AvailabilityState.UNKNOWN), "not known", id="unknown"),
    ],
)  # fmt: skip
def test_labels(shown, label):
    assert shown.label == label
    assert shown.as_json()["label"] == label


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (20, 50, "20 to 50 s"),
        (0, 40, "up to 40 s"),
        (30, 90, "up to 2 min"),
        (61, 240, "1 to 4 min"),
        (300, 300, "5 min"),
        (240, 350, "4 to 6 min"),
        (3600, 7200, "60 to 120 min"),
        (3600, 7201, "1 to 3 h"),
        (600, 90_000, "up to 25 h"),
    ],
)
def test_an_interval_in_words_is_never_narrower(low, high, text):
    assert wait_text(low, high) == text


def test_every_state_has_a_label():
    assert all(ShownAvailability(state).label for state in AvailabilityState)


@pytest.mark.parametrize(
    ("state", "sentence", "more"),
    [
        (AvailabilityState.NEVER, "No GPU has 80 GiB.", ""),
        (AvailabilityState.NEVER, "x" * 70, "x" * 70),
        (AvailabilityState.FREE, "A GPU is free.", "A GPU is free."),
    ],
)
def test_nothing_is_said_twice(state, sentence, more):
    assert ShownAvailability(state, sentence).more == more
