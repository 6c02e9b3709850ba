"""The report of an uninstallation, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dra_spawner import names
from dra_spawner.commands.removing.found_objects import FoundObject
from dra_spawner.commands.removing.plan import LeftObject, Removal, Unmarking

__all__ = ["UninstallReport"]

_NOTES = (
    "The hub, servers' pods, home volumes and the namespaces that the hub created are not changed.",
    "A hub that still uses DRASpawner creates claims at every start, and publishes its profiles (ConfigMap "
    f"{names.SHAPES_CONFIG_MAP}): remove DRASpawner from the hub's configuration first.",
)


@dataclass(frozen=True, slots=True)
class UninstallReport:
    """The result of an uninstallation, or of a dry run.

    Attributes
    ----------
    leaders
        A sentence for each service that leads.
    problems
        A sentence for each failure, missing rights first.
    """

    dry_run: bool
    removed: Sequence[Removal]
    unmarked: Sequence[Unmarking]
    left: Sequence[LeftObject]
    leaders: Sequence[str] = ()
    problems: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The report as JSON, which docs/how-to/uninstall.md describes."""
        return {
            "dryRun": self.dry_run,
            "removed": [{**_named(each.object), "reason": each.reason} for each in self.removed],
            "unmarked": [
                {**_named(each.object), "labels": list(each.labels), "annotations": list(each.annotations)}
                for each in self.unmarked
            ],
            "left": [
                {
                    **_named(each.object),
                    "leftTo": "administrators" if each.is_administrators else "users",
                    "reason": each.reason,
                    "advice": each.advice,
                }
                for each in self.left
            ],
            "leaders": list(self.leaders),
            "problems": list(self.problems),
            "notes": list(_NOTES),
        }

    def text(self) -> str:
        """The report for people, in several lines."""
        would = "would be " if self.dry_run else ""
        users = [each for each in self.left if not each.is_administrators]
        by_hand = [each for each in self.left if each.is_administrators]
        parts = [
            _part(f"{would}removed", [(each.object.title, each.reason) for each in self.removed]),
            _part(
                f"labels and annotations that {would or 'were '}removed",
                [(each.object.title, ", ".join((*each.labels, *each.annotations))) for each in self.unmarked],
            ),
            _part("left to users", [(each.object.title, f"{each.reason}. {each.advice}") for each in users]),
            _part("left to administrators", [(each.object.title, f"{each.reason}: {each.advice}") for each in by_hand]),
        ]
        if not (self.removed or self.unmarked):
            nothing = "There is nothing of dra-spawner to remove."
            parts.insert(0, f"{nothing}\n" if not self.left else f"{nothing[:-1]}; what is left is below.\n")
        parts.append("".join(f"{note}\n" for note in _NOTES))
        return "\n".join(part for part in parts if part)


def _named(found: FoundObject) -> dict[str, str]:
    return {
        "apiVersion": found.kind.api_version,
        "kind": found.kind.name,
        "namespace": found.namespace,
        "name": found.name,
    }


def _part(heading: str, rows: Iterable[tuple[str, str]]) -> str:
    rows = list(rows)
    if not rows:
        return ""
    width = min(max(len(title) for title, _ in rows), 72)
    return f"{heading} ({len(rows):,}):\n" + "".join(f"  {title:{width}}  {text}\n" for title, text in rows)
