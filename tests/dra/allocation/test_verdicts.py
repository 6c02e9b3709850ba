"""Verdicts for every node, in the form of ``dra-spawner fit --format json``."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.dra.allocation.allocator import AllocationError, Allocator, DoesNotFit, NoFitKind
from dra_spawner.dra.allocation.reasons import RefusalKind
from dra_spawner.dra.allocation.verdicts import NodeVerdict, VerdictKind, error_verdict, fitting_verdict
from dra_spawner.dra.errors import FatalReason
from dra_spawner.dra.model.objects import Node, ResourceClaim
from dra_spawner.dra.scheduler_rules import RULES, SchedulerRules
from tests.dra.builders import GPU, device_json, make_allocator, make_claim, make_slice, request, share, used

SHARED = device_json("d0", capacity={"memory": "40Gi"}, allowMultipleAllocations=True)
NODES = [Node("n1"), Node("n2"), Node("n3")]
SLICES = [
    make_slice("a", [SHARED]),
    make_slice("b", [SHARED], pool="q", nodeName="n2"),
    make_slice("c", [device_json("d0"), device_json("d0")], pool="r", nodeName="n3"),
]


def judge_nodes(
    nodes: list[Node], slices: Any, classes: Any, claims: list[ResourceClaim], rules: SchedulerRules = RULES[1, 36]
) -> list[NodeVerdict]:
    """Verdict for each node, as if one pod used all claims that have no allocation yet."""
    allocator = make_allocator(slices, claims, classes=classes, rules=rules)
    wanted = [claim for claim in claims if not claim.is_allocated]
    return [judge(allocator, node, wanted) for node in nodes]


def judge(allocator: Allocator, node: Node, claims: list[ResourceClaim]) -> NodeVerdict:
    try:
        found = allocator.allocate(node, claims)
    except AllocationError as error:
        return error_verdict(node.name, error)
    if isinstance(found, DoesNotFit):
        return NodeVerdict(
            node.name, VerdictKind.UNAVAILABLE, message=str(found), reason=found.reason, no_fit=found.kind
        )
    return fitting_verdict(node.name, claims, found)


def test_every_node_and_all_claims_together() -> None:
    claims = [
        make_claim(request(capacity={"memory": "15Gi"}), name="first"),
        used(share("d0", memory="20Gi")),
        make_claim(request(capacity={"memory": "20Gi"}), name="second"),
    ]
    verdicts = judge_nodes(NODES, SLICES, [GPU], claims)
    assert {verdict.node: verdict.to_json() for verdict in verdicts} == {
        "n1": {"unavailable": "memory: 5Gi left, 20Gi needed"},
        "n2": {
            "allocations": [
                {
                    "claim": f"ns/{name}",
                    "results": [
                        {
                            "request": "r",
                            "driver": "gpu.example.com",
                            "pool": "q",
                            "device": "d0",
                            "shareID": True,
                            "consumedCapacity": {"memory": amount},
                        }
                    ],
                }
                for name, amount in (("first", "15Gi"), ("second", "20Gi"))
            ]
        },
        "n3": {"unavailable": "pool gpu.example.com/r is invalid: device d0 is published twice"},
    }
    assert [verdict.kind for verdict in verdicts] == [
        VerdictKind.UNAVAILABLE,
        VerdictKind.FITS,
        VerdictKind.UNAVAILABLE,
    ]
    assert [verdict.no_fit for verdict in verdicts] == [NoFitKind.NO_SOLUTION, None, NoFitKind.INVALID_POOLS]
    assert verdicts[0].reason is not None
    assert verdicts[0].reason.nearest.kind is RefusalKind.CAPACITY


def test_admin_access_is_shown() -> None:
    [verdict] = judge_nodes([Node("n1")], SLICES, [GPU], [make_claim(request(adminAccess=True))])
    shown: Any = verdict.to_json()
    assert shown["allocations"][0]["results"][0]["adminAccess"] is True


def test_an_error_is_reported_node_by_node() -> None:
    claims = [make_claim(request(allocationMode="All", capacity={"memory": "1Gi"}))]
    verdicts = judge_nodes(NODES, SLICES, [GPU], claims)
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.FITS, VerdictKind.FITS, VerdictKind.ERROR]
    assert verdicts[2].fatal is FatalReason.POOL_INVALID
    assert verdicts[2].to_json() == {"error": verdicts[2].message}
    assert "gpu.example.com/r is invalid" in verdicts[2].message


def test_without_claims_everything_fits() -> None:
    assert [verdict.to_json() for verdict in judge_nodes(NODES, SLICES, [], [])] == [{"allocations": []}] * 3


STEPS = {"value": "40Gi", "requestPolicy": {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}}
IN_STEPS = make_slice("a", [device_json("d0", capacity={"memory": STEPS}, allowMultipleAllocations=True)])


@pytest.mark.parametrize(
    ("size", "part"),
    [
        ("10e18", "asks for 10e18 of memory and consumes nothing of the device. Kubernetes counts in 64 bits"),
        ("9223372036854775808", "consumes minus 8589934589Gi of the device. Kubernetes counts in 64 bits"),
        ("12Gi", ""),
    ],
)
def test_a_share_that_consumes_too_little_is_reported(size: str, part: str) -> None:
    claims = [make_claim(request(capacity={"memory": size}), name="greedy")]
    [verdict] = judge_nodes([Node("n1")], [IN_STEPS], [GPU], claims)
    assert verdict.kind is VerdictKind.FITS
    shown: Any = verdict.to_json()
    warnings = shown.get("warnings", [])
    assert len(warnings) == bool(part)
    assert all("claim ns/greedy, request r: " in warning and part in warning for warning in warnings)
    [verdict] = judge_nodes([Node("n1")], [IN_STEPS], [GPU], claims, rules=RULES[1, 37])
    assert (verdict.kind is VerdictKind.FITS) is not bool(part)


def test_a_negative_size_is_reported() -> None:
    [verdict] = judge_nodes([Node("n1")], SLICES[:1], [GPU], [make_claim(request(capacity={"memory": "-5Gi"}))])
    assert verdict.warnings == (
        "claim ns/c, request r: asks for -5Gi of memory and consumes minus 5Gi of the device. Kubernetes accepts"
        " negative sizes. The device is overcommitted.",
    )
