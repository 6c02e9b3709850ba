"""Kinds of nodes by a description (the file of `dra-spawner simulate`), or as they are present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from dra_spawner.fit.documents import read_documents
from dra_spawner.fit.input_errors import InputError
from dra_spawner.fit.limits import PROFILE_FILES
from dra_spawner.placeholders.planner.choice_names import profile_of
from dra_spawner.placeholders.planner.demand.lead_times import lead_time_quantile
from dra_spawner.placeholders.planner.view import View
from dra_spawner.rehearsal.node_supply import NodeSupply
from dra_spawner.replay.cluster import NodeKind
from dra_spawner.replay.cluster_file import ClusterFile, parse_cluster

__all__ = ["SeenLeads", "described_supplies", "read_description"]

SeenLeads = Mapping[str, Sequence[timedelta]]
"""Lead times that were seen, by the kind of node."""
_LONGEST: Final = timedelta(days=7)


def read_description(file: str) -> ClusterFile:
    """Read a description.

    Raises
    ------
    InputError
        If it cannot be read, or a time is longer than a week.
    """
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "is no text in UTF-8"
        raise InputError(file, 0, "", f"cannot be read: {problem}") from None
    documents = tuple(read_documents(file, text, PROFILE_FILES))
    if len(documents) != 1:
        raise InputError(file, 0, "", f"has {len(documents)} documents; it must have one")
    found = parse_cluster(documents[0], has_groups=False)
    for number, kind in enumerate(found.kinds):
        if max(*kind.lead_times, kind.image_time) > _LONGEST:
            raise documents[0].error(("nodes", number), "has a time of more than a week")
    return found


def described_supplies(
    view: View, kinds: Sequence[NodeKind], profile: str, kind_label: str, seen: SeenLeads
) -> tuple[NodeSupply, ...]:
    """Supplies of described kinds, with their present nodes.

    Parameters
    ----------
    profile
        Published name of the choice: its number of servers on a node counts where no node of a kind is present.
    kind_label
        Its value is the name of a kind that has no labels in the description.
    seen
        Lead times with images; they count instead of the described ones.
    """
    return tuple(_supply(view, each, profile, kind_label, seen) for each in kinds)


def _supply(view: View, kind: NodeKind, profile: str, kind_label: str, seen: SeenLeads) -> NodeSupply:
    labels = dict(kind.labels) or {kind_label: kind.name}
    nodes = tuple(
        name
        for name, state in sorted(view.snapshot.nodes.items())
        if all(state.node.labels.get(key) == value for key, value in labels.items())
    )
    label = labels.get(kind_label) or next(
        (view.snapshot.nodes[name].node.labels.get(kind_label) for name in nodes), ""
    )
    lead = lead_time_quantile(seen.get(label or "", ()))
    described = lead_time_quantile(kind.lead_times)
    assert described is not None
    takes_profile = not kind.profiles or not {profile, profile_of(profile)}.isdisjoint(kind.profiles)
    return NodeSupply(
        kind.name,
        lead if lead is not None else described,
        nodes,
        kind.image_time if lead is None else timedelta(0),
        kind.most,
        kind.starts_per_minute,
        kind.slots if takes_profile else None,
    )
