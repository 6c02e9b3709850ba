"""Choices that stay published although they are missing at present."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.placeholders.planner.targets.shapes import Shape

#: Time for which a choice stays published whose devices are gone: a driver that is upgraded withdraws them all.
_KEPT_SECONDS: Final = 3600.0


class RecentChoices:
    """Choices that were published lately: the service deletes the placeholders of choices that are missing."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, Shape, str | None]] = {}

    def completed(self, published: PublishedShapes, now: float) -> PublishedShapes:
        """The same with choices that are missing for a short time only; the same object if none is.

        Parameters
        ----------
        now
            A time in seconds.
        """
        self._seen |= {name: (now, each, published.titles.get(name)) for name, each in published.shapes.items()}
        known = {name: each for name, each in self._seen.items() if now - each[0] < _KEPT_SECONDS}
        self._seen = {name: each for name, each in known.items() if name not in published.skipped}
        missing = {name: each for name, each in self._seen.items() if name not in published.shapes}
        if not missing:
            return published
        return replace(
            published,
            shapes={**published.shapes, **{name: shape for name, (_, shape, _) in missing.items()}},
            titles={
                **published.titles,
                **{name: title for name, (_, _, title) in missing.items() if title is not None},
            },
        )
