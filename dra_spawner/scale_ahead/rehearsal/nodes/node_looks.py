"""The looks of a kind of node: what a new node of the kind may be like.

Nodes of a kind may differ, and a node may show less than its kind has: a driver has withdrawn a broken device, or has
not published all of them yet. The order of the nodes does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dra_spawner import names
from dra_spawner.placeholders.planner.answers.scale_up_estimate import alike_key, complete_nodes
from dra_spawner.placeholders.planner.cluster.allowed_nodes import is_labelled
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNode
from dra_spawner.simulator.node_templates import NodeTemplate, TemplateError, template_of

#: Limit of distinct nodes of a kind that are tried as templates.
_MAX_LOOKS: Final = 5
#: Equal machines report sizes that differ by less.
_ALIKE: Final = Fraction(1, 20)


@dataclass(frozen=True, slots=True)
class NodeLook:
    """One look of a kind.

    Attributes
    ----------
    past
        The past node that has it; None if a present node has it.
    shows_all
        Whether the node has all devices of its kind, as far as it is known.
    problem
        Why there is no template; empty if there is one.
    """

    name: str
    template: NodeTemplate | None
    past: SeenNode | None = None
    shows_all: bool = True
    problem: str = ""


def looks_of_kind(view: View, nodes: Sequence[str], past: Sequence[SeenNode] = ()) -> Iterator[tuple[NodeLook, ...]]:
    """Looks in groups, of which the next one counts only if no server fits on any node of those before.

    Present nodes with all devices of their kind come first, then past nodes, then other present nodes. Of a group, the
    fullest nodes are taken, and no node that only lacks devices of another one.
    """
    complete = complete_nodes(view, nodes, frozenset())
    # If there were nodes of the kind, it is known how a complete one looks: it has the label.
    shown = [each for each in complete if not past or is_labelled(view.snapshot.nodes[each], names.IMAGES_READY)]
    rest = sorted({*nodes} - {*shown})
    tried: set[Hashable] = set()
    yield _fullest(_present(view, shown, tried, shows_all=True))
    newest: dict[Hashable, SeenNode] = {}
    for each in past:
        if each.key not in tried:
            newest.setdefault(each.key, each)
    tried |= newest.keys()
    yield _fullest([NodeLook(each.name, each.template, each) for each in newest.values()][:_MAX_LOOKS])
    yield _fullest(_present(view, rest, tried, shows_all=False))


def _present(view: View, nodes: Sequence[str], tried: set[Hashable], *, shows_all: bool) -> list[NodeLook]:
    """The looks of present nodes that were not tried yet."""
    groups: dict[Hashable, list[str]] = {}
    for name in nodes:
        groups.setdefault(alike_key(view, view.snapshot.nodes[name]), []).append(name)
    devices = {
        key: sum(len(item.devices) for item in view.index.slices_of_node.get(alike[0], ()))
        for key, alike in groups.items()
    }
    ranked = sorted(groups, key=lambda key: (-devices[key], -len(groups[key]), min(groups[key])))
    found = []
    for key in [each for each in ranked if each not in tried][:_MAX_LOOKS]:
        tried.add(key)
        name = min(groups[key])
        try:
            found.append(NodeLook(name, template_of(view.snapshot, name), shows_all=shows_all))
        except TemplateError as error:
            found.append(NodeLook(name, None, shows_all=shows_all, problem=str(error)))
    return found


def _fullest(looks: Sequence[NodeLook]) -> tuple[NodeLook, ...]:
    """The same without nodes that only lack devices of another one."""
    templates = [each.template for each in looks if each.template is not None]
    return tuple(
        each for each in looks if each.template is None or not any(_lacks(each.template, more) for more in templates)
    )


def _lacks(less: NodeTemplate, more: NodeTemplate) -> bool:
    """Whether a node is like another one, but for devices that it does not have."""
    return (
        less.node.taints == more.node.taints
        and _devices(less) < _devices(more)
        and all(
            _is_alike(less.node.allocatable.get(name, 0), more.node.allocatable.get(name, 0))
            for name in {*less.node.allocatable, *more.node.allocatable}
        )
    )


def _devices(template: NodeTemplate) -> Counter[Hashable]:
    found: Counter[Hashable] = Counter()
    for item in template.slices:
        for device in item.devices:
            described = device.description
            found[described.driver, described.allow_multiple_allocations, described.capacity_key] += 1
    return found


def _is_alike(one: int, other: int) -> bool:
    return abs(one - other) <= max(one, other) * _ALIKE
