"""For every node: what the claims would get there, or why not. The answer of ``dra-spawner fit``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dra_spawner.dra.allocation.allocator import Allocation, AllocationError, NoFitKind
from dra_spawner.dra.allocation.miscounts import miscounts
from dra_spawner.dra.allocation.reasons import NoFitReason
from dra_spawner.dra.allocation.results import DeviceResult
from dra_spawner.dra.errors import FatalReason
from dra_spawner.dra.model.claims import ResourceClaim


class VerdictKind(StrEnum):
    """Outcome on one node; the text is the key in the JSON answer."""

    FITS = "allocations"
    UNAVAILABLE = "unavailable"
    """Not on this node."""
    ERROR = "error"
    """kube-scheduler would give up on the pod altogether."""
    STOPPED = "stopped"
    """The search was stopped before it had a verdict: neither yes nor no."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What the claims, taken together, would get on one node.

    Attributes
    ----------
    kind
        Whether they fit.
    allocations
        Name (``namespace/name``) and allocation of each claim, in the order given; empty unless they fit.
    message
        Why they do not fit, a sentence for people.
    reason
        The same in numbers, where the node is merely unavailable.
    no_fit, fatal
        What kind of "no" it is.
    warnings
        Sentences about shares that consume less than was asked for, see `miscounts`.
    """

    node: str
    kind: VerdictKind
    allocations: tuple[tuple[str, Allocation], ...] = ()
    message: str = ""
    reason: NoFitReason | None = None
    no_fit: NoFitKind | None = None
    fatal: FatalReason | None = None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The node's entry in the answer of ``fit --format json``."""
        if self.kind is not VerdictKind.FITS:
            return {self.kind.value: self.message}
        return {
            self.kind.value: [
                {"claim": claim, "results": [_result_json(result) for result in allocation.results]}
                for claim, allocation in self.allocations
            ],
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }


def fitting_verdict(node: str, claims: Sequence[ResourceClaim], found: Sequence[Allocation]) -> NodeVerdict:
    """The verdict on a node where the claims fit, with what is suspicious about it."""
    together = tuple(zip(claims, found, strict=True))
    return NodeVerdict(
        node,
        VerdictKind.FITS,
        tuple((str(claim), allocation) for claim, allocation in together),
        warnings=tuple(text for claim, allocation in together for text in miscounts(claim, allocation.results)),
    )


def error_verdict(node: str, error: AllocationError) -> NodeVerdict:
    """The verdict on a node where the search ended in an error."""
    kind = VerdictKind.STOPPED if error.reason is FatalReason.ABORTED else VerdictKind.ERROR
    return NodeVerdict(node, kind, message=str(error), fatal=error.reason)


def _result_json(result: DeviceResult) -> dict[str, object]:
    """A result as ``fit`` shows it; of a share's id only that it has one."""
    obj: dict[str, object] = {
        "request": result.request,
        "driver": result.id.driver,
        "pool": result.id.pool,
        "device": result.id.device,
    }
    if result.admin_access:
        obj["adminAccess"] = True
    if result.is_share:
        obj["shareID"] = True
    if result.consumed_capacity:
        obj["consumedCapacity"] = {name: str(amount) for name, amount in result.consumed_capacity.items()}
    return obj
