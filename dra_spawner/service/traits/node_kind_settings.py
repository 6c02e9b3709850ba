"""The setting of the service that describes kinds of nodes, in the form of a description for `dra-spawner rehearse`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.settings_reader import SettingsReader, readers_of_list, refuse_settings
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind

_MAX_KINDS: Final = 100
_MAX_SLOTS: Final = 10_000
_MAX_NODES: Final = 100_000
_MAX_PRICE: Final = 1_000_000_000
_A_WEEK: Final = 7 * 24 * 60
#: Half a second.
_SHORTEST: Final = 1 / 120
_A_KIND: Final = 'a mapping like {"name": "a100", "slots": 8, "lead_minutes": 9}'


def read_node_kinds(value: object, path: str = "node_kinds") -> tuple[NodeKind, ...]:
    """Kinds of nodes, as configured: ``[{"name": "a100", "slots": 8, "lead_minutes": [6, 8, 9], "max_nodes": 60}]``.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    problems: list[Problem] = []
    found: dict[str, NodeKind] = {}
    for reader in readers_of_list(value, path, _MAX_KINDS, _A_KIND, problems):
        kind = _node_kind(reader)
        if kind is not None and kind.name in found:
            reader.refuse("name", "a name that no other kind has")
        elif kind is not None:
            found[kind.name] = kind
    refuse_settings(problems)
    return tuple(found.values())


def _node_kind(reader: SettingsReader) -> NodeKind | None:
    if not reader.is_mapping:
        return None
    name = reader.text("name") if reader.required("name", "a text") else ""
    reader.required("slots", "servers on a node")
    slots = reader.whole_number("slots", 0, 1, _MAX_SLOTS)
    reader.required("lead_minutes", "minutes from the order of a node until it has its devices")
    leads = reader.numbers("lead_minutes", _SHORTEST, _A_WEEK)
    image = reader.number("image_minutes", 0, 0, _A_WEEK)
    max_nodes = reader.whole_number("max_nodes", 0, 0, _MAX_NODES) if reader.value("max_nodes") is not None else None
    starts = reader.number("starts_per_minute", 0, 0.01, 10_000)
    # These are for `dra-spawner replay`, which reads the same form.
    unneeded, price = reader.number("unneeded_minutes", 10, 0, _A_WEEK), reader.number("price", 0, 0, _MAX_PRICE)
    profiles, labels = reader.texts("profiles"), reader.text_map("labels")
    reader.refuse_other_keys()
    if not (name and slots and leads):
        return None
    return NodeKind(
        name=name,
        slots=slots,
        lead_times=tuple(timedelta(minutes=each) for each in leads),
        image_time=timedelta(minutes=image),
        profiles=profiles,
        max_nodes=max_nodes,
        starts_per_minute=starts or None,
        unneeded=timedelta(minutes=unneeded),
        price=price,
        labels=tuple(sorted(labels.items())),
    )


def max_nodes_by_kind(kinds: Iterable[NodeKind], kind_label: str) -> dict[str, int]:
    """Limits of the number of nodes, by the value of the label that tells kinds apart.

    Kinds without this label, or without a maximum, are left out.

    Parameters
    ----------
    kind_label
        A kind without labels has its name as the value.
    """
    found: dict[str, int] = {}
    for kind in kinds:
        value = dict(kind.labels).get(kind_label, "") if kind.labels else kind.name
        if value and kind.max_nodes is not None:
            found[value] = found.get(value, 0) + kind.max_nodes
    return found
