"""Labels beside choices."""

from __future__ import annotations

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.availability_text import LABELS, LEGEND
from dra_spawner.spawner.availability.shown import ShownAvailability, usual_sentence, wait_text
from tests.all_of_them import all_of_them


@all_of_them(
    "shown, label",
    {
        "ready": (ShownAvailability(AvailabilityState.READY), "ready"),
        "free, whatever the wait": (ShownAvailability(AvailabilityState.FREE, wait=(1, 2)), "free now"),
        "after preemption": (ShownAvailability(AvailabilityState.AFTER_PREEMPTION), "free in a moment"),
        "a node": (ShownAvailability(AvailabilityState.NEEDS_NODE, wait=(240, 350)), "new machine: 4 to 6 min"),
        "a node, no wait": (ShownAvailability(AvailabilityState.NEEDS_NODE), "new machine"),
        "stops": (ShownAvailability(AvailabilityState.WHEN_STOPPED, wait=(600, 2400)), "all in use: 10 to 40 min"),
        "never": (ShownAvailability(AvailabilityState.NEVER, "No GPU has 80 GiB."), "never: no GPU has 80 GiB"),
        "abbreviation": (ShownAvailability(AvailabilityState.NEVER, "GPUs have 40 GiB."), "never: GPUs have 40 GiB"),
        "one letter": (ShownAvailability(AvailabilityState.NEVER, "A GPU has 40 GiB."), "never: a GPU has 40 GiB"),
        "long reason": (ShownAvailability(AvailabilityState.NEVER, "x" * 24 + "."), "never"),
        "no reason": (ShownAvailability(AvailabilityState.NEVER), "never"),
        "unknown": (ShownAvailability(AvailabilityState.UNKNOWN), "not known"),
    },
)  # fmt: skip
def test_labels(shown, label):
    assert shown.label == label
    assert shown.as_json()["label"] == label


@all_of_them(
    "low, high, text",
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


@all_of_them(
    "state, wait, sentence",
    [
        (AvailabilityState.WHEN_STOPPED, (240, 350), "It usually takes 4 to 6 min from now."),
        (AvailabilityState.NEEDS_NODE, (0, 40), "It usually takes up to 40 s from now."),
        (AvailabilityState.NEEDS_NODE, None, ""),
        (AvailabilityState.FREE, (0, 40), ""),
    ],
)
def test_how_long_a_server_that_waits_usually_waits(state, wait, sentence):
    assert usual_sentence(ShownAvailability(state, "", wait)) == sentence


def test_every_state_has_a_label_that_fits_a_phone_and_a_meaning():
    waits = [None, (0, 5_399), (3_600, 7_200), (3_600, 2_592_000)]
    labels = {
        each: ShownAvailability(each, "No GPU has 80 GiB.", wait).label for each in AvailabilityState for wait in waits
    }
    assert all(0 < len(label) <= 30 for label in labels.values()), labels
    said = {LABELS[state] for state in LEGEND}
    assert said == set(LABELS.values())
    assert len(said) == len(LEGEND)


@all_of_them(
    "state, sentence, more",
    [
        (AvailabilityState.NEVER, "No GPU has 80 GiB.", ""),
        (AvailabilityState.NEVER, "x" * 70, "x" * 70),
        (AvailabilityState.FREE, "A GPU is free.", "A GPU is free."),
    ],
)
def test_nothing_is_said_twice(state, sentence, more):
    assert ShownAvailability(state, sentence).more == more
