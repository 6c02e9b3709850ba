"""Availability of a choice as a hub's user sees it: a state, a short label, a sentence, and a wait."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.availability_text import LABELS

#: A longer label does not fit beside a choice on a phone: the reason of "never" stands in the sentence only.
_LONGEST_LABEL: Final = 30


#: States whose label says how long it takes.
_WAITING: Final = frozenset((AvailabilityState.NEEDS_NODE, AvailabilityState.WHEN_STOPPED))


@dataclass(frozen=True, slots=True)
class ShownAvailability:
    """Availability of one choice.

    Attributes
    ----------
    sentence
        Plain text of one line, with a full stop; empty for none.
    wait
        Shortest and longest wait in seconds; None if not known.
    """

    state: AvailabilityState
    sentence: str = ""
    wait: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """A few words beside the choice, as plain text."""
        label = LABELS[self.state]
        if self.state is AvailabilityState.NEVER:
            reason = self.sentence.rstrip(".")
            with_reason = f"{label}: {_within_a_sentence(reason)}" if reason else label
            return with_reason if len(with_reason) <= _LONGEST_LABEL else label
        return f"{label}: {wait_text(*self.wait)}" if self.state in _WAITING and self.wait is not None else label

    @property
    def more(self) -> str:
        """The sentence, where it says more than the label."""
        says_all = self.state is AvailabilityState.NEVER and self.label != LABELS[self.state]
        return "" if says_all else self.sentence

    def as_json(self) -> dict[str, Any]:
        """The availability for the form's script."""
        shown: dict[str, Any] = {"state": self.state.value, "label": self.label, "sentence": self.sentence}
        if self.wait is not None:
            shown["low_seconds"], shown["high_seconds"] = self.wait
        return shown


#: The availability of a choice that nothing is known of.
UNKNOWN: Final = ShownAvailability(AvailabilityState.UNKNOWN)


def usual_sentence(found: ShownAvailability) -> str:
    """How long a server of a choice usually waits; empty if that is not known."""
    if found.state not in _WAITING or found.wait is None:
        return ""
    return f"It usually takes {wait_text(*found.wait)} from now."


def wait_text(low_seconds: int, high_seconds: int) -> str:
    """An interval in words, such as ``4 to 6 min``; it is never narrower than the interval."""
    if high_seconds < 90:
        low, high, unit = low_seconds, high_seconds, "s"
    elif high_seconds <= 2 * 3600:
        low, high, unit = low_seconds // 60, math.ceil(high_seconds / 60), "min"
    else:
        low, high, unit = low_seconds // 3600, math.ceil(high_seconds / 3600), "h"
    if low == high:
        return f"{high} {unit}"
    return f"{low} to {high} {unit}" if low else f"up to {high} {unit}"


def _within_a_sentence(text: str) -> str:
    """The text with a small first letter, unless its first word is an abbreviation or a lone letter."""
    first = text.split(" ", 1)[0]
    return text[0].lower() + text[1:] if first[1:].islower() or first == "A" else text
