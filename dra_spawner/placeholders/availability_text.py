"""Texts about how soon a server runs, for its user: a label and a sentence of each state. No words of Kubernetes."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from dra_spawner.placeholders.availability_state import AvailabilityState

_NEW_MACHINE: Final = "It starts as soon as another machine is added and ready."

#: A few words beside a choice.
LABELS: Final = MappingProxyType(
    {
        AvailabilityState.READY: "ready",
        AvailabilityState.FREE: "free now",
        AvailabilityState.AFTER_PLACEHOLDER: "free now",
        AvailabilityState.AFTER_PREEMPTION: "free in a moment",
        AvailabilityState.WAITS: "waits",
        AvailabilityState.NEEDS_NODE: "new machine",
        AvailabilityState.WHEN_STOPPED: "all in use",
        AvailabilityState.CLOSED: "out of use",
        AvailabilityState.NEVER: "never",
        AvailabilityState.UNKNOWN: "not known",
    }
)
#: What the labels mean, for a legend; states with the same label stand there once.
LEGEND: Final = MappingProxyType(
    {
        AvailabilityState.READY: "Everything is prepared. Your server starts within seconds.",
        AvailabilityState.FREE: "A device is free, but nothing is prepared. Your server starts a little later.",
        AvailabilityState.AFTER_PREEMPTION: "A reserve is freed for you. Your server starts some seconds later.",
        AvailabilityState.NEEDS_NODE: "Another machine is added for you, which takes minutes.",
        AvailabilityState.WHEN_STOPPED: "You wait until another user's server stops.",
        AvailabilityState.WAITS: "Nothing is free at the moment, or others in the queue come first.",
        AvailabilityState.CLOSED: "What this choice needs is out of use. You wait until it is back.",
        AvailabilityState.NEVER: "No machine can run this choice.",
        AvailabilityState.UNKNOWN: "It is not known at the moment. You can start all the same.",
    }
)
#: Sentences of states that need no cause; the others have theirs from `dra_spawner.simulator.refusal_text`.
SENTENCES: Final = MappingProxyType(
    {
        AvailabilityState.READY: "It starts within seconds, as everything is prepared for it.",
        AvailabilityState.FREE: "It starts now, as everything that it needs is free.",
        AvailabilityState.AFTER_PLACEHOLDER: "It starts now, as everything that it needs is free.",
        AvailabilityState.AFTER_PREEMPTION: "It starts in a few seconds. A reserve is freed for it.",
        AvailabilityState.NEEDS_NODE: _NEW_MACHINE,
        AvailabilityState.UNKNOWN: "It is not known at present when it starts.",
    }
)
