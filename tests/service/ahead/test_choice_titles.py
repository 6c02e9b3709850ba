"""What people read of a choice."""

from __future__ import annotations

from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.service.ahead.choice_titles import title_of
from tests.placeholders.planner.objects import GPU


def test_what_people_read_of_a_choice() -> None:
    """A choice with defaults spelled out, or whose options have another order, is the same; no key is shown."""
    names = ("gpu", "gpu/a=x", "gpu/a=x,b=y", "old")
    published = PublishedShapes(
        dict.fromkeys(names, GPU),
        defaults={"gpu": {"a": "none", "b": "none"}},
        titles={"gpu": "A share", "gpu/a=x": "A share, large"},
    )
    cases = {
        "gpu": "A share",
        "gpu/a=none,b=none": "A share",
        "gpu/b=none,a=x": "A share, large",
        "gpu/b=y,a=x": "A share, x, y",
        "removed": "a choice that is offered no longer",
        "old": "old",
    }
    assert {name: title_of(published, name) for name in cases} == cases
    assert title_of(PublishedShapes(), "gpu") == "gpu", "nothing is published yet"
