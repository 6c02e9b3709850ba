"""Each known defect is found where a cluster has the version and meets it, and nowhere else."""

from __future__ import annotations

from typing import Any

from dra_spawner.doctor.findings import DoctorFinding
from dra_spawner.doctor.rules.defects import defect_findings
from dra_spawner.kubernetes_defects import DEFECTS, KubernetesDefect, Meets, Program
from tests.all_of_them import all_of_them
from tests.doctor.objects import gpu, kubelet, named, resource_slice, sound

NVIDIA = "gpu.nvidia.com"
CONSUMED: dict[str, Any] = {"consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": "1"}}}]}
PARTITION = (resource_slice("node-a", NVIDIA, gpu(**CONSUMED)),)
SHARED_PARTITION = (resource_slice("node-a", NVIDIA, gpu(**CONSUMED, allowMultipleAllocations=True)),)
SHARED = (resource_slice("node-a", NVIDIA, gpu(allowMultipleAllocations=True)),)


def server(*made: str) -> dict[str, Any]:
    """A server with two claims from templates, of which these are made."""
    claims = [{"name": name, "resourceClaimTemplateName": name} for name in ("gpu", "nic")]
    statuses = [{"name": name, "resourceClaimName": f"{name}-1"} for name in made]
    return named("ada", spec={"resourceClaims": claims}, status={"resourceClaimStatuses": statuses})


#: For each thing that meets a defect: facts of a cluster with it, and similar facts without.
FACTS: dict[Meets, tuple[dict[str, Any], dict[str, Any]]] = {
    Meets.RUSH: ({}, {"slices": (resource_slice("node-a", NVIDIA),)}),
    Meets.SHARED_AND_OWN: ({}, {"slices": (resource_slice("node-b", NVIDIA, gpu()),)}),
    Meets.SHARED_PARTITIONS: ({"slices": SHARED_PARTITION}, {"slices": (*SHARED, *PARTITION)}),
    Meets.ALL_OF_PARTITIONS: ({"slices": PARTITION}, {"slices": SHARED}),
    Meets.PARTITIONS: ({"slices": PARTITION}, {"slices": SHARED}),
    Meets.TAINT_RULES: ({"gates": {"DRADeviceTaintRules": True}}, {"gates": {"DRADeviceTaintRules": False}}),
    Meets.LATE_TEMPLATE: ({"hub_namespace_pods": (server(),)}, {"hub_namespace_pods": (server("gpu"),)}),
    Meets.SEVERAL_TEMPLATES: (
        {"hub_namespace_pods": (server("gpu"),)},
        {"hub_namespace_pods": (server("gpu", "nic"),)},
    ),
    Meets.LARGE_CLUSTER: (
        {"slices": tuple(resource_slice(f"node-{number}", NVIDIA, gpu()) for number in range(500))},
        {},
    ),
}


def of(defect: KubernetesDefect, minor: tuple[int, int], patch: int | None, **facts: Any) -> list[DoctorFinding]:
    """What is found about one defect in a version."""
    version: dict[str, Any] = {"kubernetes": minor, "kubernetes_patch": patch}
    if defect.program is Program.KUBELET:
        text = ".".join(map(str, minor)) + ("" if patch is None else f".{patch}")
        version = {"kubernetes": (1, 36), "nodes": (kubelet("node-a", f"v{text}-eks-1"), kubelet("node-b", "v1.36.0"))}
    found = defect_findings(sound(**{**version, **facts}))
    return [each for each in found if defect.address in each.sentence]


@all_of_them("defect", {str(defect.issue): defect for defect in DEFECTS})
def test_a_defect_is_found_where_it_is_met(defect: KubernetesDefect) -> None:
    met, not_met = FACTS[defect.meets]
    for minor, mended in defect.mended.items():
        (found,) = of(defect, minor, 0, **met)
        assert found.code == "kubernetes-defect"
        assert f"{defect.program} {minor[0]}.{minor[1]}.0" in found.sentence
        assert found.fix == defect.remedy(minor)
        assert found.where == ("Node node-a" if defect.program is Program.KUBELET else "")
        assert of(defect, minor, 0, **not_met) == []
        if mended is not None:
            assert of(defect, minor, mended, **met) == []
            assert of(defect, minor, None, **met) == []


def test_nodes_with_one_version_are_one_finding() -> None:
    slices = tuple(resource_slice(f"node-{name}", NVIDIA, gpu()) for name in "abc")
    nodes = tuple(kubelet(f"node-{name}", "v1.34.3") for name in "cba")
    (found,) = defect_findings(sound(slices=slices, nodes=nodes))
    assert found.where == "Node node-a and 2 more"
