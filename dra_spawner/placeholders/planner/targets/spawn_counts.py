"""Servers that the hub is starting and the cluster does not show yet, by choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dra_spawner.placeholders.planner.targets.choice_names import options_of, profile_of

UNKNOWN: Final = ""
"""Name for spawns of which not even the profile is known."""
#: Ends the name of an option with free text.
_FREE_TEXT: Final = "--unlisted-choice"


class ServerName(NamedTuple):
    """A server as the hub names it; a user's default server has an empty name."""

    user: str
    server: str


@dataclass(frozen=True, slots=True)
class PendingSpawn:
    """A server that the hub is starting."""

    name: ServerName
    choice: str
    """Name of the choice; `unlisted`, if it is none that the hub publishes; or `UNKNOWN`."""


@dataclass(frozen=True, slots=True)
class KnownServers:
    """What the cluster shows of servers that start.

    Attributes
    ----------
    with_pod
        Servers that have a pod.
    reserved
        For each reservation of a server without a pod: the choices that it may be of, all with one shape. Empty if the
        shape is not published.
    """

    with_pod: Collection[ServerName] = frozenset()
    reserved: Sequence[Sequence[str]] = ()


def unlisted(profile: str) -> str:
    """Name for choices of a profile that the hub does not publish, such as free text."""
    return f"{profile}/*"


@dataclass(frozen=True)
class Choices:
    """The choices of a hub's profiles.

    Parameters
    ----------
    published
        Names of choices with a shape.
    skipped
        Names of choices without one.
    """

    published: Collection[str]
    skipped: Collection[str] = ()
    _names: dict[tuple[str, frozenset[tuple[str, str]]], str] = field(default_factory=dict, init=False, repr=False)
    _listed: dict[str, set[tuple[str, str]]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in self.published:
            self._names[profile_of(name), frozenset(options_of(name).items())] = name
        for name in (*self.published, *self.skipped):
            self._listed.setdefault(profile_of(name), set()).update(options_of(name).items())

    def of(self, options: object) -> str:
        """The choice that options of a server mean, as `PendingSpawn.choice`.

        Parameters
        ----------
        options
            JSON that a user sent: ``profile`` and an entry for each option. Defaults may be left out or not: only other
            choices are listed, so what is not listed is a default.
        """
        given = options if isinstance(options, Mapping) else {}
        profile = given.get("profile")
        if not profile and len(self._listed) == 1:
            (profile,) = self._listed
        if not isinstance(profile, str) or profile not in self._listed:
            return UNKNOWN
        texts = {key: value for key, value in given.items() if isinstance(key, str) and isinstance(value, str)}
        chosen = {key: value for key, value in texts.items() if (key, value) in self._listed[profile]}
        for key, text in texts.items():
            if key.endswith(_FREE_TEXT) and text and key.removesuffix(_FREE_TEXT) not in chosen:
                return unlisted(profile)
        return self._names.get((profile, frozenset(chosen.items())), unlisted(profile))


def count_spawns(spawns: Iterable[PendingSpawn], known: KnownServers) -> Counter[str]:
    """Spawns by choice, without those that have a pod or a reservation.

    A reservation names a pod that does not exist yet, and the hub names no pods: so each reservation stands for one
    spawn of its choices, whichever it is.
    """
    counts = Counter(each.choice for each in spawns if each.name not in known.with_pod)
    for choices in known.reserved:
        names = choices or [name for name in counts if name == UNKNOWN or name.endswith(unlisted(""))]
        taken = next((name for name in names if counts[name] > 0), None)
        if taken is not None:
            counts[taken] -= 1
    return +counts
