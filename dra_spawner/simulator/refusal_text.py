"""Why a server has no node: one sentence for its user, and one detail for an administrator, of the same refusals.

The rows of devices are in `dra_spawner.dra.allocation.cause_text`; here are the rows of what else a node lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from dra_spawner.dra.allocation.cause_text import ENOUGH_IS_FREE, CauseText, RefusalKind
from dra_spawner.dra.allocation.reasons import NoFitReason
from dra_spawner.simulator.fitting import NodeAnswer, PodFit
from dra_spawner.simulator.scheduler.node_fit import Filter

_MAX_REASONS: Final = 3
NO_NODE: Final = "there is no node"
"""Answer of `refusal_detail` where no node refuses."""

NO_SUCH_MACHINE: Final = CauseText(
    "No machine that is open to servers is of the kind that this choice asks for.",
    "no machine is of the kind that it asks for",
)
MORE_THAN_ANY_MACHINE: Final = "it asks for more memory or processors than any machine"
_RULES: Final = CauseText(
    "No machine meets all conditions of this choice now.", "no machine meets all of its conditions"
)

#: Of machines that take no new servers.
CLOSED: Final = CauseText(
    "A machine that could run it takes no new servers: an administrator has closed it.",
    "the machines that could run it are closed",
    "It starts when the machine is open again, or when another one has enough free.",
)
#: Of machines and devices that are drained.
DRAINED: Final = CauseText(
    "What could run it is taken out of use by an administrator.",
    "what could run it is out of use",
    "It starts when that is back in use, or when enough else is free.",
)
#: The same where nothing else has what the server needs, and other servers use it there.
CLOSED_AND_FULL: Final = replace(CLOSED, ends="It starts when the machine is open again and has enough free.")
DRAINED_AND_FULL: Final = replace(DRAINED, ends="It starts when that is back in use and has enough free.")
NO_MACHINE: Final = CauseText("No machine is there now.", "no machine is there", "It starts when one is added.")
DOUBTFUL: Final = CauseText(
    "It is not known whether it can start: a machine does not show all that is in use there.",
    "the devices of the machines that can run it are not known",
)

#: The further down, the nearer the server came to a start.
NODE_CAUSES: Final[dict[Filter, CauseText]] = {
    Filter.NODE_UNSCHEDULABLE: NO_SUCH_MACHINE,
    Filter.NODE_NAME: NO_SUCH_MACHINE,
    Filter.TAINT_TOLERATION: NO_SUCH_MACHINE,
    Filter.NODE_AFFINITY: NO_SUCH_MACHINE,
    Filter.NODE_PORTS: _RULES,
    Filter.NOT_MODELLED: _RULES,
    Filter.VOLUME_BINDING: _RULES,
    Filter.POD_TOPOLOGY_SPREAD: _RULES,
    Filter.INTER_POD_AFFINITY: _RULES,
    Filter.NODE_RESOURCES_FIT: CauseText(
        "No machine has enough memory or processors free.",
        f"{MORE_THAN_ANY_MACHINE} has",
        ENOUGH_IS_FREE,
    ),
    Filter.DYNAMIC_RESOURCES: CauseText(
        "No machine has all devices free that this choice asks for.",
        "no machine has the devices that it asks for",
        ENOUGH_IS_FREE,
    ),
}
_FILTERS: Final = {each: number for number, each in enumerate(NODE_CAUSES)}
_KINDS: Final = {each: number for number, each in enumerate(RefusalKind)}


def never_sentence(refusals: Iterable[NodeAnswer]) -> str:
    """Why a server can never start, for its user.

    Parameters
    ----------
    refusals
        Answers of empty nodes, one of each kind that the server's own conditions allow.
    """
    return f"It can never start: {nearest_cause(refusals, NO_SUCH_MACHINE).never}."


def waiting_sentence(refusals: Iterable[NodeAnswer], *, has_nodes: bool = True) -> str:
    """Why a server waits, and what ends the wait, for its user; by the node where it came nearest to a start.

    Parameters
    ----------
    has_nodes
        Whether there is any node.
    """
    return nearest_cause(refusals, _RULES if has_nodes else NO_MACHINE).waiting


def refusal_detail(fit: PodFit) -> str:
    """Why a pod has no node, for an administrator: the most frequent reasons, with their number of nodes."""
    if fit.general is not None:
        return "; ".join(fit.general.reasons)
    reasons = Counter(str(each) for each in fit.nodes.values() if not each.fits)
    found = [
        f"{reason} ({count} nodes)" if count > 1 else reason for reason, count in reasons.most_common(_MAX_REASONS)
    ]
    return "; ".join(found) or NO_NODE


def out_of_use(until: datetime | None, *, is_full: bool = False) -> CauseText:
    """Texts about what is drained, with the end if that is known.

    Parameters
    ----------
    is_full
        Whether it is in use, too.
    """
    text = DRAINED_AND_FULL if is_full else DRAINED
    if until is None:
        return text
    return replace(text, now=f"{text.now.rstrip('.')} until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC.")


def nearest_reason(refusals: Iterable[NodeAnswer]) -> NoFitReason | None:
    """What devices lack on the node where a server came nearest to a start; None if it lacks something else."""
    nearest = max(refusals, key=_nearness, default=None)
    return nearest.reason if nearest is not None else None


def nearest_cause(refusals: Iterable[NodeAnswer], otherwise: CauseText = _RULES) -> CauseText:
    """Texts about the refusal of the node where a server came nearest to a start."""
    nearest = max(refusals, key=_nearness, default=None)
    if nearest is None:
        return otherwise
    if nearest.reason is not None:
        return nearest.reason.for_user
    return NODE_CAUSES[nearest.verdict.filter] if nearest.verdict.filter is not None else _RULES


def _nearness(refusal: NodeAnswer) -> tuple[int, int, int]:
    judge, reason = refusal.verdict.filter, refusal.reason
    if reason is None:
        return (_FILTERS[judge] if judge is not None else -1, -1, 0)
    return (_FILTERS[Filter.DYNAMIC_RESOURCES], _KINDS[reason.nearest.kind], reason.found)
