"""What people who do not know the keys of choices read of one."""

from __future__ import annotations

from dra_spawner.placeholders.planner.targets.choice_names import options_of, profile_of
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes


def title_of(published: PublishedShapes, name: str) -> str:
    """What the spawn form calls a choice; as well as it is known."""
    found = published.find(name)
    if found is None:
        return "a choice that is offered no longer" if published.shapes else name
    if found in published.titles:
        return published.titles[found]
    profile = published.titles.get(profile_of(found))  # titles of some combinations are left out
    return ", ".join((profile, *options_of(found).values())) if profile else name
