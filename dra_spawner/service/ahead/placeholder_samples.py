"""Numbers of placeholders of the last day, minute by minute, for the timeline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dra_spawner.placeholders.controller.answers.availability import PlaceholderCounts, count_placeholders
from dra_spawner.placeholders.lifecycle import PlaceholderState
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, minute_of

#: Limit of choices in one sample, so that a day stays below 20 MB.
_MAX_GROUPS: Final = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """Placeholders and servers of a choice, and of the choices that share its placeholders.

    Attributes
    ----------
    warm, reserved
        Placeholders in these states.
    coming
        Pending and starting placeholders.
    target
        The target number.
    forecast
        What the forecast says; None without one.
    servers, pending
        Servers with a node, and servers without.
    """

    warm: int
    reserved: int
    coming: int
    target: int
    forecast: int | None
    servers: int
    pending: int


class PlaceholderSamples:
    """Remembers a sample of each minute for a day; it is empty after a start, as the samples are in memory."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Mapping[str, Sample]]] = deque(maxlen=MINUTES_A_DAY)
        self.on_add: Callable[[], None] = lambda: None
        """Called after each new sample."""

    def add(self, minute: int, samples: Mapping[str, Sample]) -> None:
        """Add the samples of a minute, by choice; a minute that is there already is left alone."""
        if not self._kept or minute > self._kept[-1][0]:
            self._kept.append((minute, samples))
            self.on_add()

    @property
    def first(self) -> int | None:
        """The first minute that is remembered; None without any."""
        return self._kept[0][0] if self._kept else None

    def between(self, begin: int, end: int) -> Iterator[tuple[int, Mapping[str, Sample]]]:
        """Samples from minute `begin` on and before `end`, in their order."""
        return ((minute, samples) for minute, samples in self._kept if begin <= minute < end)


def sample_groups(controller: ScaleAheadController) -> tuple[int, dict[str, Sample]]:
    """The present minute, and the sample of each choice with placeholders."""
    view, policy, forecasts = controller.view(), controller.policy, controller.scale_ahead.forecasts
    counts, found = count_placeholders(view), {}
    for group in controller.groups()[:_MAX_GROUPS]:
        numbers, made = counts.get(group.shape, PlaceholderCounts()), forecasts.get(group.name)
        states, replicas = numbers.placeholders, policy.replicas.get(group.shape, group.replicas)
        found[group.name] = Sample(
            warm=states[PlaceholderState.WARM],
            reserved=states[PlaceholderState.RESERVED],
            coming=states[PlaceholderState.PENDING] + states[PlaceholderState.STARTING],
            target=replicas.min,
            forecast=made.target if made is not None else None,
            servers=numbers.used,
            pending=numbers.pending,
        )
    return minute_of(view.now), found
